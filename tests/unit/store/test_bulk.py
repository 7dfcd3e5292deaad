"""Rows written in bulk are the rows SQLAlchemy would have written."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import bindparam, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from t9ksched.store import Store, bulk
from t9ksched.store.bindings import CardBinding
from t9ksched.store.bulk import Bulk, Statement
from t9ksched.store.history import Event
from t9ksched.store.rows import lengths, upserting
from t9ksched.store.tables import history, usage_sum

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
    written: Bulk[Event] = Bulk(history, NAMES, lambda _: insert(history))
    with pytest.raises(Exception, match="carry a zone"):
        async with store.database.write() as connection:
            await connection.run_sync(written.write, [Event(event="bound", at=datetime(2026, 1, 1))])  # noqa: DTZ001


async def test_objects_are_written_as_their_rows_would_be_and_texts_are_cut(store: Store) -> None:
    events = [
        Event(event="bound", at=at, name=name, queue="q", detail=detail)
        for at in MOMENTS
        for name, detail in (("x" * 253, {"cards": {"ü": [0]}}), ("nul\ufffd", {}), ("plain", {"x": None}))
    ]
    told = {"x" * 253: "x" * 300, "nul\ufffd": "nul\x00", "plain": "plain"}
    cut = lengths(history, "kind", "namespace", "name", "queue", "actor")
    written: Bulk[Event] = Bulk(history, NAMES, lambda _: insert(history), cut=cut)
    async with store.database.write() as connection:
        await connection.execute(insert(history), [{name: getattr(event, name) for name in NAMES} for event in events])
        await connection.run_sync(written.write, [replace(event, name=told[str(event.name)]) for event in events])
        await connection.run_sync(written.write, [])
    columns = ", ".join(f"CAST({name} AS TEXT)" for name in NAMES)
    async with store.database.read() as connection:
        raw = [tuple(found) for found in await connection.execute(text(f"SELECT {columns} FROM history ORDER BY id"))]
    assert len(raw) == 2 * len(events)
    assert raw[: len(events)] == raw[len(events) :]


async def test_what_is_not_there_is_null_and_no_json(store: Store) -> None:
    about = {"namespace": "n", "name": "p", "node": "a", "cards": [], "honoured": False, "at": MOMENTS[0]}
    units = [[("card", "card")], None, None]
    await store.bindings.put(
        [CardBinding(pod_uid=f"u{number:03}", units=units[number % 3], **about) for number in range(300)]
    )
    async with store.database.read() as connection:
        found = await connection.execute(text("SELECT count(*) FROM binding WHERE parts IS NULL AND units IS NULL"))
        assert found.scalar_one() == 200
    assert [one.units for one in await store.bindings.all()] == units * 100


async def test_json_that_was_made_before_is_written_as_it_is(store: Store) -> None:
    made = [msgspec.Raw(b'{"a": 1}'), msgspec.Raw(b'{"a":\n1}'), {"a": msgspec.Raw(b"\n1")}, {"a": 1}]
    for details in (made[:2], made):
        await store.history.append_many([Event(event="bound", at=MOMENTS[0], detail=one) for one in details])  # type: ignore[arg-type]
    assert [event.detail for event in await store.history.list()] == [{"a": 1}] * 6


async def test_hundreds_of_rows_are_written_in_their_order(store: Store) -> None:
    events = [Event(event="bound", at=MOMENTS[0], name=f"p{number}", detail={"n": number}) for number in range(621)]
    await store.history.append_many(events)
    found = await store.history.list(limit=1000)
    assert [(event.name, event.detail) for event in found] == [(event.name, event.detail) for event in events]


async def test_rows_of_one_key_are_added_up_one_after_the_other(store: Store) -> None:
    class Sum:
        day, queue, submitter, namespace, model, resource, held, jobs = "2026-01-01", "q", "s", "n", "m", "r", 0, 1
        amount = 2

    names = [column.name for column in usage_sum.columns]
    statement = upserting(usage_sum, names, adds=("amount", "held", "jobs"))
    async with store.database.write() as connection:
        await connection.run_sync(statement.write, [Sum()] * 600)
    async with store.database.read() as connection:
        assert (await connection.execute(select(usage_sum.c.amount, usage_sum.c.jobs))).all() == [(1200, 600)]


class Speaks:
    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect


def blocks(statement: Statement, dialect: Any, rows: int) -> list[int]:
    """How many rows each of its steps takes, one after the other."""
    steps = statement.steps(Speaks(dialect), [row(MOMENTS[0], {})] * rows)
    return [step.text.count("), (") + 1 for step in steps for _ in step.parameters]


def test_sqlite_takes_many_rows_at_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def inserting() -> Statement:
        return Statement({name: history.c[name].type for name in NAMES}, lambda _: insert(history).inline())

    assert blocks(inserting(), sqlite.dialect(), 502) == [250, 250, 1, 1]
    assert blocks(inserting(), sqlite.dialect(), 3) == [1, 1, 1]
    assert blocks(inserting(), postgresql.dialect(), 300) == [1] * 300
    monkeypatch.setattr(bulk, "_MOST_PARAMETERS", 999)
    assert blocks(inserting(), sqlite.dialect(), 230) == [111, 111, *[1] * 8]


def test_what_is_no_insertion_is_executed_row_by_row() -> None:
    statement = Statement(
        {name: history.c[name].type for name in NAMES},
        lambda _: update(history).values({name: bindparam(name) for name in NAMES}),
    )
    assert blocks(statement, sqlite.dialect(), 300) == [1] * 300
