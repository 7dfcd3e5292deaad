"""When a queue may start jobs: windows of wall-clock time in a time zone, such as 20:00 to 06:00 in Shanghai.

A window repeats on its days. It begins at `from` on such a day and ends at `to`, which is on the next day if it is not
later than `from`. Clocks that are put forward or back are followed as on a wall: a time that is skipped is the next one
that exists; of a time that comes twice, `from` is the first and `to` the last; a window whose ends fall together that
day does not exist. Moments are nanoseconds since the epoch; a window includes its begin and not its end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from t9ksched.model.errors import FieldError, Invalid, child, faulty, shown
from t9ksched.model.wall_clock import moment_of, time_zone, zone_fault

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST: Final = 100
"""Windows of a queue."""
EVERY_DAY: Final = tuple(range(7))
_FIELDS: Final = ("days", "from", "to", "timeZone")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")
_NS: Final = 1_000_000_000
_DAY: Final = 1440
_WITHIN: Final = 40
"""Days in which a window begins at least once."""
Span = tuple[int, int]
"""Begin and end of one occurrence."""


class StartWindow(msgspec.Struct, frozen=True, order=True):
    """One window: weekdays of its begin (0 is Monday), begin and end in minutes of the day (0 to 1440), zone."""

    days: tuple[int, ...] = EVERY_DAY
    begin: int = 0
    end: int = _DAY
    zone: str = "UTC"

    def spans(self, begin: int, until: int) -> list[Span]:
        """Its occurrences that are not over at `begin` and that begin at `until` or before, in their order."""
        days = range(_day_of(begin, self.zone) - 3, _day_of(until, self.zone) + 2)
        found = [span for day in days if (span := _occurrence(self, day)) is not None]
        return [span for span in found if span[1] > begin and span[0] <= until]


def spans(windows: Iterable[StartWindow], begin: int, until: int) -> list[Span]:
    """The time inside any of the windows from `begin` on, without gaps between neighbours, in order; the last one that
    is named begins at `until` or before. The first may have begun earlier.
    """
    merged: list[Span] = []
    for start, end in sorted(span for window in windows for span in window.spans(begin, until)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def inside(windows: Iterable[StartWindow], moment: int) -> bool:
    """Whether the moment is inside one of the windows."""
    return any(window.spans(moment, moment) for window in windows)


def next_begin(windows: Iterable[StartWindow], moment: int) -> int | None:
    """The earliest begin of any of the windows after the moment; None where none has one that can be counted."""
    return min((at for window in windows if (at := _next(window, moment)) is not None), default=None)


def next_change(windows: Sequence[StartWindow], moment: int) -> int | None:
    """When the moment's being inside or outside ends: the next begin if it is outside, else the end of the time inside;
    None where that is more than some weeks away.
    """
    if not inside(windows, moment):
        return next_begin(windows, moment)
    until = moment + _WITHIN * 86_400 * _NS
    (_, end), *_ = spans(windows, moment, until)
    return end if end <= until else None


def _next(window: StartWindow, moment: int) -> int | None:
    today = _day_of(moment, window.zone)
    for day in range(today - 1, today + _WITHIN):
        span = _occurrence(window, day)
        if span is not None and span[0] > moment:
            return span[0]
    return None


@lru_cache(maxsize=1 << 14)
def _occurrence(window: StartWindow, day: int) -> Span | None:
    """The occurrence that begins on that day (proleptic Gregorian ordinal); None where there is none."""
    if day < 1 or (day + 6) % 7 not in window.days:
        return None
    later = _DAY if window.end <= window.begin else 0
    try:
        midnight = datetime.combine(date.fromordinal(day), time())
        begin = moment_of(midnight + timedelta(minutes=window.begin), window.zone, last=False)
        end = moment_of(midnight + timedelta(minutes=window.end + later), window.zone, last=True)
    except (OverflowError, ValueError):
        return None  # before the year 1, or after the year 9999
    return (begin, end) if begin < end else None


def _day_of(moment: int, zone: str) -> int:
    """The date of the moment in that zone, as an ordinal."""
    return datetime.fromtimestamp(moment // _NS, time_zone(zone)).toordinal()


def parse_start_windows(raw: object, path: str) -> tuple[StartWindow, ...]:
    """The windows as users write them, sorted; None and an empty list mean that starts are always allowed.

    Raises:
        Invalid: naming every faulty field below `path`.
    """
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise Invalid.at(path, "must be a list of {days, from, to, timeZone}")
    if len(raw) > MOST:
        raise Invalid.at(path, f"has {len(raw)} windows: at most {MOST} are allowed")
    faults: list[FieldError] = []
    windows = [_parse(each, f"{path}[{nth}]", faults) for nth, each in enumerate(raw)]
    if faults:
        raise Invalid(faults)
    return tuple(sorted(set(windows)))


def _parse(raw: object, path: str, faults: list[FieldError]) -> StartWindow:
    if not isinstance(raw, Mapping):
        faults.append(FieldError(path, "must be a mapping with from and to"))
        return StartWindow()
    for key in raw:
        if key not in _FIELDS:
            faults.append(FieldError(child(path, str(key)), f"is unknown: the fields are {', '.join(_FIELDS)}"))
    begin, end = (_minutes(raw.get(key), child(path, key), faults) for key in ("from", "to"))
    if begin is not None and end is not None and begin % _DAY == end % _DAY and begin >= end:
        where = child(path, "to")
        faults.append(FieldError(where, "is the same time as from: a whole day is from 00:00 to 24:00"))
    zone = raw.get("timeZone")
    zone = "UTC" if zone is None else zone
    if fault := zone_fault(zone):
        faults.append(FieldError(child(path, "timeZone"), fault))
    return StartWindow(_days(raw.get("days"), child(path, "days"), faults), begin or 0, end or 0, str(zone))


def _minutes(value: object, path: str, faults: list[FieldError]) -> int | None:
    if isinstance(value, str) and _TIME.fullmatch(value):
        hours, minutes = value.split(":")
        return int(hours) * 60 + int(minutes)
    shown = faulty(value, "is not a time of the day")
    quoted = "" if isinstance(value, str) else ' (in YAML with quotes: "20:00")'
    faults.append(FieldError(path, f"{shown}: write hours and minutes from 00:00 to 24:00{quoted}"))
    return None


def _days(value: object, path: str, faults: list[FieldError]) -> tuple[int, ...]:
    if value is None:
        return EVERY_DAY
    if not isinstance(value, list) or not 0 < len(value) <= len(DAYS):
        faults.append(FieldError(path, f"must be a list of {', '.join(DAYS)}; leave it out for every day"))
        return EVERY_DAY
    for nth, day in enumerate(value):
        if day not in DAYS:
            faults.append(FieldError(f"{path}[{nth}]", f"{shown(day)} is not a day: use one of {', '.join(DAYS)}"))
    return tuple(sorted({DAYS.index(day) for day in value if day in DAYS}))
