"""When two reservations of administrators are in force at one time, however far ahead.

Times of the wall clock repeat every week as long as no zone puts its clocks forward or back. So a week in which nothing
else changes either is like every other one with the same offsets from UTC at the same places: one of each kind is
looked at, and the rest of the calendar, which ends with the year 2100, is passed over. That is exact, and its work is
bounded by the kinds of weeks, not by their number.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence
from t9ksched.model.wall_clock import moment_at, nanoseconds, time_zone

_DAY: Final = 86_400_000_000_000
_WEEK: Final = 7 * _DAY
_REACH: Final = 9 * _DAY
"""An occurrence that touches a week depends on clocks at most so far from it: a week before or after, and as much as
clocks of two zones differ.
"""
_END: Final = nanoseconds(datetime(2101, 1, 1, tzinfo=UTC)) + _REACH
"""Later than every occurrence."""


class Timetable(NamedTuple):
    """The occurrences of a reservation, without the one that began at `ended` and ended early."""

    reservation: AdvanceReservation
    ended: int | None = None

    def between(self, begin: int, end: int) -> Iterator[Occurrence]:
        """Those that are in force at some time of this span, in order."""
        return takewhile(lambda one: one.begin < end, self.reservation.occurrences(begin, self.ended))

    def breaks(self) -> list[int]:
        """The moments at which it is not what it was a week before, though no clock is set."""
        one = self.reservation
        found = [nanoseconds(one.begins), nanoseconds(one.ends)]
        if one.until is not None:
            found.append(nanoseconds(one.until))
        return found if self.ended is None else [*found, self.ended]


class _Change(NamedTuple):
    """Clocks of a zone are set: the moment, and the offset from UTC in seconds from then on."""

    at: int
    offset: int


@lru_cache(maxsize=1024)
def first_overlap(mine: Timetable, theirs: Timetable, now: int, but: Timetable | None = None) -> Occurrence | None:
    """The first time, of what is left at the moment `now`, at which both are in force, and `but` is not; None where
    there is none. In nanoseconds since the epoch. What was found is kept: the question is asked for node after node.
    """
    tables = [mine, theirs] if but is None else [mine, theirs, but]
    zones = sorted({table.reservation.time_zone for table in tables if table.reservation.every})
    clocks = [_clocks(zone, moment_at(now).year) for zone in zones]
    starts = [[change.at for change in changes] for changes in clocks]
    breaks = sorted(moment for table in tables for moment in table.breaks())
    events = sorted({*breaks, *(moment for moments in starts for moment in moments)})
    seen, week = set[tuple[object, ...]](), now
    while week < _END:
        low, high = week - _REACH, week + _WEEK + _REACH
        kind: list[object] = [bisect_right(breaks, week)]
        quiet = True
        for changes, moments in zip(clocks, starts, strict=True):
            first, last = bisect_right(moments, low), bisect_right(moments, high)
            kind.append(changes[first - 1].offset)
            kind.append(tuple((change.at - week, change.offset) for change in changes[first:last]))
            quiet = quiet and first == last
        one_of_many = bisect_right(breaks, low) == bisect_right(breaks, high)
        key = tuple(kind)
        if not one_of_many or key not in seen:
            if (found := _within(mine, theirs, week, but)) is not None:
                return found
            if one_of_many:
                seen.add(key)
        elif quiet:
            # The same until something is near again.
            following = bisect_right(events, high)
            ahead = events[following] if following < len(events) else _END + _WEEK + _REACH
            week += max(1, (ahead - high) // _WEEK) * _WEEK
            continue
        week += _WEEK
    return None


def _within(mine: Timetable, theirs: Timetable, week: int, but: Timetable | None) -> Occurrence | None:
    """The first time for which one looks, if some of it lies in this week."""
    others, following = list(theirs.between(week, week + _WEEK)), 0
    for one in mine.between(week, week + _WEEK):
        while following < len(others) and others[following].end <= one.begin:
            following += 1
        for other in others[following:]:
            if other.begin >= one.end:
                break
            both = Occurrence(max(one.begin, other.begin), min(one.end, other.end))
            if (found := both if but is None else left(both, but)) is not None:
                return found
    return None


def left(span: Occurrence, but: Timetable) -> Occurrence | None:
    """The first part of a time span in which `but` is not in force; None where it always is."""
    begin = span.begin
    for one in but.between(span.begin, span.end):
        if one.begin > begin:
            return Occurrence(begin, one.begin)
        begin = max(begin, one.end)
    return Occurrence(begin, span.end) if begin < span.end else None


@lru_cache(maxsize=256)
def _clocks(zone: str, year: int) -> list[_Change]:
    """How clocks of a zone are set from the year before that one to the end of the calendar, in order; the first entry
    is how they are at its beginning.
    """
    where, day = time_zone(zone), timedelta(days=1)
    at, end = datetime(year - 1, 1, 1, tzinfo=UTC), moment_at(_END)

    def offset(moment: datetime) -> timedelta:
        return moment.astimezone(where).utcoffset() or timedelta()

    before = offset(at)
    found = [_Change(nanoseconds(at), int(before.total_seconds()))]
    while at < end:
        after = offset(at + day)
        if after != before:
            low, high = at, at + day
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                low, high = (low, middle) if offset(middle) != before else (middle, high)
            found.append(_Change(nanoseconds(high.replace(microsecond=0)), int(after.total_seconds())))
        at, before = at + day, after
    return found
