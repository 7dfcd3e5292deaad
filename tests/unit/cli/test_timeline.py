"""The timeline on a terminal: bars from when to when, told apart without colour, as wide as the terminal."""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console

from t9ksched.cli.commands.timeline import By, show
from t9ksched.cli.gantt import Axis, Bar
from tests.unit.cli.conftest import Service
from tests.unit.cli.test_main import _run

AT = datetime(2031, 5, 1, 10, 0, tzinfo=UTC)


def at(hours: float) -> str:
    return (AT + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def item(kind: str, job: str | None, since: float | None, until: float | None, *nodes: str, **more: Any) -> Any:
    places = [{"name": name, "pods": 1, "gpus": 4} for name in nodes]
    return {
        "kind": kind,
        "namespace": None if job is None else "ml",
        "job": job,
        "queue": "a100",
        "from": None if since is None else at(since),
        "until": None if until is None else at(until),
        "firm": None,
        "gpus": 4 * len(nodes),
        "nodes": places,
        **more,
    }


ANSWER = {
    "at": at(0),
    "to": at(24),
    "nodes": [{"name": name, "gpus": 8} for name in ("n0", "n1", "n2")],
    "items": [
        item("running", "Pod/endless", -5, None, "n1", queue=None),
        item("running", "Pod/short", -1, 6, "n0"),
        item("refill", "PodGroup/kept", -0.1, 0.2, "n1"),
        item("planned start", "PyTorchTrainingJob/large", 6, 18, "n0", "n1", firm=True),
        item("planned start", None, 12, 30, "n1", firm=False),
    ],
}


def drawn(by: By, width: int | None = None, answer: Any = ANSWER) -> list[str]:
    out = Console(
        file=io.StringIO(), width=width or 240, force_terminal=width is not None, no_color=True, color_system=None
    )
    show(answer, by, out, UTC)
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


BY_NODES = """\
2031-05-01 10:00 UTC, the next 24 h
NODE   JOB                           GPUS   WHEN                10:00   12:00   14:00   16:00   18:00   20:00   22:00   May 2   02:00   04:00   06:00   08:00
n0     ml/Pod/short                     4   until 16:00         ########################
       ml/PyTorchTrainingJob/large      4   16:00 – Fri 04:00                           ++++++++++++++++++++++++++++++++++++++++++++++++
n1     ml/Pod/endless                   4   no end              ###############################################################################################>
       ml/PodGroup/kept (refill)        4   09:54 – 10:12       /
       ml/PyTorchTrainingJob/large      4   16:00 – Fri 04:00                           ++++++++++++++++++++++++++++++++++++++++++++++++
       another user's                   4   22:00 – Fri 16:00                                                   ------------------------------------------------
n2     free                             –

## running   ++ planned start   -- planned start, tentative   // reserved   > no end is enforced
"""  # noqa: E501
BY_QUEUES = """\
2031-05-01 10:00 UTC, the next 24 h
QUEUE   JOB                           GPUS   WHEN                10:00   12:00   14:00   16:00   18:00   20:00   22:00   May 2   02:00   04:00   06:00   08:00
a100    ml/Pod/short                     4   until 16:00         ########################
        ml/PodGroup/kept (refill)        4   09:54 – 10:12       /
        ml/PyTorchTrainingJob/large      8   16:00 – Fri 04:00                           ++++++++++++++++++++++++++++++++++++++++++++++++
        another user's                   4   22:00 – Fri 16:00                                                   ------------------------------------------------
–       ml/Pod/endless                   4   no end              ###############################################################################################>

## running   ++ planned start   -- planned start, tentative   // reserved   > no end is enforced
"""  # noqa: E501


@pytest.mark.parametrize(("by", "expected"), [(By.nodes, BY_NODES), (By.queues, BY_QUEUES)])
def test_the_picture(by: By, expected: str) -> None:
    assert [line.rstrip() for line in drawn(by)] == expected.splitlines()


@pytest.mark.parametrize("width", [90, 109, 110, 200])
def test_on_a_terminal_it_is_as_wide_as_the_terminal(width: int) -> None:
    lines = drawn(By.nodes, width)
    longest = max(len(line.rstrip()) for line in lines if line.startswith("n1"))
    assert width - 4 <= longest <= width
    assert any("until" in line for line in lines) == (width >= 110), "times beside the bars where there is room"


def test_kinds_differ_by_their_characters_with_and_without_colour() -> None:
    for coloured in (True, False):
        axis = Axis(AT, AT + timedelta(hours=1), 10, coloured=coloured, zone=UTC)
        assert len({axis.bar(kind, AT, AT + timedelta(minutes=6)).plain for kind in Bar}) == len(Bar)


@pytest.mark.parametrize(
    ("since", "until", "bar"),
    [
        (0, 60, "##########"),
        (-600, 6, "#"),
        (6, 7, " #"),
        (6, 13, " ##"),
        (54, 600, "         #"),
        (30, None, "     ####>"),
        (None, 30, "#####"),
        (-60, -30, "#"),  # was to have ended
    ],
)
def test_bars(since: float | None, until: float | None, bar: str) -> None:
    def moment(minutes: float | None) -> datetime | None:
        return None if minutes is None else AT + timedelta(minutes=minutes)

    axis = Axis(AT, AT + timedelta(hours=1), 10, coloured=False, zone=UTC)
    assert axis.bar(Bar.RUNNING, moment(since), moment(until)).plain == bar


@pytest.mark.parametrize(
    ("hours", "cells", "zone", "labels"),
    [
        (1, 48, "UTC", "10:00       10:15       10:30       10:45"),
        (24, 24, "Asia/Shanghai", "      May 2       12:00"),
        (6, 48, "Asia/Kolkata", "    16:00   17:00   18:00   19:00   20:00"),
        (14 * 24, 40, "UTC", "          May 5      May 9       May 13"),
        (8760, 60, "UTC", "         Jun 26   Aug 21   Oct 16   Dec 11   Feb 5"),
    ],
)
def test_the_axis_has_the_times_of_the_zone(hours: int, cells: int, zone: str, labels: str) -> None:
    axis = Axis(AT, AT + timedelta(hours=hours), cells, coloured=False, zone=ZoneInfo(zone))
    assert axis.labels() == labels


def test_programs_get_what_rest_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    service.answers["GET /apis/v1/timeline"] = (200, ANSWER)
    where = ("--server", service.url, "--token", "t")
    assert _run(monkeypatch, "timeline", "--hours", "7", "-o", "json", *where) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
    assert _run(monkeypatch, "timeline", "--by", "cards", *where) == 2
    assert _run(monkeypatch, "timeline", "--hours", "0", *where) == 2
    capsys.readouterr()
    empty = {"at": at(0), "to": at(1), "nodes": [], "items": []}
    for by, said in ((By.nodes, "There are no nodes."), (By.queues, "Nothing runs")):
        assert said in drawn(by, answer=empty)[1]


def test_what_administrators_reserved_is_named() -> None:
    reserved = item("reservation", None, 1, 2, "n0", reservation="exam", queue=None)
    lines = drawn(By.nodes, answer=ANSWER | {"items": [reserved]})
    assert [line.split()[:3] for line in lines if "exam" in line] == [["n0", "reservation", "exam"]]
    assert any("////" in line for line in lines)


@pytest.mark.parametrize("by", By)
def test_one_that_repeats_has_one_row_with_each_of_its_times(by: By) -> None:
    times = [item("reservation", None, hour, hour + 0.5, "n0", reservation="exam", queue=None) for hour in (1, 3, 5)]
    other = item("reservation", None, 2, 3, "n0", reservation="other", queue=None)
    lines = drawn(by, answer=ANSWER | {"items": [times[0], other, *times[1:]]})
    (row,) = [line for line in lines if "exam" in line]
    assert len(re.findall("/+", row)) == 3
    assert "11:00 – 11:30 (+2)" in row
    assert len([line for line in lines if "other" in line]) == 1
