"""The first moment at which a waiting group may start, whatever room there is: its own `start-after`, the reservation
that it names, the start windows of its queue.
"""

from functools import lru_cache
from itertools import islice
from typing import Final, Protocol

from t9ksched.model.queue import Queue
from t9ksched.model.start_windows import StartWindow, inside, next_begin
from t9ksched.scheduler.state.advance_book import AdvanceBook
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.start_times import KnownJobs, has_begun

_OCCURRENCES: Final = 32
"""Of a reservation so many are looked at for one that is long enough."""


class KnownRooms(KnownJobs, Protocol):
    """The part of the scheduler's state that is read here."""

    queues: dict[str, Queue]
    advance: AdvanceBook


def first_moment(known: KnownRooms, gang: GangRecord, now: int) -> int:
    """The first moment from `now` on, both in nanoseconds since the epoch, at which the group may start: what has begun
    may at once. Where no moment is known, `now`.
    """
    at = now
    if gang.start_after > at and not has_begun(known, gang):
        at = gang.start_after
    if gang.reservation:
        at = _in_reservation(known.advance, gang, at)
    queue = known.queues.get(gang.queue)
    windows = queue.spec.start_windows if queue is not None else ()
    if windows and not (gang.lost or gang.placed_count()):
        at = _inside(tuple(windows), at)
    return at


def _in_reservation(book: AdvanceBook, gang: GangRecord, at: int) -> int:
    """The first moment in the reservation that the group names, in an occurrence that is long enough for it."""
    held = book.known.get(gang.reservation)
    if held is None:
        return at
    for one in islice(held.reservation.occurrences(at, held.ended), _OCCURRENCES):
        begin = max(one.begin, at)
        if not gang.lasts or begin + gang.lasts <= one.end:
            return begin
    return at


@lru_cache(maxsize=256)
def _inside(windows: tuple[StartWindow, ...], at: int) -> int:
    if inside(windows, at):
        return at
    begins = next_begin(windows, at)
    return at if begins is None else begins
