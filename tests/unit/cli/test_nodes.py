"""The list of nodes: how many cards are held, each kind for itself."""

import io
from typing import Any

import pytest
from rich.console import Console

from t9ksched.cli.commands.nodes import held, show_all, show_one


def _card(resource: str, taken: bool) -> dict[str, Any]:
    return {"resource": resource, "holders": [{"pod": "p"}] if taken else []}


WHOLE = [_card("nvidia.com/gpu", index < 2) for index in range(4)]
SLICES = {"resource": "nvidia.com/mig-1g.5gb", "has": 28, "held": 3}


@pytest.mark.parametrize(
    ("gpus", "counted", "shown"),
    [
        ([], [], "–"),
        (WHOLE, [], "2/4"),
        ([], [SLICES], "3/28"),
        (WHOLE, [SLICES], "2/4, 3/28"),
        ([*WHOLE, _card("amd.com/gpu", True)], [], "2/4, 1/1"),
        ([], [SLICES | {"has": 0, "held": 0}], "–"),
    ],
)
def test_held(gpus: list[dict[str, Any]], counted: list[dict[str, Any]], shown: str) -> None:
    assert held(gpus, counted) == shown


def test_planned_starts() -> None:
    plan = {"at": "2000-01-01T00:00:00Z", "until": None, "namespace": "ns", "job": "Pod/a", "queue": "q", "gpus": 4}
    hidden = plan | {"namespace": None, "job": None, "until": "2000-01-02T00:00:00Z"}
    nodes = [{"name": "n0", "gpus": [], "planned": [plan, hidden]}, {"name": "n1", "gpus": [], "planned": []}]
    out = Console(file=io.StringIO(), width=240)
    show_all(nodes, out)
    head, *rows = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [row[head.index("PLANNED") :].strip() for row in rows] == ["now: ns/Pod/a, 1 more", "–"]
    show_all(nodes[1:], out)
    assert out.file.getvalue().count("PLANNED") == 1  # type: ignore[attr-defined]
    show_one(nodes[0], out)
    lines = [line.split() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[-3:] == [
        ["PLANNED", "START", "UNTIL", "JOB", "QUEUE", "GPUS"],
        ["2000-01-01T00:00:00Z", "–", "ns/Pod/a", "q", "4"],
        ["2000-01-01T00:00:00Z", "2000-01-02T00:00:00Z", "another", "user's", "q", "4"],
    ]


def test_links_that_are_not_followed_are_told() -> None:
    out = Console(file=io.StringIO(), width=240)
    show_one({"name": "n0", "gpus": [], "linksIgnored": "scheduler.tensorstack.dev/gpu-links is no JSON: why"}, out)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1] == "Links between cards not followed: scheduler.tensorstack.dev/gpu-links is no JSON: why"


def test_parts_of_cards_are_told_with_their_holders() -> None:
    def holder(pod: str, **more: Any) -> dict[str, Any]:
        return {"namespace": "ns", "pod": pod, "container": "main", **more}

    cards = [
        {"index": 0, "memoryMiB": 32510, "holders": [holder("a", whole=False, cores=30, memoryMiB=1024)]},
        {"index": 1, "memoryMiB": 32510, "holders": [holder("b", whole=True, cores=100, memoryMiB=32510)]},
        {"index": 2, "holders": [{"namespace": None, "pod": None, "whole": False, "cores": 5, "memoryMiB": 256}]},
    ]
    out = Console(file=io.StringIO(), width=240)
    show_one({"name": "n0", "gpus": cards}, out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert "ns/a 30 % 1024 MiB" in shown
    assert "ns/b " in shown
    assert "another user's 5 % 256 MiB" in shown
    assert "ns/b 100 %" not in shown
