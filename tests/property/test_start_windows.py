"""Windows compared with a walk over minutes: clocks are read minute by minute, and no more is known of the zone."""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.start_windows import StartWindow, inside, next_begin, next_change, spans

MINUTE = 60_000_000_000
CHANGES = {
    "Europe/Berlin": ["2026-03-29 01:00", "2026-10-25 01:00"],
    "America/New_York": ["2026-03-08 07:00", "2026-11-01 06:00"],
    "Australia/Lord_Howe": ["2026-10-03 15:30", "2026-04-04 15:00"],
    "Asia/Shanghai": ["1989-04-15 18:00", "1989-09-16 17:00", "2026-05-04 00:00"],
    "UTC": ["2026-02-28 00:00"],
}
"""Moments, UTC, at which clocks are put forward or back, and some ordinary ones."""
Wall = tuple[int, int]
"""What clocks show: the date as an ordinal, and the minute of the day."""


def wall(zone: ZoneInfo, minute: int) -> Wall:
    shown = datetime.fromtimestamp(minute * 60, zone)
    return shown.toordinal(), shown.hour * 60 + shown.minute


@cache
def walk(zone: str, minute: int) -> dict[Wall, list[int]]:
    """The minutes at which clocks show each time, in order, from some days before that minute to two weeks after it."""
    read: dict[Wall, list[int]] = {}
    for each in range(minute - 5 * 1440, minute + 18 * 1440):
        read.setdefault(wall(ZoneInfo(zone), each), []).append(each)
    return read


def occurrences(window: StartWindow, minute: int) -> list[tuple[int, int]]:
    """Begin and end, in minutes, from a few days before that minute to two weeks after it."""
    read = walk(window.zone, minute)
    today, _ = wall(ZoneInfo(window.zone), minute)
    found = []
    for day in range(today - 3, today + 16):
        if date.fromordinal(day).weekday() in window.days:
            last = window.end + (1440 if window.end <= window.begin else 0)
            begin, end = ((day + minutes // 1440, minutes % 1440) for minutes in (window.begin, last))
            span = shown(read, begin)[0], shown(read, end)[-1]
            found += [span] if span[0] < span[1] else []
    return found


def shown(read: dict[Wall, list[int]], target: Wall) -> list[int]:
    """When clocks show that time; where they never do, when they first show a later one."""
    return read.get(target) or [min(minutes[0] for clock, minutes in read.items() if clock > target)]


times = st.one_of(st.integers(0, 1440), st.sampled_from([0, 60, 90, 105, 119, 120, 121, 150, 180, 1440]))
windows_of = st.builds(
    StartWindow,
    days=st.one_of(
        st.just(tuple(range(7))),
        st.lists(st.integers(0, 6), min_size=1, unique=True).map(sorted).map(tuple),
    ),
    begin=times,
    end=times,
    zone=st.sampled_from(sorted(CHANGES)),
).filter(lambda one: not (one.begin % 1440 == one.end % 1440 and one.begin >= one.end))


def around(zone: str, at: int, minutes: int) -> int:
    base = datetime.fromisoformat(CHANGES[zone][at % len(CHANGES[zone])]).replace(tzinfo=UTC)
    return int((base + timedelta(minutes=minutes)).timestamp()) // 60


@settings(max_examples=60, deadline=None)
@given(st.lists(windows_of, min_size=1, max_size=2), st.integers(0, 2), st.integers(-2000, 2000), st.integers(0, 59))
def test_windows_are_those_of_a_clock_on_the_wall(
    windows: list[StartWindow], at: int, minutes: int, seconds: int
) -> None:
    minute = around(windows[0].zone, at, minutes)
    moment = minute * MINUTE + seconds * 1_000_000_000
    known = [one for window in windows for one in occurrences(window, minute)]
    assert inside(windows, moment) == any(begin <= minute < end for begin, end in known)
    begins = [begin for begin, _ in known if begin * MINUTE > moment]
    assert next_begin(windows, moment) == min(begins) * MINUTE
    covered = [any(begin <= each < end for begin, end in known) for each in range(minute, minute + 3 * 1440)]
    changed = next_change(windows, moment)
    if (not covered[0]) in covered:
        assert changed == (minute + covered.index(not covered[0])) * MINUTE
    found = spans(windows, moment, moment + 2 * 1440 * MINUTE)
    assert all(end < begin for (_, end), (begin, _) in pairwise(found))
    for each in range(0, 2 * 1440, 7):
        nth = bisect_left(found, ((minute + each) * MINUTE + 1,)) - 1
        assert covered[each] == (nth >= 0 and (minute + each) * MINUTE < found[nth][1]), each
