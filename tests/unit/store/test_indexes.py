"""Questions that are asked often are answered from an index, however long history is."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import Connection, Engine

from t9ksched.model.notification import EVENTS, Address
from t9ksched.store import Store, history, schema, tables
from t9ksched.store.conditions import BY_USERS, SELDOM
from t9ksched.store.history import AUDITED, OF_EVERY_LIFE, OUTCOMES, Event, Visibility
from t9ksched.store.jobs import Matching
from t9ksched.store.notifications import new_target

NOW = datetime(2031, 1, 1, tzinfo=UTC)
Ask = Callable[[Store], Awaitable[Any]]


@contextmanager
def plans() -> Iterator[list[str]]:
    """What SQLite says about how it answers each question on the tables `history` and `job`."""
    found: list[str] = []

    @event.listens_for(Engine, "before_cursor_execute")
    def explain(connection: Connection, _: object, statement: str, parameters: Any, *__: object) -> None:
        if statement.startswith("SELECT") and ("FROM history" in statement or "FROM job" in statement):
            cursor = connection.connection.cursor()
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.extend(str(row[3]) for row in cursor.fetchall())
            cursor.close()

    yield found
    event.remove(Engine, "before_cursor_execute", explain)


def told(store: Store) -> Awaitable[Any]:
    """The first cards of a job of which history knows the submitter."""
    detail = {"pod": "p", "node": "n", "cards": {"main": [0]}}
    about = {"kind": "PodGroup", "namespace": "ns", "name": "g", "uid": "u", "actor": "scheduler"}
    return store.history.append(Event(event=history.BOUND, detail=detail, **about))


def evicted(store: Store) -> Awaitable[Any]:
    """An eviction of which somebody wants to be told."""

    async def act() -> None:
        to = new_target(Address("webhook", "https://example.org/a", "https://example.org/…"), "ann", EVENTS)
        await store.notifications.add(to, 9, by="ann")
        about = {"kind": "PodGroup", "namespace": "ns", "name": "g", "uid": "u", "actor": "scheduler"}
        await store.tell([], [Event(event=history.PREEMPTED, detail={"pod": "p"}, **about)], [])

    return act()


def bound_of(store: Store) -> Awaitable[Any]:
    """Where the pods of a job were bound."""
    return store.history.list(namespace="n", name="p", uid="u", event=history.BOUND, newest_first=True)


def seen_by_ann(store: Store) -> Awaitable[Any]:
    """What happened to jobs of a name, as one user may see it."""
    return store.history.list(namespace="n", kind="Pod", name="p", seen_by=Visibility("ann"))


def gone_of_ann(store: Store) -> Awaitable[Any]:
    """Whatever jobs of a user there are and were."""
    return store.jobs.page(Matching(users=("ann",)), deleted=True, live_since=NOW, seen_by=None, limit=9)


async def written(store: Store) -> None:
    """What a scheduler reads of jobs when it starts: not those that are gone, of which there are far more."""
    assert [piece async for piece in store.jobs.written()] == []


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (bound_of, "ix_history_namespace_name_id (namespace=? AND name=?"),
        (lambda store: store.history.submitter("u"), "ix_history_users_uid (uid=?"),
        (told, "ix_history_namespace_name_id (namespace=? AND name=?"),
        (told, "ix_history_users_uid (uid=?"),
        (evicted, "ix_history_namespace_name_id (namespace=? AND name=?"),
        (seen_by_ann, "ix_history_namespace_name_id"),
        (seen_by_ann, "ix_history_users_uid (uid=?"),
        (lambda store: store.feed().owners(["u", "v"]), "ix_history_users_uid (uid=?"),
        (lambda store: store.history.list(event=history.PREEMPTED, since=NOW, after=7), "ix_history_seldom_event_id"),
        (lambda store: store.history.list(events=AUDITED, newest_first=True), "ix_history_seldom_event_id"),
        (lambda store: store.history.list(events=OUTCOMES, name="r"), "ix_history_seldom_event_id"),
        (lambda store: store.history.list(events=AUDITED, queue="q", limit=9), "ix_history_seldom_queue_id"),
        (lambda store: store.jobs.waiting("submitter", "ann", 9), "ix_job_waiting_submitter"),
        (lambda store: store.jobs.waiting("queue", "q", 9), "ix_job_queue_phase"),
        (gone_of_ann, "ix_job_gone_submitter (submitter"),
        (lambda store: store.jobs.run_times(9), "ix_job_finished_at"),
        (written, "ix_job_live"),
    ],
)
async def test_no_question_walks_through_a_table(store: Store, ask: Ask, index: str) -> None:
    with plans() as found:
        await ask(store)
    assert any(index in step for step in found), found
    walked = [step for step in found if step.startswith(("SCAN history", "SCAN job"))]
    assert set(walked) <= {f"SCAN job USING INDEX {one}" for one in ("ix_job_live", "ix_job_finished_at")}
    assert not [step for step in found if "TEMP B-TREE" in step and "ix_job_finished_at" in index], found


def test_the_condition_names_the_events_of_every_life() -> None:
    assert {name for name in OF_EVERY_LIFE if f"'{name}'" in SELDOM} == OF_EVERY_LIFE
    assert SELDOM.count("'") == 2 * len(OF_EVERY_LIFE)


async def test_an_event_of_a_scheduler_has_one_entry_in_an_index_of_history(store: Store) -> None:
    """Each further one costs every job that starts three, on pages all over the file if it is of UIDs."""
    full = [index for index in tables.history.indexes if index.dialect_options["sqlite"]["where"] is None]
    assert [[column.name for column in index.columns] for index in full] == [["namespace", "name", "id"]]
    others = tables.history.indexes - set(full)
    assert {str(index.dialect_options["sqlite"]["where"]) for index in others} == {SELDOM, BY_USERS}
    about = {"at": NOW, "namespace": "n", "name": "p", "uid": "u"}
    of_every_life = (history.ACCEPTED, history.ADMITTED, history.BOUND)
    rows = [Event(event=event, actor="scheduler", **about) for event in of_every_life]
    await store.history.append_many([Event(event=history.SUBMITTED, actor="ann", **about), *rows])
    async with store.database.read() as connection:
        for condition, events in ((SELDOM, set()), (BY_USERS, {history.SUBMITTED})):
            found = await connection.execute(text(f"SELECT event FROM history WHERE {condition}"))
            assert set(found.scalars()) == events


async def test_history_is_found_again_after_the_way_back_and_forth(address: str) -> None:
    about = {"at": NOW, "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}
    actors = {history.SUBMITTED: "ann", history.BOUND: "scheduler"}
    async with await Store.open(address) as store:
        await store.history.append_many([Event(event=event, actor=actor, **about) for event, actor in actors.items()])
        before = await store.history.list(namespace="n", name="p", uid="u")
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0035") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.history.list(namespace="n", name="p", uid="u", seen_by=Visibility("ann")) == before
        assert [one.event for one in before] == list(actors)
        assert (await store.history.submitter("u"), await store.history.submitter("v")) == ("ann", None)


async def test_events_are_found_by_kind_and_queue(store: Store) -> None:
    every = sorted(OF_EVERY_LIFE | AUDITED | OUTCOMES | {history.PREEMPTED, history.TAKEN_BACK})
    await store.history.append_many([Event(event=name, at=NOW, queue=queue) for name in every for queue in ("q", "r")])
    for name in every:
        assert [one.queue for one in await store.history.list(event=name)] == ["q", "r"], name
    assert {one.event for one in await store.history.list(events=AUDITED, queue="r")} == AUDITED
    both = {history.BOUND, history.STOPPED}
    assert {one.event for one in await store.history.list(events=both)} == both
    async with store.database.read() as connection:
        seldom = (await connection.execute(text(f"SELECT DISTINCT event FROM history WHERE {SELDOM}"))).scalars()
        assert set(seldom) == set(every) - OF_EVERY_LIFE
