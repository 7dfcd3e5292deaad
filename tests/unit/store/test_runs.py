"""Clocks and limits of jobs in SQL, and what an upgrade does to those that are there."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from t9ksched.store import Store, schema
from t9ksched.store.history import Event
from t9ksched.store.runs import Run
from tests.unit.store.test_schema import connect


async def test_what_was_asked_before_an_update_is_kept_and_unknown_for_older_rows(address: str) -> None:
    run = Run(uid="a", ended_at=10**18, ended_limit=20, ended_asked=25)
    async with await Store.open(address) as store:
        await store.runs.put([run])
        assert await store.runs.all() == [run]
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0021") - 1])
    with connect(address) as connection:
        (row,) = connection.execute(text("SELECT * FROM job_run")).mappings()
        assert (row["uid"], row["ended_limit"], "ended_asked" in row) == ("a", 20, False)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.runs.all() == [Run(uid="a", ended_at=10**18, ended_limit=20)]


async def test_the_end_of_a_reservation_is_kept_and_is_none_for_older_rows(address: str) -> None:
    run = Run(uid="a", bound_at=10**18, limit=60, reserved_until=2 * 10**18)
    async with await Store.open(address) as store:
        await store.runs.put([run])
        assert await store.runs.all() == [run]
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0020") - 1])
    with connect(address) as connection:
        (row,) = connection.execute(text("SELECT * FROM job_run")).mappings()
        assert (row["uid"], row["limit"], "reserved_until" in row) == ("a", 60, False)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.runs.all() == [Run(uid="a", bound_at=10**18, limit=60)]


async def test_when_a_limit_was_given_is_kept_apart_from_what_is_decided_later(address: str) -> None:
    first = datetime(2031, 1, 7, 20, tzinfo=UTC)

    def event(uid: str, hours: int) -> Event:
        return Event(event="job-limited", uid=uid, actor="ann", at=first + timedelta(hours=hours))

    async with await Store.open(address) as store:
        await store.controls.limit(event("limited", 0), 60)
        for uid in ("limited", "held"):
            await store.controls.hold(event(uid, 1))
        kept = {one.uid: one for one in await store.controls.all()}
        assert (kept["limited"].limited_at, kept["limited"].at) == (first, first + timedelta(hours=1))
        assert kept["held"].limited_at is None
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0022") - 1])
    with connect(address) as connection:
        rows = {row["uid"]: row for row in connection.execute(text("SELECT * FROM job_control")).mappings()}
        assert (rows["limited"]["time_limit_seconds"], "limited_at" in rows["limited"]) == (60, False)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        kept = {one.uid: one for one in await store.controls.all()}
        assert kept["limited"].limited_at == first + timedelta(hours=1), "with the last decision, as was believed"
        assert (kept["held"].limited_at, kept["held"].held) == (None, True)
