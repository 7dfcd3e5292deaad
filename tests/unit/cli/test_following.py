"""Following a job: a line for each change, until it ends or is deleted."""

import io
import itertools

import pytest
from rich.console import Console

from t9ksched.cli import following
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Away, Failure
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
    monkeypatch.setattr(following.Watch, "wait", lambda *_: service.answers.clear())
    with pytest.raises(Failure, match="Job/fit was deleted before it ended"):
        follow(Client.at(service.url, ""), JOB, quiet=True)


def test_a_service_that_is_away_for_a_while_is_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service.answers[f"GET {JOB.path}"] = 200, {"kind": "Job", "name": "fit", "phase": "Succeeded"}
    client, looks = Client.at(service.url, ""), iter(["Running", None, None, "Succeeded"])

    def get(_: Client, path: str) -> dict[str, object]:
        phase = next(looks)
        if phase is None:
            raise Away("Nothing answers.")
        return {"kind": "Job", "name": "fit", "phase": phase}

    monkeypatch.setattr(Client, "get", get)
    monkeypatch.setattr(following.Watch, "wait", lambda *_: None)
    assert follow(client, JOB)["phase"] == "Succeeded"
    told = capsys.readouterr()
    assert told.out == "Job/fit is Running: 0 of 0 run\nJob/fit is Succeeded\n"
    assert told.err == "Nothing answers. Waiting for it…\n"
    looks = iter(["Running", *[None] * 3])
    moments = itertools.count(0.0, 100.0)
    monkeypatch.setattr(following.time, "monotonic", lambda: next(moments))
    with pytest.raises(Away):
        follow(client, JOB, quiet=True)
    looks = iter([None])
    with pytest.raises(Away):
        follow(client, JOB, quiet=True)


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_service_that_says_to_come_later_is_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    place = f"GET {JOB.path}"
    told: list[tuple[int, dict[str, object]]] = [
        (status, {"code": "Unavailable", "detail": "it starts"}),
        (200, {"kind": "Job", "name": "fit", "phase": "Succeeded"}),
    ]
    service.answers[place] = 200, {"kind": "Job", "name": "fit", "phase": "Running"}
    monkeypatch.setattr(following.Watch, "wait", lambda *_: service.answers.update({place: told.pop(0)}))
    assert follow(Client.at(service.url, ""), JOB, quiet=True)["phase"] == "Succeeded"
    assert capsys.readouterr().err == "it starts Waiting for it…\n"
    service.answers[place] = status, {"code": "Unavailable", "detail": "it starts"}
    with pytest.raises(Failure, match="it starts"):  # never seen before
        follow(Client.at(service.url, ""), JOB, quiet=True)
