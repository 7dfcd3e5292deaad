"""Rows written in bulk are the rows SQLAlchemy would have written."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import insert, select, text

from t9ksched.store import Store
from t9ksched.store.bulk import Bulk, Statement
from t9ksched.store.history import Event
from t9ksched.store.rows import lengths
from t9ksched.store.tables import history

NAMES = ("at", "event", "kind", "namespace", "name", "uid", "queue", "actor", "detail")
MOMENTS = [
    datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    datetime(2026, 1, 2, 11, 4, 5, 1, timezone(timedelta(hours=8))),
]


def row(at: datetime, detail: Any, event: str = "bound") -> dict[str, Any]:
    return dict.fromkeys(NAMES) | {"at": at, "event": event, "name": "a'b:c%d?", "detail": detail}


async def test_both_ways_leave_the_same_bytes(store: Store) -> None:
    rows = [row(at, detail) for at in MOMENTS for detail in ({"cards": {"main": [0]}, "ü": None}, {}, {"x": "%s ?"})]
    statement = Statement({name: history.c[name].type for name in NAMES}, lambda _: insert(history))
    async with store.database.write() as connection:
        await connection.execute(insert(history), rows)
        await connection.run_sync(statement.write, rows)
        await connection.run_sync(statement.write, [])
    columns = ", ".join(f"CAST({name} AS TEXT)" for name in NAMES)
    async with store.database.read() as connection:
        raw = [tuple(found) for found in await connection.execute(text(f"SELECT {columns} FROM history ORDER BY id"))]
        decoded = (await connection.execute(select(history.c.at).order_by(history.c.id))).scalars().all()
    assert raw[: len(rows)] == raw[len(rows) :]
    assert len(raw) == 2 * len(rows)
    assert list(decoded) == [row["at"] for row in rows] * 2


async def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    bulk: Bulk[Event] = Bulk(history, NAMES, lambda _: insert(history))
    with pytest.raises(Exception, match="carry a zone"):
        async with store.database.write() as connection:
            await connection.run_sync(bulk.write, [Event(event="bound", at=datetime(2026, 1, 1))])  # noqa: DTZ001


async def test_objects_are_written_as_their_rows_would_be_and_texts_are_cut(store: Store) -> None:
    events = [
        Event(event="bound", at=at, name=name, queue="q", detail=detail)
        for at in MOMENTS
        for name, detail in (("x" * 253, {"cards": {"ü": [0]}}), ("nul\ufffd", {}), ("plain", {"x": None}))
    ]
    told = {"x" * 253: "x" * 300, "nul\ufffd": "nul\x00", "plain": "plain"}
    cut = lengths(history, "kind", "namespace", "name", "queue", "actor")
    bulk: Bulk[Event] = Bulk(history, NAMES, lambda _: insert(history), cut=cut)
    async with store.database.write() as connection:
        await connection.execute(insert(history), [{name: getattr(event, name) for name in NAMES} for event in events])
        await connection.run_sync(bulk.write, [replace(event, name=told[str(event.name)]) for event in events])
        await connection.run_sync(bulk.write, [])
    columns = ", ".join(f"CAST({name} AS TEXT)" for name in NAMES)
    async with store.database.read() as connection:
        raw = [tuple(found) for found in await connection.execute(text(f"SELECT {columns} FROM history ORDER BY id"))]
    assert len(raw) == 2 * len(events)
    assert raw[: len(events)] == raw[len(events) :]
