"""What is remembered of events: as many as a server may repeat, and no more than twice that."""

import pytest

from t9ksched.kube.watch import known as module
from t9ksched.kube.watch.identity import Identity, goes_back
from t9ksched.kube.watch.known import KnownObjects
from tests.unit.kube.mirrored import Mirror


def test_the_newest_events_are_known_again_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    objects: KnownObjects[object] = KnownObjects(Mirror(), selected=False)
    events = [Identity("ns", f"p{number}", f"u{number}", str(number)) for number in range(100)]
    for at, event in enumerate(events):
        assert not objects.repeated(event, False)
        assert not objects.repeated(event, True), "a deletion is another event"
        assert all(objects.repeated(each, False) for each in events[max(0, at - 4) : at + 1])
    assert not objects.repeated(events[0], False)


@pytest.mark.parametrize(
    ("known", "version", "back"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("10", "10", False),
        ("12", "11", True),
        ("11", "12", False),
        ("b", "a", False),
        ("1x", "9", False),
        ("", "9", False),
        ("9", "", False),
    ],
)
def test_versions_that_go_back(known: str, version: str, back: bool) -> None:
    assert goes_back(known, version) is back
