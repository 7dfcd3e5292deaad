"""The book of administrators' reservations: what of them is in a view, and when that changes."""

from datetime import UTC, datetime
from typing import Any

from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import nanoseconds, parse_moment
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.advance_reservations import Ended, ReservationRecord

HOUR = 3600 * 1_000_000_000
DAY = 24 * HOUR


def at(text: str) -> int:
    return nanoseconds(parse_moment(text))


def known(ended: str = "", **fields: Any) -> KnownReservation:
    times = {"from": "2030-01-07T20:00:00Z", "to": "2030-01-07T22:00:00Z"}
    raw = {"name": "r", "nodes": {"names": ["n1"]}, "for": {"groups": ["ops"]}} | times | fields
    one, now = parse_reservation(raw), datetime(2030, 1, 1, tzinfo=UTC)
    early = Ended(parse_moment(ended), "Released") if ended else None
    record = ReservationRecord(one.name, "uid", one.to_dict(), ("n1", "n2"), early, 1, "root", now, now)
    return KnownReservation(record, one)


def book(*those: KnownReservation) -> Any:
    state = ClusterState()
    state.advance.take(those)
    return state.advance


def test_nothing_reserved_is_nothing_in_a_view() -> None:
    empty = book()
    assert (empty.rooms(0), empty.next_change(), bool(empty), empty.phases()) == ((), None, False, (0, 0))


def test_one_occurrence_and_the_moments_at_which_it_matters() -> None:
    held = book(known(drainAhead="2h"))
    begin = at("2030-01-07T20:00:00Z")
    (room,) = held.rooms(begin - DAY)
    assert (room.begin, room.end, room.drain) == (begin, begin + 2 * HOUR, begin - 2 * HOUR)
    assert (room.nodes, room.groups, room.cards) == (("n1", "n2"), ("ops",), None)
    times = [begin - 2 * HOUR, begin, begin + 2 * HOUR]
    for now, following in zip([begin - DAY, *times[:2]], times, strict=True):
        assert held.rooms(now) == (room,)
        assert held.rooms(now)[0] is held.rooms(now)[0], "the same value as long as it is the same"
        assert held.next_change() == following
    assert held.phases() == (1, 0)
    assert (held.rooms(times[-1]), held.next_change()) == ((), None)


def test_of_one_that_repeats_as_many_as_a_plan_may_meet() -> None:
    held = book(known(every="daily"))
    begin = at("2030-01-07T20:00:00Z")
    begins = [room.begin for room in held.rooms(begin)]
    assert begins == [begin + day * DAY for day in range(14 + 8 + 1)]
    held.look_ahead(DAY)
    assert len(held.rooms(begin)) == 1 + 8 + 1
    assert held.rooms(begin + 2 * HOUR)[0].begin == begin + DAY, "that which is over is left out"
    assert held.rooms(begin + 30 * DAY)[0].begin == begin + 30 * DAY


def test_an_occurrence_that_ended_early_is_left_out() -> None:
    held = book(known("2030-01-08T20:00:00Z", every="daily"))
    begin = at("2030-01-07T20:00:00Z")
    assert [room.begin for room in held.rooms(begin)][:3] == [begin, begin + 2 * DAY, begin + 3 * DAY]
    once = known("2030-01-07T20:00:00Z")
    assert book(once).rooms(begin) == ()
    assert once.present(begin) is None


def test_what_changed_is_seen_at_once() -> None:
    held = book(known())
    begin = at("2030-01-07T20:00:00Z")
    assert len(held.rooms(begin)) == 1
    held.take([known(cards={"resource": "nvidia.com/gpu", "count": 4})])
    assert held.rooms(begin)[0].cards == ("nvidia.com/gpu", 4)
    held.take([])
    assert held.rooms(begin) == ()
