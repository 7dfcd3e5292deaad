"""Following a job: a line for each change, until it ends or is deleted."""

import io

import pytest
from rich.console import Console

from t9ksched.cli import following
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from t9ksched.cli.following import Teller, follow
from t9ksched.cli.kinds import Target
from tests.unit.cli.conftest import Service

JOB = Target("lab", "Job", "fit")


def told(*jobs: dict[str, object]) -> list[str]:
    out = io.StringIO()
    teller = Teller(Console(file=out, width=200))
    for job in jobs:
        teller.tell({"kind": "Job", "name": "fit", "queue": "a100"} | job)
    return out.getvalue().splitlines()


def test_a_line_for_each_change_and_none_between() -> None:
    waits = {"phase": "Pending", "position": 3, "reason": {"code": "InsufficientResources", "message": "needs 8"}}
    runs = {"phase": "Running", "members": {"running": 1, "total": 2}}
    assert told(waits, waits, waits | {"position": 1}, runs, runs | {"position": 9}, {"phase": "Succeeded"}) == [
        "Job/fit is Pending, place 3 in queue a100: InsufficientResources: needs 8",
        "Job/fit is Pending, place 1 in queue a100: InsufficientResources: needs 8",
        "Job/fit is Running: 1 of 2 run",
        "Job/fit is Succeeded",
    ]


def test_a_job_that_has_ended_is_followed_no_further(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answers[f"GET {JOB.path}"] = 200, {"kind": "Job", "name": "fit", "phase": "Failed"}
    assert follow(Client.at(service.url, ""), JOB)["phase"] == "Failed"
    assert capsys.readouterr().out == "Job/fit is Failed\n"
    assert follow(Client.at(service.url, ""), JOB, quiet=True)["phase"] == "Failed"
    assert capsys.readouterr().out == ""


def test_a_job_that_is_deleted_meanwhile(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.answers[f"GET {JOB.path}"] = 200, {"kind": "Job", "name": "fit", "phase": "Running"}
    monkeypatch.setattr(following.time, "sleep", lambda _: service.answers.clear())
    with pytest.raises(Failure, match="Job/fit was deleted before it ended"):
        follow(Client.at(service.url, ""), JOB, quiet=True)
