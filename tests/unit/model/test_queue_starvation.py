"""A queue's own values of starvation: what is written, what it means, and what is refused with which path."""

from typing import Any

import pytest

from t9ksched.cli.commands.queues import _starvation
from t9ksched.model.errors import Invalid
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.queue_starvation import QueueStarvation


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        (None, None),
        ({}, None),
        ({"after": None, "maxHeldShare": None}, None),
        ({"after": "2h"}, QueueStarvation(7200, None)),
        ({"after": "0"}, QueueStarvation(0, None)),
        ({"after": "0m"}, QueueStarvation(0, None)),
        ({"after": "1500ms"}, QueueStarvation(2, None)),
        ({"maxHeldShare": "0%"}, QueueStarvation(None, 0)),
        ({"after": "30m", "maxHeldShare": "100%"}, QueueStarvation(1800, 100)),
    ],
)
def test_what_is_meant(raw: Any, meant: QueueStarvation | None) -> None:
    spec = parse_queue_spec({"starvation": raw})
    assert spec.starvation == meant
    assert parse_queue_spec(spec.to_dict()) == spec


def test_it_comes_back_as_it_was_written() -> None:
    raw = {"starvation": {"after": "120m", "maxHeldShare": None}}
    assert parse_queue_spec(raw).to_dict() == {"starvation": {"after": "120m"}}


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        ("30m", [""]),
        ([], [""]),
        ({"after": "soon"}, [".after"]),
        ({"after": 0}, [".after"]),
        ({"after": ""}, [".after"]),
        ({"after": "11y"}, [".after"]),
        ({"after": True, "maxHeldShare": 20}, [".after", ".maxHeldShare"]),
        ({"maxHeldShare": "20"}, [".maxHeldShare"]),
        ({"maxHeldShare": "101%"}, [".maxHeldShare"]),
        ({"maxHeldShare": "-1%", "share": "1%"}, [".share", ".maxHeldShare"]),
    ],
)
def test_what_is_refused(raw: Any, paths: list[str]) -> None:
    with pytest.raises(Invalid) as failure:
        parse_queue_spec({"starvation": raw})
    assert [fault.path for fault in failure.value.errors] == [f"spec.starvation{path}" for path in paths]


@pytest.mark.parametrize(
    ("before", "after", "share", "changes"),
    [
        ({}, None, None, {}),
        ({}, "2h", None, {"starvation": {"after": "2h"}}),
        ({"after": "2h"}, None, "5%", {"starvation": {"after": "2h", "maxHeldShare": "5%"}}),
        ({"after": "2h", "maxHeldShare": "5%"}, "default", None, {"starvation": {"maxHeldShare": "5%"}}),
        ({"after": "2h"}, "default", None, {"starvation": {}}),
    ],
)
def test_options(before: dict[str, str], after: str | None, share: str | None, changes: dict[str, Any]) -> None:
    assert _starvation({"starvation": before}, after, share) == changes
