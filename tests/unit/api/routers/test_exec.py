"""Commands in pods by REST: off by default, and where they are on only for those who may."""

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from t9ksched.api import podlogs
from t9ksched.kube.resources import PODS
from t9ksched.store.acceptances import Acceptance
from tests.unit.api.world import Command, Json, World, pod

JOB = "/apis/v1/workloads/{}/pod/p"
RUN = {"command": ["sh", "-c", "secret words"]}


async def running_pod(world: World, namespace: str = "default", *, recorded: bool = True) -> str:
    obj = pod("p", queue="a100")
    obj["metadata"]["namespace"] = namespace
    world.kube.namespaces.add(namespace)
    made = await world.kube.create(PODS, obj, namespace)
    stored = world.kube.objects[str(PODS), namespace, "p"]
    stored["spec"]["nodeName"] = "n1"
    stored["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    if recorded:
        accepted = Acceptance(
            uid=made["metadata"]["uid"], kind="Pod", namespace=namespace, name="p", submitter="ann", queue="a100"
        )
        await world.store.acceptances.put_many([accepted])
    return JOB.format(namespace)


@pytest.fixture(autouse=True)
def turned_on(world: World) -> None:
    world.app.state.services = replace(world.app.state.services, exec_allowed=True)


def lines(body: bytes) -> list[Json]:
    return [json.loads(line) for line in body.splitlines()]


async def test_a_command_is_run_and_is_on_record_without_its_words(world: World) -> None:
    address = await running_pod(world)
    world.kube.running = Command([(1, b"out"), (2, b"err\xff")], 7)
    found = await world.user("POST", f"{address}/exec", RUN | {"stdin": "typed"})
    assert (found.status, found.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    first, second, last = lines(found.body)
    assert (first["stream"], base64.b64decode(first["data"])) == ("stdout", b"out")
    assert (second["stream"], base64.b64decode(second["data"])) == ("stderr", b"err\xff")
    assert last == {"exitCode": 7}
    assert world.kube.running.typed == b"typed<end>"
    assert world.kube.commands == [
        (
            "default/p",
            [
                ("command", "sh"),
                ("command", "-c"),
                ("command", "secret words"),
                ("container", "main"),
                ("stdout", "true"),
                ("stderr", "true"),
                ("stdin", "true"),
            ],
        )
    ]
    (event,) = (await world.admin("GET", "/apis/v1/admin/audit?event=job-exec")).body["items"]
    assert event["actor"] == "ann"
    assert event["detail"] == {"pod": "p", "container": "main", "program": "sh", "words": 3}


async def test_it_is_off_by_default(world: World) -> None:
    world.app.state.services = replace(world.app.state.services, exec_allowed=False)
    found = await world.user("POST", f"{await running_pod(world)}/exec", RUN)
    assert (found.status, "runs no commands" in found.body["detail"]) == (403, True)
    assert world.kube.commands == []


@pytest.mark.parametrize(
    ("namespace", "recorded", "told"),
    [
        ("kube-system", True, "system namespace"),
        ("t9k-system", True, "system namespace"),
        ("ml", False, "not on record"),
    ],
)
async def test_only_pods_of_recorded_jobs_outside_system_namespaces(
    world: World, namespace: str, recorded: bool, told: str
) -> None:
    address = await running_pod(world, namespace, recorded=recorded)
    found = await world.admin("POST", f"{address}/exec", RUN)
    assert (found.status, told in found.body["detail"]) == (403, True), found.body
    assert world.kube.commands == []


async def test_the_cluster_must_let_the_user(world: World) -> None:
    address = await running_pod(world)
    world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
    for client in (world.user, world.admin):
        found = await client("POST", f"{address}/exec", RUN)
        assert (found.status, "create pods/exec" in found.body["detail"]) == (403, True)
    attributes = world.kube.reviews[-1]["spec"]["resourceAttributes"]
    assert (attributes["verb"], attributes["subresource"], attributes["name"]) == ("create", "exec", "p")
    assert world.kube.commands == []


async def test_a_command_ends_with_the_right_to_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podlogs, "REVIEW_SECONDS", 0.02)
    address = await running_pod(world)
    world.kube.running = Command([(1, b"x")], endless=True)
    asked = asyncio.create_task(world.user("POST", f"{address}/exec", RUN))
    async with asyncio.timeout(30):
        while not world.kube.commands:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
        found = await asked
    assert lines(found.body)[-1] == {"error": "the right to run commands here was taken away"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "command"),
        ({"command": []}, "no list of words"),
        ({"command": "ls"}, "no list of words"),
        ({"command": ["ls", 1]}, "no list of words"),
        ({"command": ["ls"], "tty": True}, "the fields are command, container and stdin"),
        ({"command": ["ls"], "container": 3}, "is no text"),
        ({"command": ["ls"], "container": "x"}, "these are main"),
    ],
)
async def test_wrong_bodies(world: World, body: dict[str, Any], told: str) -> None:
    found = await world.user("POST", f"{await running_pod(world)}/exec", body)
    assert (found.status, told in found.body["detail"]) == (422, True), found.body
