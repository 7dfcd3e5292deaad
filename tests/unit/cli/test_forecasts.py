"""`t9ksched forecast-accuracy` for people and for programs."""

import json
from typing import Any

import pytest

from t9ksched.model.forecast import Forecast, Outcome, accuracy
from tests.unit.cli.conftest import Service
from tests.unit.cli.test_main import _run

SECOND = 1_000_000_000
PLANNED = Outcome(Forecast(0, 0, 60 * SECOND, "plan"), 30 * SECOND)
LEARNED = Outcome(Forecast(0, 0, 20 * SECOND, "learned"), 25 * SECOND)
UNKNOWN = Outcome(Forecast(0), 5 * SECOND)


@pytest.mark.parametrize(
    ("outcomes", "lines"),
    [
        ([], ["0 jobs started after waiting; 0 of them had a forecast without a moment."]),
        (
            [PLANNED, UNKNOWN],
            [
                "2 jobs started after waiting; 1 of them had a forecast without a moment.",
                "",
                "plan 1 1 1 60 s 30 s 30 s",
            ],
        ),
        (
            [PLANNED, LEARNED],
            [
                "2 jobs started after waiting; 0 of them had a forecast without a moment.",
                "",
                "plan 1 1 1 60 s 30 s 30 s",
                "learned 1 0 0 20 s 5 s 5 s",
                "all 2 1 1 20 s 5 s 30 s",
            ],
        ),
    ],
)
def test_a_row_for_each_basis(
    outcomes: list[Outcome],
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    service: Service,
) -> None:
    service.answers["GET /apis/v1/forecast-accuracy"] = (200, accuracy(outcomes))
    assert _run(monkeypatch, "forecast-accuracy", "--server", service.url, "--token", "t") == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in shown if not line.startswith(("BASIS", "─", "-"))] == lines


def test_programs_get_what_rest_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    report: dict[str, Any] = accuracy([PLANNED])
    service.answers["GET /apis/v1/forecast-accuracy"] = (200, report)
    where = ("--server", service.url, "--token", "t")
    assert _run(monkeypatch, "forecast-accuracy", "--last", "-o", "json", *where) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert service.seen[-1][1].endswith("?which=last")
