"""What stands between now and the start of a waiting job, beside other jobs: reservations by administrators, and the
start windows of its queue.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from t9ksched.model.advance_reservation import Occurrence
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.start_windows import inside, next_begin
from t9ksched.scheduler.state.advance_book import KnownReservation, length
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState

_MOST_OCCURRENCES: Final = 20
"""Of a reservation that repeats."""
InTheWay = tuple[Occurrence, KnownReservation]


def planned_at(gangs: Iterable[GangRecord], state: ClusterState) -> int:
    """When the first of these groups is planned to start, not rounded, in nanoseconds since the epoch; 0 for never."""
    planned = state.reservations.told
    return min((plan[0].since for gang in gangs if (plan := planned.get(gang.uid))), default=0)


def only_window(gangs: Sequence[GangRecord], queue: Queue, state: ClusterState) -> bool:
    """Whether a job with these groups is planned for the moment at which its queue next starts jobs, so that nothing
    else keeps it from an earlier start.
    """
    at, now, windows = planned_at(gangs, state), state.forecasts.now, queue.spec.start_windows
    return bool(at and windows) and not inside(windows, now) and next_begin(windows, now) == at


def in_the_way(gangs: Iterable[GangRecord], state: ClusterState) -> list[InTheWay]:
    """The reservations between now and the start of a job with these groups, each time of one once, in their order."""
    found = {(of.begin, held.name): (of, held) for gang in gangs for of, held in _before(gang, state)}
    return [found[key] for key in sorted(found)]


def _before(gang: GangRecord, state: ClusterState) -> Iterator[InTheWay]:
    """The reservations that a waiting group may not use, and that begin before its start is planned or expected, else
    before it would have ended if it started now.

    A group without a limit meets a reservation as soon as that lets no such group in.
    """
    if gang.reservation:
        return  # it uses no other room
    now = state.forecasts.now
    start = planned_at((gang,), state) or state.forecasts.of((gang,), 0).latest
    before = start or now + (gang.lasts or 1)
    for held in state.advance.known.values():
        drain = 0 if gang.lasts else length(held.reservation.drain_ahead)
        admitted = state.advance.admits(held, gang)
        for one in islice(held.reservation.occurrences(now, held.ended), _MOST_OCCURRENCES):
            if one.begin - drain >= before:
                break
            if not (admitted and gang.lasts and max(one.begin, now) + gang.lasts <= one.end):
                yield one, held


def is_planned(reasons: Iterable[Reason]) -> bool:
    """Whether one of the reasons is a planned start."""
    return any(reason.code == Code.PLANNED_START for reason in reasons)
