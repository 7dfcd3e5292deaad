"""Windows of wall-clock time: how they are written, and what clocks that are put forward and back make of them."""

from datetime import UTC, datetime

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.start_windows import StartWindow, inside, next_begin, next_change, parse_start_windows, spans

MINUTE = 60 * 1_000_000_000
DAY = 1440 * MINUTE


def at(text: str) -> int:
    """A UTC time, `2026-03-29 00:30`, as a moment."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def text(moment: int | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def window(begin: str, end: str, zone: str = "UTC", days: list[str] | None = None) -> tuple[StartWindow, ...]:
    raw = {"from": begin, "to": end, "timeZone": zone} | ({"days": days} if days else {})
    return parse_start_windows([raw], "w")


# ---- when a window is open; all moments are UTC

OPEN = [
    # A plain night in Shanghai, which is eight hours ahead.
    ("20:00", "06:00", "Asia/Shanghai", None, "2026-05-04 11:59", "2026-05-04 12:00", "2026-05-04 22:00"),
    # The day is that of `from`: Friday's window goes on into Saturday.
    ("20:00", "06:00", "UTC", ["Fri"], "2026-05-04 00:00", "2026-05-08 20:00", "2026-05-09 06:00"),
    ("00:00", "24:00", "UTC", ["Sun"], "2026-05-04 00:00", "2026-05-10 00:00", "2026-05-11 00:00"),
    ("10:00", "24:00", "UTC", None, "2026-05-04 09:00", "2026-05-04 10:00", "2026-05-05 00:00"),
    ("10:00", "00:00", "UTC", None, "2026-05-04 09:00", "2026-05-04 10:00", "2026-05-05 00:00"),
    # 24:00 of Monday is 00:00 of Tuesday.
    ("24:00", "06:00", "UTC", ["Mon"], "2026-05-04 00:00", "2026-05-05 00:00", "2026-05-05 06:00"),
    ("20:00", "19:00", "UTC", ["Mon"], "2026-05-04 00:00", "2026-05-04 20:00", "2026-05-05 19:00"),
    # Berlin puts its clocks forward on 29 March 2026: 02:00 to 03:00 is skipped.
    ("02:30", "05:00", "Europe/Berlin", None, "2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 03:00"),
    ("01:00", "02:30", "Europe/Berlin", None, "2026-03-28 23:00", "2026-03-29 00:00", "2026-03-29 01:00"),
    ("20:00", "02:30", "Europe/Berlin", ["Sat"], "2026-03-28 12:00", "2026-03-28 19:00", "2026-03-29 01:00"),
    # Both ends fall on 03:00: there is no such window that day.
    ("02:10", "02:50", "Europe/Berlin", None, "2026-03-28 12:00", "2026-03-30 00:10", "2026-03-30 00:50"),
    ("02:10", "03:00", "Europe/Berlin", ["Sun"], "2026-03-28 12:00", "2026-04-05 00:10", "2026-04-05 01:00"),
    # And back on 25 October: 02:00 to 03:00 comes twice.
    ("02:30", "02:45", "Europe/Berlin", None, "2026-10-24 12:00", "2026-10-25 00:30", "2026-10-25 01:45"),
    ("02:00", "03:00", "Europe/Berlin", None, "2026-10-24 12:00", "2026-10-25 00:00", "2026-10-25 02:00"),
    ("01:00", "02:00", "Europe/Berlin", None, "2026-10-24 12:00", "2026-10-24 23:00", "2026-10-25 01:00"),
    ("20:00", "02:30", "Europe/Berlin", ["Sat"], "2026-10-24 12:00", "2026-10-24 18:00", "2026-10-25 01:30"),
    # New York: 8 March and 1 November 2026.
    ("02:00", "04:00", "America/New_York", None, "2026-03-08 00:00", "2026-03-08 07:00", "2026-03-08 08:00"),
    ("02:15", "02:45", "America/New_York", ["Sun"], "2026-03-07 12:00", "2026-03-15 06:15", "2026-03-15 06:45"),
    ("01:15", "01:30", "America/New_York", None, "2026-10-31 12:00", "2026-11-01 05:15", "2026-11-01 06:30"),
    # Lord Howe moves its clocks by half an hour: 02:00 to 02:30 is skipped on 4 October, 01:30 to 02:00 comes twice on
    # 5 April.
    ("02:10", "02:40", "Australia/Lord_Howe", None, "2026-10-03 12:00", "2026-10-03 15:30", "2026-10-03 15:40"),
    ("02:00", "02:30", "Australia/Lord_Howe", None, "2026-10-03 12:00", "2026-10-04 15:00", "2026-10-04 15:30"),
    ("01:40", "01:50", "Australia/Lord_Howe", None, "2026-04-04 12:00", "2026-04-04 14:40", "2026-04-04 15:20"),
    # Shanghai has had no daylight saving time since 1991; in 1989 it put its clocks forward on 16 April.
    ("02:30", "04:00", "Asia/Shanghai", None, "1989-04-15 12:00", "1989-04-15 18:00", "1989-04-15 19:00"),
    # Samoa skipped 30 December 2011 altogether.
    ("10:00", "12:00", "Pacific/Apia", ["Fri"], "2011-12-29 12:00", "2012-01-05 20:00", "2012-01-05 22:00"),
    ("20:00", "06:00", "Pacific/Apia", ["Thu"], "2011-12-29 12:00", "2011-12-30 06:00", "2011-12-30 10:00"),
]


@pytest.mark.parametrize(("begin", "end", "zone", "days", "before", "opens", "closes"), OPEN)
def test_when_a_window_is_open(
    begin: str, end: str, zone: str, days: list[str] | None, before: str, opens: str, closes: str
) -> None:
    windows = window(begin, end, zone, days)
    assert not inside(windows, at(before))
    assert text(next_begin(windows, at(before))) == opens
    assert text(next_change(windows, at(before))) == opens
    assert not inside(windows, at(opens) - 1)
    assert inside(windows, at(opens))
    assert inside(windows, at(closes) - 1)
    assert not inside(windows, at(closes))
    assert text(next_change(windows, at(opens))) == closes


def test_of_several_windows_any_counts_and_neighbours_are_one() -> None:
    windows = parse_start_windows(
        [{"from": "20:00", "to": "24:00"}, {"from": "00:00", "to": "06:00"}, {"from": "12:00", "to": "13:00"}], "w"
    )
    assert text(next_begin(windows, at("2026-05-04 06:00"))) == "2026-05-04 12:00"
    assert text(next_change(windows, at("2026-05-04 21:00"))) == "2026-05-05 06:00"
    found = [(text(begin), text(end)) for begin, end in spans(windows, at("2026-05-04 12:30"), at("2026-05-05 05:00"))]
    assert found == [("2026-05-04 12:00", "2026-05-04 13:00"), ("2026-05-04 20:00", "2026-05-05 06:00")]


def test_what_is_always_open_has_no_next_change() -> None:
    assert next_change(window("00:00", "24:00"), at("2026-05-04 06:00")) is None
    assert next_begin((), at("2026-05-04 06:00")) is None
    assert not inside((), at("2026-05-04 06:00"))


def test_the_end_of_the_calendar_is_no_error() -> None:
    windows = window("10:00", "12:00")
    assert next_begin(windows, at("9999-12-31 13:00")) is None
    assert not inside(windows, at("9999-12-31 13:00"))


# ---- how they are written

NOON = {"from": "12:00", "to": "13:00"}


def test_what_was_written_comes_back_and_absent_fields_have_defaults() -> None:
    raw = {"startWindows": [{"from": "20:00", "to": "06:00"}]}
    spec = parse_queue_spec(raw)
    assert spec.start_windows == (StartWindow((0, 1, 2, 3, 4, 5, 6), 1200, 360, "UTC"),)
    assert spec.to_dict() == raw


def test_fields_without_a_value_are_left_out() -> None:
    """The API server takes no null."""
    raw = {"startWindows": [NOON | {"days": None, "timeZone": None}]}
    assert parse_queue_spec(raw).to_dict() == {"startWindows": [NOON]}


@pytest.mark.parametrize("raw", [None, [], {}])
def test_without_windows_a_queue_is_always_open(raw: object) -> None:
    assert parse_queue_spec({"startWindows": raw} if raw != {} else {}).start_windows == ()


def test_the_order_of_days_and_windows_means_nothing() -> None:
    night = {"days": ["Tue", "Mon", "Mon"], "from": "20:00", "to": "06:00", "timeZone": "UTC"}
    noon = {"from": "12:00", "to": "13:00"}
    same = [noon, {"days": ["Mon", "Tue"], "from": "20:00", "to": "06:00"}, noon]
    assert parse_start_windows([night, noon], "w") == parse_start_windows(same, "w")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("20:00-06:00", ""),
        ({"from": "20:00"}, ""),
        (["20:00"], "[0]"),
        ([NOON] * 101, ""),
        ([{"to": "06:00"}], "[0].from"),
        ([{"from": "20:00"}], "[0].to"),
        ([NOON | {"from": 1200}], "[0].from"),
        ([NOON | {"from": "9:00"}], "[0].from"),
        ([NOON | {"to": "24:01"}], "[0].to"),
        ([NOON | {"to": "25:00"}], "[0].to"),
        ([NOON | {"to": "13:60"}], "[0].to"),
        ([NOON | {"to": "13:00\n"}], "[0].to"),
        ([NOON | {"to": "12:00"}], "[0].to"),
        ([{"from": "00:00", "to": "00:00"}], "[0].to"),
        ([{"from": "24:00", "to": "24:00"}], "[0].to"),
        ([{"from": "24:00", "to": "00:00"}], "[0].to"),
        ([NOON, NOON | {"days": []}], "[1].days"),
        ([NOON | {"days": "Mon"}], "[0].days"),
        ([NOON | {"days": ["Mon"] * 8}], "[0].days"),
        ([NOON | {"days": ["Mon", "Monday"]}], "[0].days[1]"),
        ([NOON | {"days": [["Mon"]]}], "[0].days[0]"),
        ([NOON | {"zone": "UTC"}], "[0].zone"),
        ([NOON | {"timeZone": ""}], "[0].timeZone"),
        ([NOON | {"timeZone": 8}], "[0].timeZone"),
        ([NOON | {"timeZone": "Asia/Beijing"}], "[0].timeZone"),
        ([NOON | {"timeZone": "Asia"}], "[0].timeZone"),
        ([NOON | {"timeZone": "+08:00"}], "[0].timeZone"),
        ([NOON | {"timeZone": "../etc/passwd"}], "[0].timeZone"),
        ([NOON | {"timeZone": "/etc/localtime"}], "[0].timeZone"),
        ([NOON | {"timeZone": "right/UTC"}], "[0].timeZone"),
        ([NOON | {"timeZone": "UTC\0"}], "[0].timeZone"),
        ([NOON | {"timeZone": "A" * 300}], "[0].timeZone"),
        ([NOON | {"timeZone": "Zürich"}], "[0].timeZone"),
    ],
)
def test_faults_have_paths(raw: object, path: str) -> None:
    with pytest.raises(Invalid) as failure:
        parse_queue_spec({"startWindows": raw})
    assert [fault.path for fault in failure.value.errors] == [f"spec.startWindows{path}"]


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(Invalid) as failure:
        parse_start_windows([{"from": 5, "to": "6", "timeZone": "Mars", "days": ["x"], "at": 1}], "w")
    assert {fault.path for fault in failure.value.errors} == {
        "w[0].from",
        "w[0].to",
        "w[0].timeZone",
        "w[0].days[0]",
        "w[0].at",
    }
