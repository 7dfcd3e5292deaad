"""Moments as users write them, and what clocks show on the days they are set."""

from datetime import datetime

import pytest

from t9ksched.model.wall_clock import moment_at, moment_of, nanoseconds, parse_moment, written_moment, zone_fault


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2030-01-31T20:00:00Z", "2030-01-31T20:00:00Z"),
        ("2030-01-31t20:00:00z", "2030-01-31T20:00:00Z"),
        ("2030-01-31T20:00:00+08:00", "2030-01-31T12:00:00Z"),
        ("2030-01-31T20:00:00.123456789Z", "2030-01-31T20:00:00.123456Z"),
    ],
)
def test_a_moment_is_read_and_written(text: str, utc: str) -> None:
    moment = parse_moment(text)
    assert written_moment(moment_at(nanoseconds(moment))) == utc
    assert parse_moment(written_moment(moment)) == moment


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "tomorrow",
        "2030-01-31",
        "2030-01-31T20:00:00",
        "2030-01-31 20:00:00Z",
        "2030-02-30T20:00:00Z",
        "2030-01-31T24:01:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+08:00",
        "2101-01-01T00:00:00Z",
        "٢٠٣٠-01-31T20:00:00Z",
        "2030-01-31T20:00:00Z\n",
        "2030-01-31T20:00:00+99:00",
        "9" * 5000,
    ],
)
def test_what_is_no_moment_is_refused_with_a_short_message(text: object) -> None:
    with pytest.raises(ValueError) as error:
        parse_moment(text)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-11-23T20:00:00+25:00", "its offset +25:00 must be from -23:59 to +23:59, such as +08:00, or Z for UTC"),
        ("2026-11-23T20:00:00-05:75", "its offset -05:75 must be"),
        ("2026-13-01T20:00:00Z", "its month must be from 01 to 12"),
        ("2026-00-01T20:00:00Z", "its month"),
        ("2030-02-30T20:00:00Z", "its day must be from 01 to 28, the last day of 2030-02"),
        ("2030-02-00T20:00:00Z", "its day"),
        ("2030-01-31T24:00:00Z", "its hours must be from 00 to 23"),
        ("2030-01-31T20:60:00Z", "its minutes and seconds must be from 00 to 59"),
        ("2030-01-31T20:00:60.5+08:00", "its minutes and seconds"),
        ("0000-01-31T20:00:00Z", "use a year from 1970 to 2100"),
        ("0001-01-01T00:00:00+08:00", "use a year from 1970 to 2100"),
    ],
)
def test_a_fault_says_which_number_is_wrong_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_moment(text)
    assert says in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None, "the message is ours"


@pytest.mark.parametrize("name", ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Argentina/Ushuaia"])
def test_a_time_zone_is_known_by_its_name(name: str) -> None:
    assert zone_fault(name) == ""


@pytest.mark.parametrize(
    "name", [None, 8, "", "Mars", "America", "../etc/passwd", "/etc/localtime", "posix/UTC", "x" * 300]
)
def test_what_is_no_time_zone_has_a_fault(name: object) -> None:
    assert "is not a time zone" in zone_fault(name)


@pytest.mark.parametrize(
    ("wall", "zone", "first", "last"),
    [
        ("2026-06-01T20:00:00", "Asia/Shanghai", "2026-06-01T12:00:00Z", "2026-06-01T12:00:00Z"),
        # Clocks go from 02:00 to 03:00, at 01:00 UTC.
        ("2026-03-29T02:00:00", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        ("2026-03-29T02:59:00", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        ("2026-03-29T03:00:00", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        # Clocks go from 03:00 to 02:00, at 01:00 UTC.
        ("2026-10-25T02:30:00", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("2026-10-25T03:00:00", "Europe/Berlin", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z"),
        # Half an hour is skipped.
        ("2026-10-04T02:15:00", "Australia/Lord_Howe", "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z"),
        # A whole day is skipped.
        ("2011-12-30T12:00:00", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"),
    ],
)
def test_what_clocks_show_is_a_moment(wall: str, zone: str, first: str, last: str) -> None:
    shown = datetime.fromisoformat(wall)
    assert written_moment(moment_at(moment_of(shown, zone, last=False))) == first
    assert written_moment(moment_at(moment_of(shown, zone, last=True))) == last
