"""Reservations by administrators in SQL: nothing is written over a change that was not seen, and history has it all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.model.reservation_form import parse_reservation
from t9ksched.store import Store, schema
from t9ksched.store.advance_reservations import Ended, Outcome, ReservationsChanged
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing
from t9ksched.store.history import RESERVATION_NODES_REPLACED, RESERVATION_OVER, RESERVATION_RELEASED, Event

BEGIN = datetime(2030, 1, 7, 20, tzinfo=UTC)
OUTCOME = Outcome(BEGIN, BEGIN + timedelta(hours=2), "Released", BEGIN + timedelta(minutes=30))


def spec(name: str = "r", **fields: Any) -> dict[str, Any]:
    times = {"from": "2030-01-07T20:00:00Z", "to": "2030-01-07T22:00:00Z"}
    raw = {"name": name, "nodes": {"names": ["n1"]}, "for": "maintenance"} | times | fields
    return parse_reservation(raw).to_dict()


async def test_create_get_list_delete(store: Store) -> None:
    head = await store.changes.head()
    made = await store.reservations.create(spec(), ["n1"], head, by="root")
    assert (made.spec, made.nodes, made.ended, made.created_by) == (spec(), ("n1",), None, "root")
    assert await store.reservations.get("r") == made
    assert await store.reservations.list() == [made]
    assert await store.reservations.get("other") is None
    assert await store.reservations.delete("r", made.revision, by="root") == made
    assert await store.reservations.list() == []
    with pytest.raises(RowMissing, match="'r'"):
        await store.reservations.delete("r")
    events = await store.history.list()
    assert [(one.event, one.name, one.actor) for one in events] == [
        ("reservation-created", "r", "root"),
        ("reservation-deleted", "r", "root"),
    ]
    assert events[0].detail == {"after": spec() | {"chosen": ["n1"]}}
    assert [change.key for change in await store.changes.since(head)] == ["r", "r"]


async def test_a_name_is_taken_once(store: Store) -> None:
    made = await store.reservations.create(spec(), ["n1"], 0)
    with pytest.raises(RowExists, match="'r'"):
        await store.reservations.create(spec(note="other"), ["n1"], made.revision)
    assert await store.reservations.list() == [made]


async def test_nothing_is_written_over_what_was_not_seen(store: Store) -> None:
    seen = await store.changes.head()
    first = await store.reservations.create(spec("a"), ["n1"], seen)
    await store.queues.create("q", {}, {})
    with pytest.raises(ReservationsChanged, match="'a'"):
        await store.reservations.create(spec("b"), ["n1"], seen)
    await store.reservations.create(spec("b"), ["n1"], first.revision)  # the queue does not matter
    with pytest.raises(ReservationsChanged):
        await store.reservations.edit("a", spec("a", note="x"), ["n1"], first.revision)
    assert [one.name for one in await store.reservations.list()] == ["a", "b"]
    kept = await store.reservations.get("a")
    assert kept == first, "nothing half written"


async def test_an_edit_names_the_revision_it_read(store: Store) -> None:
    made = await store.reservations.create(spec(), ["n1"], 0)
    changed = await store.reservations.edit("r", spec(note="new"), ["n2"], made.revision, made.revision, by="root")
    assert changed.revision > made.revision
    assert (changed.uid, changed.created_at, changed.nodes) == (made.uid, made.created_at, ("n2",))
    with pytest.raises(RevisionChanged) as error:
        await store.reservations.edit("r", spec(note="late"), ["n1"], changed.revision, made.revision)
    assert error.value.current == changed.revision
    with pytest.raises(RowMissing):
        await store.reservations.edit("none", spec("none"), ["n1"], changed.revision)
    again = await store.reservations.edit("r", spec(note="new"), ["n2"], changed.revision)
    assert again == changed, "what changes nothing keeps the revision"


async def test_the_scheduler_changes_nodes_and_ends_an_occurrence_without_a_new_etag(store: Store) -> None:
    made = await store.reservations.create(spec(), ["n1"], 0)
    replaced = Event(event=RESERVATION_NODES_REPLACED, name="r", detail={"replaced": {"n1": "n3"}})
    assert await store.reservations.choose("r", made.uid, ["n3", "n4"], replaced)
    released = Event(event=RESERVATION_RELEASED, name="r", detail={"from": BEGIN.isoformat()})
    assert await store.reservations.end("r", made.uid, OUTCOME, released)
    found = await store.reservations.get("r")
    assert found is not None
    assert (found.nodes, found.ended, found.revision) == (("n3", "n4"), Ended(BEGIN, "Released"), made.revision)
    assert [one.event for one in await store.history.list()] == [RESERVATION_NODES_REPLACED, RESERVATION_RELEASED]
    head = await store.changes.head()
    assert not await store.reservations.choose("r", "another", ["n9"], replaced), "it was made anew meanwhile"
    assert not await store.reservations.end("gone", made.uid, OUTCOME, released)
    assert await store.changes.head() == head
    noted = await store.reservations.edit("r", spec(note="again"), ["n3"], head)
    assert (noted.ended, noted.outcome) == (Ended(BEGIN, "Released"), OUTCOME), "another note opens nothing"
    wanted = spec(note="again", releaseUnusedAfter="1h")
    edited = await store.reservations.edit("r", wanted, ["n3"], await store.changes.head())
    assert (edited.ended, edited.outcome) == (None, None), "what is edited is open again"


async def test_an_edit_leaves_an_occurrence_over_that_ended_early(store: Store) -> None:
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    times = {"from": begin.isoformat(), "to": (begin + timedelta(hours=2)).isoformat(), "every": "daily"}
    made = await store.reservations.create(spec(**times), ["n1"], 0)
    released = Event(event=RESERVATION_RELEASED, name="r")
    assert await store.reservations.end("r", made.uid, Outcome(begin, begin, "Released", begin), released)
    later = begin + timedelta(minutes=5)
    for change, over in (({"note": "x"}, begin), ({"from": later.isoformat()}, later), ({"every": ""}, None)):
        edited = await store.reservations.edit("r", spec(**times | change), ["n1"], await store.changes.head())
        assert edited.ended == (over and Ended(over, "Released"))
        assert await store.reservations.get("r") == edited


async def test_what_is_remembered_of_occurrences(store: Store) -> None:
    made = await store.reservations.create(spec(every="daily"), ["n1"], 0)
    over = Outcome(BEGIN, BEGIN + timedelta(hours=2), "Over", BEGIN + timedelta(hours=2))
    assert await store.reservations.note_use("r", made.uid, BEGIN, over.end)
    assert not await store.reservations.note_use("r", "another", BEGIN, None)
    assert await store.reservations.end("r", made.uid, over, Event(event=RESERVATION_OVER, name="r"))
    found = await store.reservations.get("r")
    assert found is not None
    assert (found.blocked, found.outcome, found.ended, found.revision) == (BEGIN, over, None, made.revision)
    assert (found.used_until, found.updated_at) == (over.end, made.updated_at)
    assert await store.reservations.note_use("r", made.uid, None, BEGIN)
    (found,) = await store.reservations.list()
    assert (found.blocked, found.used_until) == (None, BEGIN)
    assert [one.event for one in await store.history.list()] == [RESERVATION_OVER]


async def test_outcomes_and_other_versions_of_the_tables(address: str) -> None:
    async with await Store.open(address) as store:
        made = await store.reservations.create(spec(), ["n1"], 0)
        await store.reservations.end("r", made.uid, OUTCOME, Event(event=RESERVATION_RELEASED, name="r"))
        await store.reservations.note_use("r", made.uid, BEGIN, BEGIN)
        (before,) = await store.reservations.list()
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0026") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.reservations.list() == [replace(before, used_until=None)]
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0025") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        (found,) = await store.reservations.list()
    assert (found.ended, found.outcome, found.blocked, found.used_until) == (Ended(BEGIN, "Released"), None, None, None)
    assert replace(found, ended=None) == made


async def test_a_reservation_survives_other_versions_of_the_tables(address: str) -> None:
    async with await Store.open(address) as store:
        made = await store.reservations.create(spec(), ["n1"], 0)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.reservations.list() == [made]
    before = schema.revisions()[schema.revisions().index("0016") - 1]
    schema.downgrade(address, before)
    async with await Store.open(address) as store:
        assert await store.reservations.list() == []
