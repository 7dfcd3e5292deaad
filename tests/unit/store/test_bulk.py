"""Rows written in bulk are the rows SQLAlchemy would have written."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from t9ksched.store import Store
from t9ksched.store.bulk import Bulk
from t9ksched.store.history import Event, values
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
    bulk = Bulk(history, NAMES, lambda _: insert(history))
    async with store.database.write() as connection:
        await connection.execute(insert(history), rows)
        await connection.run_sync(bulk.write, rows)
        await connection.run_sync(bulk.write, [])
    columns = ", ".join(f"CAST({name} AS TEXT)" for name in NAMES)
    async with store.database.read() as connection:
        raw = [tuple(found) for found in await connection.execute(text(f"SELECT {columns} FROM history ORDER BY id"))]
        decoded = (await connection.execute(select(history.c.at).order_by(history.c.id))).scalars().all()
    assert raw[: len(rows)] == raw[len(rows) :]
    assert len(raw) == 2 * len(rows)
    assert list(decoded) == [row["at"] for row in rows] * 2


async def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    bulk = Bulk(history, NAMES, lambda _: insert(history))
    with pytest.raises(Exception, match="carry a zone"):
        async with store.database.write() as connection:
            await connection.run_sync(bulk.write, [row(datetime(2026, 1, 1), {})])  # noqa: DTZ001


async def test_objects_are_written_as_their_rows_would_be(store: Store) -> None:
    events = [
        Event(event="bound", at=at, name=name, queue="q", detail=detail)
        for at in MOMENTS
        for name, detail in (("x" * 300, {"cards": {"ü": [0]}}), ("nul\x00", {}), ("plain", {"x": None}))
    ]
    bulk = Bulk(history, NAMES, lambda _: insert(history))
    cut = lengths(history, "kind", "namespace", "name", "queue", "actor")
    async with store.database.write() as connection:
        await connection.run_sync(bulk.write, [values(event) for event in events])
        await connection.run_sync(bulk.write_objects, events, cut)
        await connection.run_sync(bulk.write_objects, [], cut)
    columns = ", ".join(f"CAST({name} AS TEXT)" for name in NAMES)
    async with store.database.read() as connection:
        raw = [tuple(found) for found in await connection.execute(text(f"SELECT {columns} FROM history ORDER BY id"))]
    assert raw[: len(events)] == raw[len(events) :]
    names = {found[NAMES.index("name")] for found in raw}
    assert names == {"x" * 253, "nul\ufffd", "plain"}
