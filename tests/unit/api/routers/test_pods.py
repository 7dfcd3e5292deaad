"""The pods of a job by REST, and their logs: who may read them, and what is said when there are none."""

import asyncio
from typing import Any

import aiohttp
import pytest

from t9ksched.api import podlogs
from t9ksched.api.jobpods import ranked
from t9ksched.kube.errors import BadRequest, TimedOut
from t9ksched.kube.resources import PODS
from tests.unit.api.world import Json, World, pod, pytorch

JOB = "/apis/v1/workloads/default/pytorchtrainingjob/resnet"
RUNNING = {"running": {"startedAt": "2031-05-01T10:00:00Z"}}


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


async def member(
    world: World, job: Json, index: int, state: Json | None = None, *, role: str = "node", **more: Any
) -> Json:
    """A pod of a PyTorch job, as its controller makes it; with the state of its container once it is on a node."""
    obj = pod(f"resnet-{role}-{index}")
    obj["metadata"] |= {
        "namespace": "default",
        "labels": {
            "tensorstack.dev/owner-name": "resnet",
            "replica-type": role,
            "replica-index": str(index),
            **({"job-role": "master"} if more.pop("master", False) else {}),
        },
        "ownerReferences": [{"kind": job["kind"], "name": "resnet", "uid": job["uid"], "controller": True}],
    }
    if state is not None:
        obj["spec"]["nodeName"] = "n1"
        phase = "Running" if "running" in state else "Pending"
        obj["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "restartCount": 1, "state": state}]}
    obj["spec"] |= more
    return await world.kube.create(PODS, obj, "default")


async def submitted(world: World) -> Json:
    return (await world.user("POST", "/apis/v1/workloads", pytorch())).job


async def test_pods_come_by_rank_with_what_keeps_them(world: World) -> None:
    job = await submitted(world)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}
    await member(world, job, 10, RUNNING)
    await member(world, job, 2, waiting)
    await member(world, job, 0, role="master", master=True)
    await world.kube.create(
        PODS,
        pod("stranger") | {"metadata": {"name": "stranger", "labels": {"tensorstack.dev/owner-name": "resnet"}}},
        "default",
    )
    found = (await world.user("GET", f"{JOB}/pods")).body["items"]
    assert [(one["name"], one["rank"], one["part"], one["logged"]) for one in found] == [
        ("resnet-master-0", 0, "master", False),
        ("resnet-node-2", 1, "node", False),
        ("resnet-node-10", 2, "node", True),
    ]
    assert [one["reason"] and one["reason"]["code"] for one in found] == [None, "ImagePullBackOff", None]
    assert (found[2]["node"], found[2]["phase"], found[2]["restarts"]) == ("n1", "Running", 1)


def _pod(name: str, created: str = "", **labels: str) -> Json:
    env = [{"name": "RANK", "value": labels.pop("rank")}] if "rank" in labels else []
    metadata = {
        "name": name,
        "uid": name,
        "creationTimestamp": created,
        "labels": {key.replace("_", "-"): value for key, value in labels.items()},
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "env": env}]}}


@pytest.mark.parametrize(
    ("kind", "parallel", "pods", "ranks"),
    [
        ("PodGroup", 3, [_pod("w-10"), _pod("w-9"), _pod("w-1")], {"w-1": 0, "w-9": 1, "w-10": 2}),
        ("Job", 1, [_pod("b", "1"), _pod("a", "2")], {"a": 0, "b": None}),
        ("Job", 2, [_pod("b", "1"), _pod("a", "2")], {"b": 0, "a": 1}),
        (
            "MPIJob",
            3,
            [
                _pod("w1", replica_type="worker", replica_index="1"),
                _pod("l", replica_type="launcher", replica_index="0"),
                _pod("w0", replica_type="worker", replica_index="0"),
            ],
            {"l": None, "w0": 0, "w1": 1},
        ),
        (
            "PyTorchTrainingJob",
            2,
            [
                _pod("a", replica_type="a", replica_index="0", rank="1"),
                _pod("b", replica_type="b", replica_index="0", rank="0"),
            ],
            {"b": 0, "a": 1},
        ),
        (
            "Pod",
            1,
            [
                _pod("old", "1", replica_type="x", replica_index="0"),
                _pod("new", "2", replica_type="x", replica_index="0"),
            ],
            {"new": 0, "old": None},
        ),
    ],
)
def test_ranks(kind: str, parallel: int, pods: list[Json], ranks: dict[str, int | None]) -> None:
    assert {one.name: one.rank for one in ranked(pods, kind, parallel)} == ranks


async def test_a_log_is_read_with_the_parameters_of_kubernetes(world: World) -> None:
    job = await submitted(world)
    await member(world, job, 0, RUNNING)
    world.kube.logs["resnet-node-0"] = [b"one\n", b"two\n"]
    query = "tailLines=5&sinceSeconds=60&previous=true&timestamps=true&limitBytes=100"
    found = await world.user("GET", f"{JOB}/log?{query}")
    assert (found.status, found.body) == (200, b"one\ntwo\n")
    assert found.headers["Content-Type"].startswith("text/plain")
    assert world.kube.log_queries == [
        (
            "default/resnet-node-0",
            {
                "container": "main",
                "tailLines": "5",
                "sinceSeconds": "60",
                "limitBytes": "100",
                "previous": "true",
                "timestamps": "true",
            },
        )
    ]
    assert (await world.user("GET", f"{JOB}/pods/resnet-node-0/log")).body == b"one\ntwo\n"


async def test_who_may_not_read_the_pods_log_in_the_cluster_may_not_here(world: World) -> None:
    job = await submitted(world)
    await member(world, job, 0, RUNNING)
    world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
    found = await world.user("GET", f"{JOB}/log")
    assert (found.status, found.body["code"]) == (403, "Forbidden")
    assert "pods/log" in found.body["detail"]
    assert world.kube.reviews[-1]["spec"] == {
        "user": "ann",
        "groups": ["system:authenticated"],
        "resourceAttributes": {
            "namespace": "default",
            "verb": "get",
            "group": "",
            "resource": "pods",
            "subresource": "log",
            "name": "resnet-node-0",
        },
    }
    assert world.kube.log_queries == []


async def test_what_has_no_log_says_why(world: World) -> None:
    job = await submitted(world)
    nothing = await world.user("GET", f"{JOB}/log")
    assert (nothing.status, "has no pod" in nothing.body["detail"]) == (409, True)
    await member(world, job, 0)
    early = await world.user("GET", f"{JOB}/log")
    assert (early.status, "waits for a node" in early.body["detail"]) == (409, True)
    await member(world, job, 1, {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})
    pulled = await world.user("GET", f"{JOB}/log?rank=1")
    assert (pulled.status, "ImagePullBackOff: no such host" in pulled.body["detail"]) == (409, True)
    await member(world, job, 2, RUNNING)
    world.kube.logs["resnet-node-2"] = BadRequest(400, "BadRequest", 'previous terminated container "main" not found')
    before = await world.user("GET", f"{JOB}/log?rank=2&previous=true")
    assert (before.status, before.body["detail"]) == (409, 'previous terminated container "main" not found')
    world.kube.logs["resnet-node-2"] = TimedOut("no answer in time")
    assert (await world.user("GET", f"{JOB}/log?rank=2")).status == 503


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("rank=7", "has the ranks 0 to 0"),
        ("container=nobody", "these are main"),
        ("sinceTime=yesterday", "query.sinceTime"),
        ("sinceTime=2031-05-01T10:00:00Z&sinceSeconds=4", "goes not with"),
        ("tail=5", "did you mean"),
        ("tailLines=-1", "query.tailLines"),
    ],
)
async def test_wrong_parameters(world: World, query: str, words: str) -> None:
    await member(world, await submitted(world), 0, RUNNING)
    found = await world.user("GET", f"{JOB}/log?{query}")
    assert (found.status, words in found.body["detail"]) == (422, True), found.body
    assert (await world.user("GET", f"{JOB}/pods/nope/log")).status == 404


async def test_a_followed_log_comes_at_once_and_ends_with_the_right_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podlogs, "REVIEW_SECONDS", 0.02)
    await member(world, await submitted(world), 0, RUNNING)
    world.kube.logs["resnet-node-0"] = [b"one\n"]
    headers = {"Authorization": f"Bearer {world.user.token}"}
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        async with session.get(f"{world.user.url}{JOB}/log?follow=true", headers=headers) as response:
            assert await response.content.readany() == b"one\n"
            world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
            assert await response.content.read() == b""
        del world.kube.answers["SubjectAccessReview"]
        async with session.get(f"{world.user.url}{JOB}/log?follow=true", headers=headers) as response:
            assert await response.content.readany() == b"one\n"
            await world.store.tokens.revoke("ann-laptop")
            assert await response.content.read() == b""


async def test_only_so_many_logs_are_open(world: World) -> None:
    await member(world, await submitted(world), 0, RUNNING)
    world.kube.logs["resnet-node-0"] = [b"one\n"]
    headers = {"Authorization": f"Bearer {world.user.token}"}
    url = f"{world.user.url}{JOB}/log?follow=true"
    async with asyncio.timeout(60), aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        held = [await session.get(url, headers=headers) for _ in range(64)]
        assert {one.status for one in held} == {200}
        refused = await world.user("GET", f"{JOB}/log?follow=true")
        assert (refused.status, refused.body["code"]) == (429, "RateLimited")
        for one in held:
            one.close()
        while True:
            if (await session.head(url, headers=headers)).status != 429:
                break
            await asyncio.sleep(0.01)


async def test_an_explanation_says_what_keeps_pods_with_a_place_from_running(world: World) -> None:
    job = await submitted(world)
    await member(world, job, 0, {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})
    await member(world, job, 1)
    known = job | {"phase": "Pending", "submitter": "ann"}
    told = {"job": known, "verdict": "Placed", "reasons": [], "holders": []}
    world.leader.explanations["default/PyTorchTrainingJob/resnet"] = told
    (reason,) = (await world.user("GET", f"{JOB}/explanation")).body["reasons"]
    assert (reason["code"], reason["message"]) == ("ImagePullBackOff", "pod resnet-node-0: no such host")
    world.leader.explanations["default/PyTorchTrainingJob/resnet"] = told | {"job": known | {"phase": "Running"}}
    assert (await world.user("GET", f"{JOB}/explanation")).body["reasons"] == []
