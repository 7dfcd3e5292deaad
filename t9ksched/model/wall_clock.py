"""Moments: how users write them (RFC 3339), and when the clocks of a time zone show a certain time.

A time that clocks skip counts as the next one that they show. Of a time that comes twice, the caller says which is
meant. Moments are nanoseconds since the epoch, or `datetime` values with an offset.
"""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from t9ksched.model.errors import shown

_RFC_3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_NO_ZONES: Final = ("posix", "right", "localtime", "posixrules", "Factory")
"""Files beside the zones of a system: zones with leap seconds, its own zone."""
_LONGEST: Final = 100
_YEARS: Final = (1970, 2100)
"""Moments of other years are refused: nanoseconds since the epoch stay far from the limits of what counts them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def parse_moment(text: object) -> datetime:
    """A moment as users write it, with its offset; fractions of a second beyond microseconds are cut off.

    Raises:
        ValueError: it is no RFC 3339 time, or too long ago or too far ahead.
    """
    said = shown(text)[:_LONGEST]
    if not isinstance(text, str) or not _RFC_3339.fullmatch(text):
        raise ValueError(f"{said} is not a time: write it like 2030-01-31T20:00:00Z or 2030-01-31T20:00:00+08:00")
    first, last = _YEARS
    out_of_range = f"{said} is out of range: use a year from {first} to {last}"
    if not first <= int(text[:4]) <= last:
        raise ValueError(out_of_range)
    if fault := _digits_fault(text):
        raise ValueError(f"{said} is not a time: {fault}")
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
    if found < _EPOCH:
        raise ValueError(out_of_range)
    return found


def _digits_fault(text: str) -> str:
    """What is wrong with the numbers of a text that has the form of RFC 3339; empty when there is such a time.

    Seconds of 60 are refused too: no clock of ours counts leap seconds.
    """
    year, month, day, hour, minute, second = (int(number) for number in re.split("[-Tt:]", text[:19]))
    if not 1 <= month <= 12:
        return "its month must be from 01 to 12"
    days = monthrange(year, month)[1]
    if not 1 <= day <= days:
        return f"its day must be from 01 to {days}, the last day of {text[:7]}"
    if hour > 23:
        return "its hours must be from 00 to 23; midnight is 00:00:00 of the next day"
    if minute > 59 or second > 59:
        return "its minutes and seconds must be from 00 to 59"
    if text[-1] not in "Zz" and (int(text[-5:-3]) > 23 or int(text[-2:]) > 59):
        return f"its offset {text[-6:]} must be from -23:59 to +23:59, such as +08:00, or Z for UTC"
    return ""


def written_moment(moment: datetime) -> str:
    """The moment as RFC 3339, with the offset that it has."""
    return moment.isoformat().replace("+00:00", "Z")


def nanoseconds(moment: datetime) -> int:
    """Nanoseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND * 1000


def moment_at(ns: int) -> datetime:
    """The moment so many nanoseconds after the epoch, in UTC and whole microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


def zone_fault(name: object) -> str:
    """What is wrong with the name of a time zone; empty when it is known."""
    unknown = (
        f"{shown(name)[:_LONGEST]} is not a time zone: use a name of the IANA database, such as Asia/Shanghai or UTC"
    )
    if not isinstance(name, str) or len(name) > _LONGEST or not _ZONE.fullmatch(name):
        return unknown
    if name.partition("/")[0] in _NO_ZONES:
        return unknown
    try:
        time_zone(name)
    except (ValueError, LookupError, OSError):  # also a folder of zones, such as `America`
        return unknown
    return ""


@lru_cache(maxsize=1024)
def time_zone(name: str) -> ZoneInfo:
    """The time zone of a name that has no fault."""
    return ZoneInfo(name)


def moment_of(wall: datetime, zone: str, *, last: bool) -> int:
    """When clocks of the zone show `wall`, which is without zone: of two moments the first, or the `last`; where it is
    skipped, when the clocks are put forward.
    """
    where = time_zone(zone)
    before, after = (_offset(wall.replace(tzinfo=where, fold=fold)) for fold in (0, 1))
    if before < after:
        # PEP 495: fold=0 reads a skipped time by the offset from before the gap, fold=1 by the one from after it.
        low, high = wall - after, wall - before
        while high - low > _SECOND:
            middle = low + (high - low) // 2
            middle -= timedelta(microseconds=middle.microsecond)
            put_forward = _offset(middle.replace(tzinfo=UTC).astimezone(where)) >= after
            low, high = (low, middle) if put_forward else (middle, high)
        at = high
    else:
        at = wall - (after if last else before)
    return nanoseconds(at.replace(tzinfo=UTC))


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()
