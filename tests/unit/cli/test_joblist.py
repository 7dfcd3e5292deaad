"""The list of jobs: its columns, their order, and how they fit a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from t9ksched.cli.commands.jobs import show
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.joblist import COLUMNS, USUAL, columns_of, shortened, sorted_by, start, table_lines
from tests.unit.cli.conftest import Call, Service

REASON = {"code": "QuotaExceeded", "message": "needs 16"}
JOB: dict[str, Any] = {
    "namespace": "default",
    "kind": "PyTorchTrainingJob",
    "name": "resnet",
    "uid": "1",
    "submitter": "ann",
    "queue": "a100",
    "priority": 7,
    "phase": "Running",
    "members": {"running": 4, "total": 4, "min": 4},
    "cards": 16.0,
    "submittedAt": "2000-01-01T00:00:00Z",
}
WAITS = JOB | {"name": "three", "uid": "2", "phase": "Pending", "position": 3, "reason": REASON, "priority": 0}


def lines(*jobs: dict[str, Any], width: int | None = None) -> list[str]:
    columns = [COLUMNS[name] for name in USUAL if width is None or name != "WHY"]
    return [line.rstrip() for line in table_lines(jobs, columns, width, short=width is not None)]


def printed(*jobs: dict[str, Any], width: int, **terminal: Any) -> str:
    out = io.StringIO()
    show(jobs, Console(file=out, width=width, **terminal))
    return out.getvalue()


def test_without_a_terminal_nothing_is_left_out() -> None:
    head, first, second = lines(JOB, WAITS)
    assert head.split() == list(USUAL)
    assert first.split()[:9] == [
        "default",
        "PyTorchTrainingJob/resnet",
        "ann",
        "a100",
        "7",
        "Running",
        "4/4",
        "16",
        "–",
    ]
    assert second.endswith("QuotaExceeded: needs 16")


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_a_terminal_is_wide_enough_for_what_is_shown(width: int) -> None:
    long = WAITS | {
        "name": "a-name-of-a-job-that-is-longer-than-most",
        "queue": "research-and-teaching",
        "submitter": "x" * 30,
    }
    shown = lines(JOB, long, JOB | {"namespace": "another"}, width=width)
    assert max(map(len, shown)) <= max(width, 67), "as narrow as it gets"
    for name in ("JOB", "USER", "QUEUE", "PHASE", "GPUS", "POS", "START"):
        assert name in shown[0].split()
    assert "pj/resnet" in shown[1]


def test_one_namespace_has_no_column_where_there_is_no_room() -> None:
    assert "NAMESPACE" not in lines(JOB, WAITS, width=70)[0]
    assert "NAMESPACE" in lines(JOB, WAITS, width=120)[0]


def test_reasons_are_sentences_on_a_terminal_the_same_ones_together() -> None:
    terminal = {"force_terminal": True, "_environ": {"TERM": "dumb"}}
    more = [WAITS | {"name": f"j{number}"} for number in range(5)]
    text = printed(JOB, *more, JOB | {"phase": "Failed", "reason": REASON}, width=80, **terminal)
    assert "PyTorchTrainingJob/j0, PyTorchTrainingJob/j1, PyTorchTrainingJob/j2 and 2 more" in text
    assert " ".join(text.split()).endswith("PyTorchTrainingJob/resnet failed: QuotaExceeded: needs 16")


def test_colours_are_for_terminals_that_have_them() -> None:
    colours = {"force_terminal": True, "_environ": {"TERM": "xterm-256color"}}
    assert "\x1b[32mRunning\x1b[0m" in printed(JOB, width=80, **colours)
    assert "\x1b" not in printed(JOB, width=80, force_terminal=True, _environ={"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in printed(JOB, width=80)


@pytest.mark.parametrize(
    ("job", "text"),
    [
        ({"startedAt": "2000-01-01T00:00:00Z", "phase": "Running"}, "d ago"),
        ({"phase": "Pending", "plannedStart": {"at": "2000-01-01T00:00:00Z", "firm": True}}, "now"),
        ({"phase": "Pending", "plannedStart": {"at": "2000-01-01T00:00:00Z", "firm": False}}, "~ now"),
        ({"phase": "Pending", "expectedStart": {"latest": "2000-01-01T00:00:00Z"}}, "~ now"),
        ({"phase": "Pending", "expectedStart": {"latest": None}}, "–"),
        ({"phase": "Failed", "plannedStart": {"at": "2000-01-01T00:00:00Z"}}, "–"),
    ],
)
def test_starts(job: dict[str, Any], text: str) -> None:
    assert start(job).endswith(text)


def test_sorting_puts_what_has_no_value_last() -> None:
    def names(text: str) -> list[str]:
        return [job["name"] for job in sorted_by([WAITS, JOB, WAITS | {"name": "a", "position": 1}], text)]

    assert names("pos") == ["a", "three", "resnet"]
    assert names("-pos") == ["three", "a", "resnet"]
    assert names("-PRIO")[0] == "resnet"
    with pytest.raises(Failure, match="--sort: there is no column 'x'") as told:
        names("x")
    assert told.value.code == BAD_USAGE


def test_columns_of_ones_own() -> None:
    found = columns_of("custom-columns=job,WHO:.submitter,N:.members.running,L:.labels['a.b/c'],:.reason.code,F:.x[0]")
    rows = [line.split() for line in table_lines([WAITS | {"labels": {"a.b/c": "v"}}], found, None)]
    assert rows[0] == ["JOB", "WHO", "N", "L", ".reason.code", "F"]
    assert rows[1] == ["PyTorchTrainingJob/three", "ann", "4", "v", "QuotaExceeded", "<none>"]
    for text in ("custom-columns=nope", "custom-columns=A:.x[", "custom-columns="):
        with pytest.raises(Failure):
            columns_of(text)


def test_a_long_name_keeps_both_its_ends() -> None:
    assert shortened("experiment-0017-worker-x7k2p", 16) == "experiment…x7k2p"
    assert shortened("short", 16) == "short"


def test_filters_and_forms(service: Service, call: Call) -> None:
    service.answers["GET /apis/v1/whoami"] = 200, {"user": "ann"}
    service.answers["GET /apis/v1/workloads"] = 200, {"items": []}
    code, out, _ = call("jobs", "--mine", "--user", "bob", "--queue", "a", "--queue", "b", "--phase", "Failed", "--all")
    assert (code, out.startswith("No jobs in queue a or b and in phase Failed and of user bob or ann.")) == (0, True)
    assert service.seen[-1][1] == "/apis/v1/workloads?queue=a&queue=b&phase=Failed&user=bob&user=ann&deleted=true"
    service.answers["GET /apis/v1/workloads"] = 200, {"items": [JOB, WAITS]}
    code, out, _ = call("jobs", "-o", "custom-columns=POS", "--sort", "-name")
    assert (code, out) == (2, "")
    assert call("jobs", "-o", "custom-columns=POS", "--sort", "-job")[1] == "POS\n  3\n  –\n"
    assert "SUBMITTED" in call("jobs", "-o", "wide")[1]
    assert call("jobs", "-o", "xml")[0] == 2
