"""Overlaps of reservations: what is found by looking at each kind of week once is what a walk over every occurrence
finds.
"""

import heapq
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.model.advance_reservation import Occurrence
from t9ksched.model.overlaps import Timetable, first_overlap
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, nanoseconds, written_moment

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Africa/Casablanca",  # an offset less while Ramadan lasts, as known until 2087
    "Africa/Cairo",
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kolkata",
    "Pacific/Chatham",
)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600 * 10**9


def timetable(begin: datetime, length: timedelta, ended: int | None = None, **fields: Any) -> Timetable:
    times = {"from": written_moment(begin), "to": written_moment(begin + length)}
    raw = {"name": "r", "nodes": {"names": ["n"]}, "for": "maintenance"} | times | fields
    return Timetable(parse_reservation(raw), ended)


@st.composite
def timetables(draw: st.DrawFn, years: int = 3) -> Timetable:
    """One that is over after some years."""
    every = draw(st.sampled_from(["", "daily", "weekly"]))
    days = draw(st.integers(0, 60 if every else years * 365))
    begin = FIRST + timedelta(days=days, minutes=15 * draw(st.integers(0, 95)))
    longest = {"": 96 * 60, "daily": 92, "weekly": 92 * 7}[every]
    length = timedelta(minutes=15 * draw(st.integers(1, draw(st.sampled_from([4, 40, longest])))))
    fields: dict[str, Any] = {"timeZone": draw(st.sampled_from(ZONES))}
    if every:
        until = begin + timedelta(minutes=15 * draw(st.integers(0, years * 365 * 96)))
        fields |= {"every": every, "until": written_moment(until)}
    made = timetable(begin, length, **fields)
    if draw(st.booleans()):
        return made
    found = list(made.between(nanoseconds(begin), nanoseconds(begin + timedelta(days=40))))
    return Timetable(made.reservation, draw(st.sampled_from(found)).begin)


def walked(mine: Timetable, theirs: Timetable, now: int, but: Timetable | None) -> Occurrence | None:
    """The first overlap, by going over the beginning and the end of every occurrence."""
    tables = [mine, theirs] + ([] if but is None else [but])
    edges = heapq.merge(
        *(
            iter(
                [
                    (moment, place, step)
                    for one in table.reservation.occurrences(now, table.ended)
                    for moment, step in zip(one, (1, -1), strict=True)
                ]
            )
            for place, table in enumerate(tables)
        )
    )
    on, since = [0, 0, 0], None
    for moment, place, step in edges:
        if since is not None and moment > since:
            return Occurrence(since, moment)
        on[place] += step
        since = moment if on[0] and on[1] and not on[2] else None
    return None


@given(timetables(), timetables(), st.integers(0, 150), st.none() | timetables())
def test_the_first_overlap_is_found(mine: Timetable, theirs: Timetable, day: int, but: Timetable | None) -> None:
    now = nanoseconds(FIRST + timedelta(days=day, hours=day % 24))
    found, expected = first_overlap(mine, theirs, now, but), walked(mine, theirs, now, but)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.begin == expected.begin
        assert first_overlap(theirs, mine, now, but) == found


def daily(hour: int, hours: int, **fields: Any) -> Timetable:
    return timetable(datetime(2026, 1, 5, hour, tzinfo=UTC), timedelta(hours=hours), every="daily", **fields)


@pytest.mark.parametrize(
    ("but", "expected"),
    [
        pytest.param(daily(2, 4), None, id="always"),
        pytest.param(daily(3, 3), "2026-11-24T02:00:00Z", id="not its first hour"),
        pytest.param(daily(2, 3), "2026-11-24T05:00:00Z", id="not its last hour"),
        pytest.param(daily(2, 4, until="2031-01-01T00:00:00Z"), "2031-01-01T02:00:00Z", id="not for ever"),
        pytest.param(daily(2, 4, timeZone="Europe/Berlin"), "2027-03-28T05:00:00Z", id="not in summer"),
        pytest.param(
            Timetable(daily(2, 4).reservation, nanoseconds(datetime(2026, 11, 26, 2, tzinfo=UTC))),
            "2026-11-26T02:00:00Z",
            id="not that which ended early",
        ),
    ],
)
def test_what_overlapped_before_is_no_news(but: Timetable, expected: str | None) -> None:
    now = nanoseconds(datetime(2026, 11, 24, tzinfo=UTC))
    found = first_overlap(daily(2, 4), daily(1, 6), now, but)
    assert (None if found is None else written_moment(moment_at(found.begin))) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param(
            timetable(datetime(2026, 11, 30, 2, tzinfo=UTC), timedelta(hours=1), every="daily"),
            timetable(datetime(2031, 11, 30, 2, 30, tzinfo=UTC), timedelta(hours=1)),
            "2031-11-30T02:30:00Z",
            id="once, years ahead",
        ),
        pytest.param(
            timetable(datetime(2026, 11, 30, 2, tzinfo=UTC), timedelta(hours=1), every="weekly"),
            timetable(datetime(2099, 11, 30, 1, tzinfo=UTC), timedelta(hours=3)),
            "2099-11-30T02:00:00Z",
            id="once, at the end of the century",
        ),
        pytest.param(
            timetable(datetime(2090, 1, 2, 2, tzinfo=UTC), timedelta(hours=1), every="weekly"),
            timetable(datetime(2026, 1, 1, 2, 59, tzinfo=UTC), timedelta(hours=1), every="daily"),
            "2090-01-02T02:59:00Z",
            id="one begins late",
        ),
        pytest.param(
            timetable(datetime(2040, 12, 1, 2, tzinfo=UTC), timedelta(hours=1), every="daily"),
            timetable(datetime(2026, 1, 5, 3, tzinfo=UTC), timedelta(hours=1), every="daily", timeZone="Europe/Berlin"),
            "2041-03-31T02:00:00Z",
            id="one begins late, and they meet in summer only",
        ),
        pytest.param(
            timetable(
                datetime(2026, 1, 5, 12, tzinfo=UTC), timedelta(hours=1), every="daily", timeZone="Africa/Casablanca"
            ),
            timetable(datetime(2026, 1, 5, 13, tzinfo=UTC), timedelta(hours=1), every="weekly"),
            None,
            id="Ramadan moves through the year",
        ),
        pytest.param(
            timetable(datetime(2026, 1, 5, 12, tzinfo=UTC), timedelta(hours=1), every="daily"),
            timetable(datetime(2026, 1, 5, 13, tzinfo=UTC), timedelta(hours=23), every="daily"),
            None,
            id="never",
        ),
    ],
)
def test_far_ahead_without_end(mine: Timetable, theirs: Timetable, expected: str | None) -> None:
    now = nanoseconds(datetime(2026, 11, 24, tzinfo=UTC))
    found = first_overlap(mine, theirs, now)
    assert found == first_overlap(theirs, mine, now)
    if expected is not None:
        assert found is not None
        assert written_moment(moment_at(found.begin)) == expected
    reference = walked(mine, theirs, now, None)
    assert (found and found.begin) == (reference and reference.begin)
