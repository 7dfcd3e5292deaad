"""Idle and free GPU-hours of workloads that were suspended because nobody used them, in every database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from t9ksched.store import Store
from t9ksched.store.history import Event, Visibility
from t9ksched.store.idle_tables import usage_idle
from t9ksched.store.spans import HOUR

T0 = datetime(2031, 1, 30, 20, tzinfo=UTC)
HEAD: dict[str, Any] = {"kind": "Notebook", "namespace": "ml", "name": "lab", "queue": "q", "uid": "u"}


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def bound(hours: float, *cards: int, **detail: Any) -> Event:
    more = {"pod": "p", "node": "n", "model": "A100", "cards": {"main": list(cards or (0,))}, **detail}
    return Event(event="bound", at=at(hours), actor="scheduler", detail=more, **HEAD)


def said(event: str, hours: float, **detail: Any) -> Event:
    return Event(event=event, at=at(hours), actor="scheduler", detail=detail, **HEAD)


def suspended(hours: float, since: float) -> Event:
    return said("suspended-idle", hours, idleSince=at(since).isoformat())


FIRST = [bound(0, 0, 1), said("started", 1), suspended(10, 4), said("released", 10.01, pod="p")]
Case = tuple[list[Event], tuple[float, float] | None, tuple[float, float]]
CASES: dict[str, Case] = {
    "suspended, and free since": (FIRST, None, (12, 20)),
    "taken again": ([*FIRST, bound(13)], None, (12, 6)),
    "told after a crash, when it was taken again": ([*FIRST[:2], *FIRST[3:], bound(13), FIRST[2]], None, (12, 6)),
    "deleted": ([*FIRST, said("deleted", 12)], None, (12, 4)),
    "suspended twice": ([*FIRST, bound(13), suspended(18, 15), said("released", 18, pod="p")], None, (15, 8)),
    "idle from before it had its cards": ([bound(0), suspended(3, -9), said("released", 3, pod="p")], None, (3, 17)),
    "its pod ended first": ([*FIRST[:2], said("released", 9.999, pod="p"), suspended(10, 4)], None, (12, 20)),
    "without cards": ([said("started", 0), suspended(3, 1)], None, (0, 0)),
    "half a card": ([bound(0, physicalCards=0.5), suspended(10, 4)], None, (3, 5)),
    "a window": (FIRST, (6, 15), (8, 10)),
    "a window after it was taken again": ([*FIRST, bound(13)], (14, 20), (0, 0)),
}


@pytest.mark.parametrize("case", CASES)
async def test_hours(store: Store, case: str) -> None:
    events, window, expected = CASES[case]
    await store.history.append_many(events)
    since, until = (None, 20) if window is None else window
    for by in ("queue", "job", "model", "month", "card"):
        begin = at(since) if since is not None else None
        found = await store.usage.report([by], since=begin, until=at(until), now=at(20))
        total = sum(one.idle for one in found.values()), sum(one.free for one in found.values())
        assert tuple(round(amount / HOUR, 2) for amount in total) == expected, by
        assert sum(one.idle for one in found.values()) <= sum(one.amount for one in found.values())


async def test_months_and_who_may_see_them(store: Store) -> None:
    await store.history.append_many(FIRST)
    found = await store.usage.report(["month"], since=None, until=at(40), now=at(40))
    hours = {key[0]: (one.idle / HOUR, one.free / HOUR) for key, one in found.items()}
    assert hours == {"2031-01": (12.0, 36.0), "2031-02": (0.0, 24.0)}
    other = Visibility(user="bob")
    assert await store.usage.report(["queue"], since=None, until=at(20), now=at(20), seen_by=other) == {}


async def test_written_twice_it_counts_once_and_leaves_with_history(store: Store) -> None:
    await store.history.append_many([*FIRST, FIRST[2], bound(13)])
    found = await store.usage.report(["queue"], since=None, until=at(20), now=at(20))
    assert [(one.idle / HOUR, one.free / HOUR) for one in found.values()] == [(12.0, 6.0)]
    for before, left in ((12, 1), (14, 0)):
        await store.usage.purge(at(before))
        async with store.database.read() as connection:
            assert (await connection.execute(select(func.count()).select_from(usage_idle))).scalar_one() == left
