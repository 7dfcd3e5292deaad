"""`top`: what it shows, and what its keys do, with a service that answers what a test tells it to."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, RichLog, Static

from t9ksched.cli.cards import Palette
from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.main import _without_service
from t9ksched.cli.top.application import Top
from t9ksched.cli.top.screens import AskScreen, LogScreen, TextScreen
from t9ksched.cli.top.view import Asked, View, node_lines, queue_lines, read, summary
from tests.unit.cli.conftest import Call, Service

HOLDER = {"namespace": "default", "pod": "resnet-0", "job": "PyTorchTrainingJob/resnet", "whole": True}
NODE = {
    "name": "a100-0",
    "ready": True,
    "gpus": [
        {"index": 0, "resource": "nvidia.com/gpu", "holders": [HOLDER]},
        {"index": 1, "resource": "nvidia.com/gpu", "holders": []},
    ],
}
QUEUE = {
    "name": "a100",
    "spec": {"quota": {"requests": {"nvidia.com/gpu": "8", "cpu": "4"}}, "closed": True},
    "status": {"allocated": {"nvidia.com/gpu": "1"}},
}
RUNS = {
    "uid": "1",
    "namespace": "default",
    "kind": "PyTorchTrainingJob",
    "name": "resnet",
    "queue": "a100",
    "phase": "Running",
    "submitter": "ann",
    "members": {"running": 1, "total": 1, "min": 1},
}
WAITS = RUNS | {"uid": "2", "kind": "Job", "name": "fit", "phase": "Pending", "position": 1}
WAITS["reason"] = {"code": "QuotaExceeded", "message": "needs 16"}
ENDED = RUNS | {"uid": "3", "name": "old", "phase": "Succeeded"}
WORKLOADS = "/apis/v1/workloads"


@pytest.fixture
def client(service: Service) -> Client:
    service.answers[f"GET {WORKLOADS}"] = 200, {"items": [WAITS, RUNS, ENDED], "stopped": []}
    service.answers["GET /apis/v1/nodes"] = 200, {"items": [NODE]}
    service.answers["GET /apis/v1/queues"] = 200, {"items": [QUEUE]}
    return Client.at(service.url, "t")


async def until(pilot: Pilot[None], look: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not look():
            await pilot.pause(0.02)


def table(app: Top) -> DataTable[Any]:
    return app.screen_stack[0].query_one("#jobs", DataTable)


def test_what_is_shown(client: Client) -> None:
    view = read(client, Asked())
    assert [job["name"] for job in view.jobs] == ["resnet", "fit"]
    assert [job["name"] for job in read(client, Asked(ended=True)).jobs] == ["resnet", "old", "fit"]
    assert summary(view).plain == "t9ksched 1/1 nodes ready  1/2 cards held  1 running  1 waiting"
    told = summary(View(stopped=[{"what": "preemption"}], fault="Nothing answers."))
    assert told.plain.endswith("preemption is stopped  Nothing answers.")
    assert node_lines(view, Palette(False)).plain == "a100-0  A .  1/2"
    assert queue_lines(view).plain == "a100  nvidia.com/gpu 1/8  closed"


async def test_keys_explain_follow_and_cancel(client: Client, service: Service) -> None:
    path = f"{WORKLOADS}/default/PyTorchTrainingJob/resnet"
    service.answers[f"GET {path}/explanation"] = 200, {"job": RUNS, "verdict": "Placed", "reasons": []}
    service.answers[f"GET {path}"] = 200, RUNS | {"phase": "Succeeded"}
    service.answers[f"GET {path}/pods"] = 200, {"items": []}
    service.answers[f"DELETE {path}"] = 200, RUNS
    app = Top(client, Asked(), "ann")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: table(app).row_count == 2)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: app.screen.query(Static))
        assert "Placed" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogScreen) and app.screen.query_one(RichLog).lines)
        await pilot.press("q")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, AskScreen))
        await pilot.press("n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert not any(method == "DELETE" for method, *_ in service.seen)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, AskScreen))
        await pilot.press("y")
        await until(pilot, lambda: any(method == "DELETE" for method, *_ in service.seen))
        await pilot.press("q")


async def test_the_list_is_chosen_by_keys_and_the_cursor_stays_on_its_job(client: Client, service: Service) -> None:
    app = Top(client, Asked(), "ann")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: table(app).row_count == 2)
        await pilot.press("down")
        assert app._chosen_key() == "2"
        await pilot.press("f")
        await until(pilot, lambda: table(app).row_count == 3)
        assert app._chosen_key() == "2"
        await pilot.press("m")
        await until(pilot, lambda: any("user=ann" in path for _, path, *_ in service.seen))
        service.answers.clear()
        await pilot.press("f")
        await until(pilot, lambda: app._shown.fault)
        assert table(app).row_count == 3, "what was there stays"
        await pilot.press("e")
        await until(pilot, lambda: app._notifications)
        await pilot.press("ctrl+c")
    assert app.return_code == 0


def test_without_a_terminal_or_the_library(call: Call) -> None:
    code, out, err = call("top")
    assert (code, out, "This needs a terminal" in err) == (2, "", True)
    told = _without_service(ModuleNotFoundError("no", name="textual.app"))
    assert isinstance(told, Failure)
    assert (told.code, told.remedy) == (BAD_USAGE, "Install it: pip install 't9ksched[top]'")
