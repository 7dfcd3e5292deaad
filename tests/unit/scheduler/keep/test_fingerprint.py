"""The fingerprint of a projected spec: that of earlier releases where none of the later fields is used."""

from typing import Any

import pytest

from t9ksched.model.queue import parse_queue_spec
from t9ksched.scheduler.keep.queue_sync import fingerprint

OLD = {"priority": 5, "preemptible": True, "closed": False, "maxDuration": "3d"}


def test_what_earlier_releases_wrote_is_no_edit() -> None:
    assert fingerprint(parse_queue_spec(OLD)) == "6f33543b2183928c"


@pytest.mark.parametrize(
    "more",
    [
        {"ordering": "Backfill"},
        {"starvation": {"after": "1h"}},
        {"starvation": {"after": "0"}},
        {"starvation": {"maxHeldShare": "1%"}},
        {"startWindows": [{"from": "20:00", "to": "06:00"}]},
    ],
)
def test_every_field_counts(more: dict[str, Any]) -> None:
    assert fingerprint(parse_queue_spec(OLD | more)) != fingerprint(parse_queue_spec(OLD))


def test_other_spellings_are_no_edit() -> None:
    one, other = ({"starvation": {"after": text}} for text in ("60m", "1h"))
    assert fingerprint(parse_queue_spec(one)) == fingerprint(parse_queue_spec(other))
    assert fingerprint(parse_queue_spec(OLD | {"starvation": {}})) == fingerprint(parse_queue_spec(OLD))
