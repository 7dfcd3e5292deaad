"""That single pods were accepted, admitted and bound is one row each; readers get every event, as if it had its own."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import text

from t9ksched.store import Store, history, history_rows, schema
from t9ksched.store.history import ACCEPTED, ADMITTED, BOUND, CLOCK_SET, STARTED, WAITING, Event

AT = datetime(2031, 1, 1, 12, 0, 0, 678, tzinfo=UTC)
DETAILS: dict[str, dict[str, Any]] = {
    ACCEPTED: {"priority": 3, "group": None, "submitter": "ann", "permittedBy": "everyone"},
    ADMITTED: {"nodes": {"n1": 1}, "waitedSeconds": 2},
    BOUND: {"pod": "p", "node": "n1", "cards": {"main": [0]}, "model": "A100", "physicalCards": 1.0},
}


def told(event: str, uid: str = "u1", after: float = 0, **more: Any) -> Event:
    about = {"kind": "Pod", "namespace": "ns", "name": f"pod-{uid}", "queue": "q", "actor": "scheduler"}
    detail = dict(DETAILS.get(event, {}))
    return Event(**about | {"event": event, "uid": uid, "at": AT + timedelta(seconds=after), "detail": detail} | more)


def life(uid: str = "u1", start: float = 0) -> list[Event]:
    return [told(event, uid, start + number / 4) for number, event in enumerate((ACCEPTED, ADMITTED, BOUND))]


async def rows(store: Store) -> int:
    async with store.database.read() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM history"))).scalar_one())


def plain(events: list[Event]) -> list[Event]:
    """Without ids."""
    return [structs.replace(event, id=0) for event in events]


async def test_each_event_is_read_as_it_was_told(store: Store) -> None:
    one, other = life(), life("u2", 0.1)
    await store.history.append(told(WAITING))
    await store.tell([], [*one, *other, told(STARTED, after=2)], [])
    assert await rows(store) == 4
    found = await store.history.list()
    assert plain(found) == [told(WAITING), *one, *other, told(STARTED, after=2)]
    assert [event.id for event in found] == list(range(found[0].id, found[0].id + 8))
    assert plain(await store.history.list(uid="u2", name="pod-u2", namespace="ns")) == other
    await store.history.append(told(WAITING, "u3"))
    assert (await store.history.list(newest_first=True, limit=1))[0].id == found[-1].id + 1


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
async def test_pages_cut_through_rows(store: Store, *, newest_first: bool, size: int) -> None:
    await store.tell([], [*life("u1"), told(WAITING, "u2"), *life("u3"), *life("u4")], [])
    every = await store.history.list(newest_first=newest_first)
    assert len(every) == 10
    for events in (None, {ACCEPTED}, {ADMITTED, WAITING}, {BOUND, ACCEPTED}):
        found: list[Event] = []
        while page := await store.history.list(
            events=events, limit=size, newest_first=newest_first, after=found[-1].id if found else 0
        ):
            assert len(page) <= size
            found += page
        assert found == [event for event in every if events is None or event.event in events]


async def test_times_and_names_are_those_of_each_event(store: Store) -> None:
    await store.tell([], life(), [])
    half = AT + timedelta(seconds=0.3)
    assert [event.event for event in await store.history.list(until=half)] == [ACCEPTED, ADMITTED]
    assert [event.event for event in await store.history.list(since=half)] == [BOUND]
    assert [event.at for event in await store.history.list(event=ADMITTED)] == [AT + timedelta(seconds=0.25)]
    assert await store.history.list(event=ADMITTED, events=[BOUND]) == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (life(), 1),
        (life()[1:], 1),
        ([told(ACCEPTED), told(BOUND)], 1),
        ([told(ACCEPTED), told(WAITING), told(ADMITTED), told(BOUND)], 3),
        ([told(ACCEPTED, queue="other"), told(BOUND)], 2),
        ([told(ACCEPTED, actor="ann"), told(BOUND)], 2),
        ([told(ACCEPTED), told(BOUND, after=61)], 2),
        ([told(ACCEPTED, after=1), told(BOUND)], 2),
        ([told(ACCEPTED), told(ADMITTED), told(ADMITTED), told(BOUND)], 3),
        ([told(ADMITTED), told(ACCEPTED), told(BOUND)], 2),
        ([one for pair in zip(life(), life("u2"), strict=True) for one in pair], 6),
        ([told(one, uid=None) for one in (ACCEPTED, ADMITTED, BOUND)], 3),
        ([told(one, kind="PodGroup") for one in (ACCEPTED, ADMITTED, BOUND)], 3),
        ([told(ACCEPTED), told(CLOCK_SET, uid=None, kind=None, detail={"seconds": 1}), told(BOUND)], 3),
    ],
)
async def test_only_what_can_be_told_apart_shares_a_row(store: Store, events: list[Event], expected: int) -> None:
    await store.tell([], events, [])
    assert await rows(store) == expected
    assert plain(await store.history.list()) == events


async def test_events_to_come_are_told_once_each(store: Store) -> None:
    feed = store.feed()
    await feed.begin()
    begin = feed.position
    await store.tell([], [*life(), *life("u2")], [])
    found = await feed.news()
    assert plain(found) == [*life(), *life("u2")]
    assert feed.position == found[-1].id
    assert await feed.news() == []
    for place in range(7):
        assert await feed.page(begin + place, feed.position, 2, None, ()) == found[place : place + 2]


def test_an_id_that_another_took_amid_takes_a_row_apart() -> None:
    (row,) = history_rows.shared(life())
    assert [one.id for one in history_rows._numbered([row], [5, 6, 7])] == [7]
    split = list(history_rows._numbered([row], [5, 7, 8]))
    assert [one.id for one in split] == [5, 7, 8]
    assert plain(split) == life()


async def test_a_program_of_before_finds_each_event_in_its_row(address: str) -> None:
    schema.upgrade(address)
    before = schema.revisions()[schema.revisions().index("0038") - 1]
    async with await Store.open(address) as store:
        audit = Event(event="queue-changed", detail={"before": {"a": 1}, "after": {}}, at=AT, actor="ann")
        await store.tell([], [audit, *life(), *life("u2")], [])
        written = await store.history.list()
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await rows(store) == 7
        assert await store.history.list() == written


async def test_the_last_time_of_each_job_is_known(store: Store) -> None:
    await store.tell([], [*life("u1"), *life("u2", 5), told(STARTED, "u2", 9), told(WAITING, "u3", 4)], [])
    jobs = [told(WAITING, uid) for uid in ("u1", "u2", "u4")]
    last = {"u1": AT + timedelta(seconds=0.5), "u2": AT + timedelta(seconds=9)}
    assert await store.history.last_times(jobs) == last
    assert await store.history.last_times([]) == {}


def test_all_events_are_known_by_name() -> None:
    keys = {history.PHYSICAL, history.MODELS, history.IDLE_SINCE, history.SELDOM, history.SUCCEEDED}
    named = {value for name, value in vars(history).items() if name.isupper() and isinstance(value, str)}
    assert named - keys == history.EVENTS


async def test_events_that_are_told_again_with_their_mark_are_written_once(store: Store) -> None:
    await store.tell([], life("u1"), [], "first")
    await store.tell([], life("u1"), [], "first")
    await store.tell([], life("u2"), [], "second")
    await store.tell([], life("u1"), [], "first")
    assert [one.uid for one in await store.history.list()] == ["u1"] * 3 + ["u2"] * 3 + ["u1"] * 3
