"""GPU-hours: each way a span begins and ends, windows, months, and that every sum is the same sum."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.store.history import Event
from t9ksched.store.usage import KEYS, Fold, Span, report

T0 = datetime(2031, 1, 1, tzinfo=UTC)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def happened(*events: tuple[float, str, dict[str, Any]], uid: str = "u") -> list[Span]:
    fold = Fold()
    for hours, event, detail in events:
        actor = detail.pop("actor", "scheduler")
        head = {"uid": uid, "kind": "Pod", "namespace": "ml", "name": uid, "queue": "q", "actor": actor}
        fold.take(Event(event=event, at=at(hours), detail=detail, **head))
    return fold.spans


def bound(pod: str = "p", *cards: int) -> dict[str, Any]:
    return {"pod": pod, "node": "n", "cards": {"main": list(cards or (0,))}}


def hours(spans: list[Span], since: float | None = None, until: float = 100) -> tuple[float, float]:
    rows = report(spans, ["queue"], since=None if since is None else at(since), until=at(until))
    return (rows[0]["gpuHours"], rows[0]["heldHours"]) if rows else (0, 0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([(0, "bound", bound()), (1, "started", {}), (3, "finished", {})], (3, 1)),
        ([(0, "bound", bound()), (2, "taken-back", {})], (2, 2)),
        ([(0, "bound", bound()), (1, "started", {}), (2, "deleted", {}), (3, "finished", {})], (2, 1)),
        (
            [
                (0, "bound", bound("a")),
                (0, "bound", bound("b")),
                (1, "started", {}),
                (2, "released", {"pod": "a"}),
                (4, "finished", {}),
            ],
            (6, 2),
        ),
        ([(0, "bound", bound()), (1, "started", {})], (100, 1)),
        ([(0, "bound", bound())], (100, 100)),
        (
            [
                (0, "bound", bound("p", 0, 1, 2)),
                (1, "started", {}),
                (2, "preempted", {}),
                (5, "bound", bound("p", 3)),
                (6, "started", {}),
                (7, "finished", {}),
            ],
            (8, 4),
        ),
        ([(0, "started", {}), (1, "bound", bound()), (3, "finished", {})], (2, 0)),
        ([(0, "bound", bound()), (1, "bound", bound()), (2, "finished", {})], (2, 2)),
        ([(0, "bound", {"pod": "p", "node": "n", "cards": {}}), (2, "finished", {})], (0, 0)),
        (
            [(0, "bound", {"pod": "p", "node": "n", "cards": {"init": [0, 1], "main": [0, 1]}}), (2, "finished", {})],
            (4, 4),
        ),
    ],
    ids=[
        "whole life",
        "never ran",
        "deleted first",
        "pods end apart",
        "runs on",
        "still held",
        "preempted and back",
        "joined a running job",
        "same name again",
        "no cards",
        "init and main share cards",
    ],
)
def test_a_jobs_life(events: list[Any], expected: tuple[float, float]) -> None:
    assert hours(happened(*events)) == expected


def test_windows() -> None:
    spans = happened((0, "bound", bound()), (2, "started", {}), (10, "finished", {}))
    assert hours(spans, 1, 5) == (4, 1)
    assert hours(spans, 3, 5) == (2, 0)
    assert hours(spans, 10, 20) == (0, 0)


def test_who_submitted() -> None:
    spans = happened((0, "submitted", {"actor": "ann"}), (0, "bound", bound()), (1, "finished", {}))
    assert report(spans, ["user"], since=None, until=at(9))[0]["user"] == "ann"


SPANS = st.builds(
    lambda start, length, ran, cards, queue, user, node: Span(
        "u", "ml", "Pod/p", queue, user, "p", node, tuple(cards), None, at(start),
        at(start + min(ran, length)), at(start + length),
    ),
    st.floats(0, 5000), st.floats(0, 2000), st.floats(0, 100), st.sets(st.integers(0, 7), min_size=1),
    st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from(["n1", "n2"]),
)  # fmt: skip


@given(st.lists(SPANS, max_size=12), st.floats(0, 3000), st.floats(3000, 9000))
def test_the_sum_over_anything_is_the_sum_over_cards(spans: list[Span], since: float, until: float) -> None:
    def total(*by: str) -> tuple[int, int]:
        rows = report(spans, by, since=at(since), until=at(until))
        return tuple(round(sum(row[key] for row in rows) * 3600) for key in ("gpuHours", "heldHours"))  # type: ignore[return-value]

    cards = total("card")
    for key in KEYS:
        assert total(key) == cards
    assert total("queue", "month", "card") == cards
    assert cards[1] <= cards[0]
