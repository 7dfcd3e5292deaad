"""Reservations by administrators: how they are read, when they are in force, whom they are for."""

from itertools import islice, pairwise
from typing import Any

import pytest

from t9ksched.model.advance_reservation import AdvanceReservation
from t9ksched.model.errors import Invalid
from t9ksched.model.overlaps import Timetable, first_overlap
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, nanoseconds, parse_moment, written_moment


def form(**fields: Any) -> dict[str, Any]:
    base = {
        "name": "weekly-eval",
        "from": "2030-01-07T20:00:00Z",
        "to": "2030-01-07T22:00:00Z",
        "nodes": {"names": ["n1", "n2"]},
        "for": {"queues": ["eval"]},
    }
    return base | {key.rstrip("_"): value for key, value in fields.items()}


def at(text: str) -> int:
    return nanoseconds(parse_moment(text))


def spans(one: AdvanceReservation, after: str, count: int = 10) -> list[tuple[str, str]]:
    found = islice(one.occurrences(at(after)), count)
    return [(written_moment(moment_at(begin)), written_moment(moment_at(end))) for begin, end in found]


def faults(raw: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        parse_reservation(raw)
    return {fault.path: fault.message for fault in error.value.errors}


def test_the_needed_fields_are_enough() -> None:
    found = parse_reservation(form())
    assert found.to_dict() == form() | {
        "every": "",
        "until": None,
        "timeZone": "UTC",
        "cards": None,
        "for": {"queues": ["eval"], "users": [], "groups": []},
        "onConflict": "Refuse",
        "force": False,
        "drainAhead": "24h",
        "releaseUnusedAfter": "30m",
        "note": "",
    }
    assert parse_reservation(found.to_dict()) == found


def test_every_field_is_read_and_written() -> None:
    written = form(
        every="daily",
        until="2030-03-01T00:00:00+08:00",
        timeZone="Asia/Shanghai",
        nodes={"selector": {"matchLabels": {"pool": "a100"}}, "count": 3},
        cards={"resource": "nvidia.com/gpu", "count": 4},
        for_="maintenance",
        onConflict="Preempt",
        force=True,
        drainAhead="2h",
        releaseUnusedAfter="0",
        note="firmware",
    )
    assert parse_reservation(written).to_dict() == written


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "Upper"}, "name"),
        ({"name": 7}, "name"),
        ({"from_": "soon"}, "from"),
        ({"to": "2030-01-07T20:00:00Z"}, "to"),
        ({"to": "2030-01-07T19:00:00Z"}, "to"),
        ({"every": "monthly"}, "every"),
        ({"every": ["daily"]}, "every"),
        ({"every": "daily", "to": "2030-01-08T20:00:01Z"}, "to"),
        ({"every": "weekly", "to": "2030-01-14T20:00:01Z"}, "to"),
        ({"until": "2030-02-01T00:00:00Z"}, "until"),
        ({"every": "daily", "until": "2030-01-07T19:00:00Z"}, "until"),
        ({"timeZone": "Mars"}, "timeZone"),
        ({"nodes": []}, "nodes"),
        ({"nodes": {}}, "nodes"),
        ({"nodes": {"names": []}}, "nodes"),
        ({"nodes": {"names": "n1"}}, "nodes.names"),
        ({"nodes": {"names": ["N 1"]}}, "nodes.names"),
        ({"nodes": {"names": ["n1"], "count": 1}}, "nodes.count"),
        ({"nodes": {"selector": {}}}, "nodes.count"),
        ({"nodes": {"selector": {}, "count": 0}}, "nodes.count"),
        ({"nodes": {"selector": {}, "count": True}}, "nodes.count"),
        ({"nodes": {"selector": {"matchLabels": {"a b": "c"}}, "count": 1}}, "nodes.selector.matchLabels.a b"),
        ({"nodes": {"selector": {}, "count": 1, "names": ["n1"]}}, "nodes.names"),
        ({"nodes": {"name": ["n1"]}}, "nodes.name"),
        ({"cards": 4}, "cards"),
        ({"cards": {"resource": "gpu", "count": 4}}, "cards.resource"),
        ({"cards": {"resource": "nvidia.com/gpu", "count": 0}}, "cards.count"),
        ({"for_": "nobody"}, "for"),
        ({"for_": {}}, "for"),
        ({"for_": {"queues": []}}, "for"),
        ({"for_": {"queues": [7]}}, "for.queues"),
        ({"for_": {"queue": ["eval"]}}, "for.queue"),
        ({"onConflict": "Ignore"}, "onConflict"),
        ({"force": "yes"}, "force"),
        ({"force": True}, "force"),
        ({"drainAhead": "soon"}, "drainAhead"),
        ({"drainAhead": ""}, "drainAhead"),
        ({"drainAhead": 24}, "drainAhead"),
        ({"releaseUnusedAfter": "2y"}, "releaseUnusedAfter"),
        ({"note": "x" * 1001}, "note"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_fault_names_its_field(change: dict[str, Any], path: str) -> None:
    assert path in faults(form(**change))


def test_how_many_nodes_is_asked_for() -> None:
    told = faults(form(nodes={"selector": {}}))
    assert told == {"nodes.count": "is missing: say how many of the nodes that the selector matches"}


def test_all_faults_are_told_at_once() -> None:
    assert set(faults({"every": "hourly"})) == {"name", "from", "to", "nodes", "for", "every"}
    assert set(faults([])) == {""}


def test_one_occurrence_without_repetition() -> None:
    one = parse_reservation(form())
    assert spans(one, "2030-01-01T00:00:00Z") == [("2030-01-07T20:00:00Z", "2030-01-07T22:00:00Z")]
    assert one.current(at("2030-01-07T21:00:00Z")) == (at("2030-01-07T20:00:00Z"), at("2030-01-07T22:00:00Z"))
    assert one.current(at("2030-01-07T22:00:00Z")) is None


def test_occurrences_repeat_until_the_last_begin() -> None:
    one = parse_reservation(form(every="weekly", until="2030-01-21T20:00:00Z"))
    begins = ["2030-01-07T20:00:00Z", "2030-01-14T20:00:00Z", "2030-01-21T20:00:00Z"]
    assert [begin for begin, _ in spans(one, "2030-01-01T00:00:00Z")] == begins
    assert [begin for begin, _ in spans(one, "2030-01-07T22:00:00Z")] == begins[1:]
    assert [begin for begin, _ in spans(one, "2030-01-14T21:59:59Z")] == begins[1:]
    assert spans(one, "2030-01-21T22:00:00Z") == []


def test_the_wall_clock_is_followed_when_clocks_are_set() -> None:
    one = parse_reservation(
        form(from_="2026-03-27T02:30:00+01:00", to="2026-03-27T04:00:00+01:00", every="daily", timeZone="Europe/Berlin")
    )
    assert spans(one, "2026-03-01T00:00:00Z", 4) == [
        ("2026-03-27T01:30:00Z", "2026-03-27T03:00:00Z"),
        ("2026-03-28T01:30:00Z", "2026-03-28T03:00:00Z"),
        ("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"),  # 02:30 is skipped: from 03:00 on
        ("2026-03-30T00:30:00Z", "2026-03-30T02:00:00Z"),
    ]
    autumn = spans(one, "2026-10-24T12:00:00Z", 1)
    assert autumn == [("2026-10-25T00:30:00Z", "2026-10-25T03:00:00Z")]  # from the first 02:30


def test_an_occurrence_whose_times_fall_together_does_not_exist() -> None:
    one = parse_reservation(
        form(from_="2026-03-28T02:10:00+01:00", to="2026-03-28T02:50:00+01:00", every="daily", timeZone="Europe/Berlin")
    )
    begins = [begin for begin, _ in spans(one, "2026-03-28T00:00:00Z", 3)]
    assert begins == ["2026-03-28T01:10:00Z", "2026-03-30T00:10:00Z", "2026-03-31T00:10:00Z"]


def test_occurrences_do_not_overlap_when_a_time_comes_twice() -> None:
    one = parse_reservation(
        form(from_="2026-10-23T02:30:00+02:00", to="2026-10-24T02:30:00+02:00", every="daily", timeZone="Europe/Berlin")
    )
    found = spans(one, "2026-10-23T00:00:00Z", 4)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(found))


def test_occurrences_of_long_ago_are_not_walked() -> None:
    one = parse_reservation(form(from_="1970-01-02T00:00:00Z", to="1970-01-02T01:00:00Z", every="daily"))
    assert spans(one, "2099-12-31T12:00:00Z") == [
        (f"2100-{month:02}-{day:02}T00:00:00Z", f"2100-{month:02}-{day:02}T01:00:00Z")
        for month, day in [(1, day) for day in range(1, 11)]
    ]
    assert one.current(at("2100-12-31T12:00:00Z")) == (4133980800 * 10**9, 4133984400 * 10**9)
    assert one.current(4133984400 * 10**9) is None  # the calendar of reservations ends


@pytest.mark.parametrize(
    ("whom", "queue", "user", "groups", "admitted"),
    [
        ({"queues": ["eval"]}, "eval", "ann", (), True),
        ({"queues": ["eval"]}, "train", "ann", (), False),
        ({"users": ["ann"]}, "train", "ann", (), True),
        ({"users": ["ann"]}, "train", "", (), False),
        ({"groups": ["ops"]}, "train", "bob", ("ml", "ops"), True),
        ({"groups": ["ops"]}, "train", "bob", ("ml",), False),
        ("maintenance", "eval", "ann", ("ops",), False),
    ],
)
def test_whom_it_is_for(whom: Any, queue: str, user: str, groups: tuple[str, ...], admitted: bool) -> None:
    assert parse_reservation(form(for_=whom)).admits(queue, user, groups) is admitted


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"from_": "2030-01-07T21:00:00Z", "to": "2030-01-07T23:00:00Z"}, "2030-01-07T21:00:00Z"),
        ({"from_": "2030-01-07T22:00:00Z", "to": "2030-01-07T23:00:00Z"}, None),
        ({"from_": "2030-01-01T21:00:00Z", "to": "2030-01-01T21:30:00Z", "every": "daily"}, "2030-01-07T21:00:00Z"),
        ({"from_": "2030-01-01T21:00:00Z", "to": "2030-01-01T21:30:00Z", "every": "weekly"}, None),
    ],
)
def test_when_two_overlap_first(other: dict[str, Any], expected: str | None) -> None:
    one, two = parse_reservation(form()), parse_reservation(form(**other))
    for first, second in ((one, two), (two, one)):
        found = first_overlap(Timetable(first), Timetable(second), 0)
        assert (None if found is None else written_moment(moment_at(found.begin))) == expected


def test_an_occurrence_that_ended_early_is_left_out() -> None:
    one = parse_reservation(form(every="daily"))
    now, begin, day = at("2030-01-09T21:00:00Z"), at("2030-01-09T20:00:00Z"), 24 * 3600 * 10**9
    assert one.current(now) == (begin, begin + day // 12)
    assert one.current(now, begin) == (begin + day, begin + day + day // 12)
    assert one.current(now, begin - day) == one.current(now)
    other = parse_reservation(form(from_="2030-01-09T20:30:00Z", to="2030-01-09T21:30:00Z"))
    assert first_overlap(Timetable(one, begin), Timetable(other), now) is None
    assert first_overlap(Timetable(other), Timetable(one), now) is not None


@pytest.mark.parametrize(
    ("before", "change", "over"),
    [
        pytest.param({"every": "daily"}, {"note": "x"}, "2030-01-09T20:00:00Z", id="the same times"),
        pytest.param({"every": "daily"}, {"to": "2030-01-07T23:00:00Z"}, "2030-01-09T20:00:00Z", id="a later end"),
        pytest.param({"every": "daily"}, {"from_": "2030-01-07T20:30:00Z"}, "2030-01-09T20:30:00Z", id="begins later"),
        pytest.param({"every": "daily"}, {"from_": "2030-01-07T21:30:00Z"}, None, id="is to come"),
        pytest.param({"every": "daily"}, {"every": ""}, None, id="does not repeat any more"),
        pytest.param({"every": "weekly"}, {"note": "x"}, None, id="ended early, and is over by now"),
    ],
)
def test_an_edit_is_about_the_occurrences_to_come(before: Any, change: Any, over: str | None) -> None:
    """Of one that began at 20:00 on the 9th and ended early, edited at 21:00."""
    old, new = parse_reservation(form(**before)), parse_reservation(form(**before | change))
    found = old.still_over(new, at("2030-01-09T20:00:00Z"), at("2030-01-09T21:00:00Z"))
    assert found == (None if over is None else at(over))
