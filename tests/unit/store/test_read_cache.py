"""What is decided, from memory: as true as the database at each question, whichever process changed it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from t9ksched.store import Store, changes, history
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event
from t9ksched.store.job_overrides import SCHEDULING, Stop
from t9ksched.store.read_cache import Decided
from t9ksched.store.tokens import TokenRecord, digest

NOW = datetime(2031, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
async def elsewhere(store: Store, address: str) -> AsyncIterator[Store]:
    """Another process on the same database."""
    async with await Store.open(address, migrate=False) as other:
        yield other


async def truth(store: Store) -> Decided:
    """What the tables say."""
    return Decided(
        await store.changes.head(),
        {record.name: record for record in await store.queues.list()},
        await store.tokens.by_digest(),
        {control.uid: control for control in await store.controls.all()},
        await store.stops.all(),
    )


async def test_every_change_is_seen_by_the_next_question(store: Store, elsewhere: Store) -> None:
    about = Event(event=history.JOB_HELD, uid="job", actor="boss")
    assert await store.read_cache.now() == await truth(store)
    secret = ""

    async def token() -> None:
        nonlocal secret
        secret = await elsewhere.tokens.create("ann", groups=["ml"])

    for change in (
        lambda: elsewhere.queues.create("b", {}, {}),
        lambda: elsewhere.queues.create("a", {}, {"priority": 3}),
        lambda: elsewhere.queues.edit("b", lambda _: ({"x": "y"}, {})),
        lambda: elsewhere.queues.set_members("a", {"users": ["ann"]}),
        lambda: elsewhere.queues.delete("b"),
        token,
        lambda: elsewhere.controls.hold(about),
        lambda: elsewhere.controls.prioritise(about, 9),
        lambda: elsewhere.stops.stop(Stop(SCHEDULING, NOW, "admin", NOW)),
        lambda: elsewhere.stops.resume(SCHEDULING, "admin"),
    ):
        await change()
        now = await store.read_cache.now()
        assert now == await truth(store)
        assert list(now.queues) == sorted(now.queues)
    assert (await store.read_cache.now()).tokens[digest(secret)].name == "ann"
    await elsewhere.tokens.revoke("ann")
    assert digest(secret) not in (await store.read_cache.now()).tokens


async def test_what_did_not_change_is_not_read_again(store: Store, elsewhere: Store) -> None:
    before = await store.read_cache.now()
    assert await store.read_cache.now() is before
    await elsewhere.tokens.create("ann")
    after = await store.read_cache.now()
    assert after.queues is before.queues
    assert after.tokens is not before.tokens


async def test_a_log_with_a_gap_is_reason_to_read_everything(store: Store, elsewhere: Store) -> None:
    await store.read_cache.now()
    await elsewhere.queues.create("a", {}, {})
    await elsewhere.queues.create("b", {}, {})
    async with elsewhere.database.write() as connection:
        await connection.execute(text("DELETE FROM change_log WHERE key = 'a'"))
    assert set((await store.read_cache.now()).queues) == {"a", "b", "default"}
    await elsewhere.queues.create("c", {}, {})
    await elsewhere.changes.purge(datetime.now(UTC) + timedelta(hours=1))
    assert await store.read_cache.now() == await truth(store)


async def test_another_database_in_its_place_is_read_as_it_is(store: Store, elsewhere: Store) -> None:
    """A backup was restored under a running process: the revisions go back."""
    for name in ("a", "b"):
        await elsewhere.queues.create(name, {}, {})
    await store.read_cache.now()
    async with elsewhere.database.write() as connection:
        await connection.execute(text("DELETE FROM queue WHERE name = 'b'"))
        await connection.execute(text("DELETE FROM change_log WHERE key = 'b'"))
        await connection.execute(text("UPDATE revision_counter SET value = value - 1"))
    assert await store.read_cache.now() == await truth(store)


async def test_more_changes_than_are_taken_one_by_one(store: Store, elsewhere: Store) -> None:
    await store.read_cache.now()
    await elsewhere.queues.create("a", {}, {})
    async with elsewhere.database.write() as connection:
        await changes.append(connection, "acceptance", *(f"u{number}" for number in range(1100)))
    await elsewhere.queues.create("b", {}, {})
    assert await store.read_cache.now() == await truth(store)


async def test_many_questions_at_once_share_reads_and_see_what_was_committed(store: Store, elsewhere: Store) -> None:
    async def one(number: int) -> None:
        await elsewhere.queues.create(f"q{number}", {}, {})
        assert f"q{number}" in (await store.read_cache.now()).queues

    await asyncio.gather(*(one(number) for number in range(20)))


async def test_a_database_that_is_away_is_told_and_what_it_said_before_is_not(store: Store, elsewhere: Store) -> None:
    await store.read_cache.now()
    async with elsewhere.database.write() as connection:
        await connection.execute(text("ALTER TABLE change_log RENAME TO gone"))
    asked = await asyncio.gather(*(store.read_cache.now() for _ in range(5)), return_exceptions=True)
    assert all(isinstance(one, StoreError) for one in asked)
    async with elsewhere.database.write() as connection:
        await connection.execute(text("ALTER TABLE gone RENAME TO change_log"))
    assert await store.read_cache.now() == await truth(store)


def test_groups_of_a_user_are_those_of_tokens_that_still_count() -> None:
    def token(name: str, groups: list[str], end: datetime | None = None) -> TokenRecord:
        return TokenRecord(name, "ann", "user", groups, [], NOW, end, None)

    decided = Decided(1, tokens={"x": token("x", ["ml"]), "y": token("y", ["ops"], NOW)})
    assert decided.groups_of("ann", NOW) == {"ml"}
    assert decided.groups_of("ann", NOW - timedelta(seconds=1)) == {"ml", "ops"}
    assert decided.groups_of("bob", NOW) == frozenset()
