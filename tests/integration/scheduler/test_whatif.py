"""What-if questions to a live scheduler: what they say is what then happens, and they change nothing."""

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from t9ksched.engine.policy import Planning, Policy
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.whatif.capture import capture
from t9ksched.scheduler.whatif.simulations import Limits, NotAnswered
from t9ksched.simulation.present import written
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_planned_starts import limited, timed
from tests.integration.world import GPU, TIMEOUT, Object, World

PLANS = Policy(planning=Planning(per_user=100, resolution_seconds=1))
BESTEFFORT = """
actions: [allocate]
tiers:
- plugins: [{name: basic}, {name: predicates}, {name: affinity}]
"""
PREEMPTS = Policy(actions=("allocate", "preempt"))


def submitted(obj: Object, queue: str, world: World, **more: Any) -> Object:
    """An object as REST passes it on."""
    obj = msgspec.json.decode(msgspec.json.encode(obj))
    obj["metadata"].setdefault("namespace", world.namespace)
    return {"object": obj, "queue": queue, **more}


async def ask(service: SchedulerService, user: str = "ann", **question: Any) -> dict[str, Any]:
    """The answer; asking changes nothing of the live view."""
    before = await dumped(service)
    found = await service.simulations.ask(msgspec.json.encode({"user": user, **question}))
    assert await dumped(service) == before
    return found


async def dumped(service: SchedulerService) -> bytes:
    present = await capture(service.state, service.loop, rules=True)
    return b"".join(written(replace(present, at=0)))


def codes(job: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in job["reasons"]]


async def test_a_dry_run_says_what_then_happens(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "first", 3, queue, "15s"))
        await world.running("first")
        await timed(service, world, "first")
        small, large = (limited(world, name, gpus, queue, "1h") for name, gpus in (("small", 1), ("large", 4)))
        found = await ask(service, items=[submitted(small, queue, world)])
        (job,) = found["jobs"]
        assert (job["verdict"], job["start"], job["nodes"]) == ("Starts", found["at"], world.nodes)
        assert found["others"] == []
        found = await ask(service, items=[submitted(large, queue, world)])
        (job,) = found["jobs"]
        assert (job["verdict"], job["nodes"], codes(job)) == ("Waits", world.nodes, ["PlannedStart"])
        await world.create(large)
        await world.running("large")
        await until(lambda: service.state.pod_named(world.namespace, "large").started)
        begun = service.state.pod_named(world.namespace, "large").started
        promised = nanoseconds(job["start"])
        assert promised - 15_000_000_000 < begun <= promised, "a limit is enforced ten seconds late at most"
        await timed(service, world, "large")
        found = await ask(service, items=[submitted(small, queue, world)])
        assert found["jobs"][0]["verdict"] == "Waits"


async def test_jobs_of_each_kind(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"limits": {GPU: "2"}}}]}
    ours = {"schedulerName": names.SCHEDULER_NAME, "restartPolicy": "Never"}
    labels = {"metadata": {"labels": {names.QUEUE_LABEL: queue}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "many"},
        "spec": {"parallelism": 5, "completions": 5, "template": {**labels, "spec": {**spec, **ours}}},
    }
    trainer = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": "train"},
        "spec": {
            "scheduler": {"t9kScheduler": {"queue": queue}},
            "replicaSpecs": [
                {
                    "type": "worker",
                    "replicas": 2,
                    "template": {
                        "spec": {"containers": [{"name": "pytorch", "image": "x", "resources": {"limits": {GPU: "4"}}}]}
                    },
                }
            ],
        },
    }
    paused = {**trainer, "spec": {**trainer["spec"], "runMode": {"pause": {"enabled": True}}}}
    group = {"apiVersion": names.SCHEDULER_API, "kind": "PodGroup", "metadata": {"name": "three"}}
    group |= {"spec": {"minMember": 3, "queue": queue}}
    members = [world.pod(f"three-{at}", 4, queue=queue, group="three") for at in range(3)]
    async with start(policy=PLANS) as service:
        found = await ask(service, items=[submitted(job, queue, world)])
        assert found["jobs"][0]["verdict"] == "Starts"
        assert codes(found["jobs"][0]) == ["InsufficientResources"], "four of five pods start"
        found = await ask(service, items=[submitted(trainer, queue, world)])
        assert (found["jobs"][0]["verdict"], found["jobs"][0]["nodes"]) == ("Starts", sorted(world.nodes))
        found = await ask(
            service, items=[submitted(paused, queue, world), submitted(trainer, queue, world, ours=False)]
        )
        assert [codes(one) for one in found["jobs"]] == [["Paused"], ["OtherScheduler"]]
        found = await ask(service, items=[submitted(group, queue, world, members=members)])
        assert (found["jobs"][0]["verdict"], codes(found["jobs"][0])) == ("Waits", ["NeverFits"])
        found = await ask(service, items=[submitted(group, queue, world)])
        assert codes(found["jobs"][0]) == ["GangIncomplete"]
        found = await ask(service, items=[submitted(members[0], queue, world)])
        assert codes(found["jobs"][0]) == ["GangIncomplete"]
        two = {
            **group,
            "metadata": {"name": "three", "namespace": world.namespace},
            "spec": {"minMember": 2, "queue": queue},
        }
        await world.create(two)
        await world.create(world.pod("three-0", 4, queue=queue, group="three"))
        async with asyncio.timeout(TIMEOUT):
            while service.state.pod_named(world.namespace, "three-0") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        found = await ask(service, items=[submitted(members[1], queue, world)])
        assert found["jobs"][0]["verdict"] == "Starts"


async def test_a_job_that_asks_for_a_later_start(world: World, start: Start, queue: str) -> None:
    await world.play(1, 2)
    later = limited(world, "later", 1, queue, "1h")
    later["metadata"]["annotations"][names.START_AFTER_ANNOTATION] = "2099-01-01T00:00:00Z"
    soon = limited(world, "soon", 2, queue, "1h")
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    soon["metadata"]["annotations"][names.START_AFTER_ANNOTATION] = moment.isoformat()
    async with start(policy=PLANS) as service:
        found = await ask(service, items=[submitted(soon, queue, world), submitted(later, queue, world)])
        first, second = found["jobs"]
        assert (first["verdict"], codes(first), second["start"]) == ("Waits", ["StartTimeNotReached"], None)
        assert nanoseconds(first["start"]) == int(moment.timestamp()) * 1_000_000_000
        await world.create(soon)
        await world.event(names.EVENT_WAITING, "soon")
        found = await ask(service, change={"nodesGone": world.nodes})
        (other,) = found["others"]
        assert (other["startBefore"], other["startAfter"]) == (first["start"], None)


async def test_who_is_preempted(world: World, start: Start, queue: str, store: Any) -> None:
    await world.play(1, 2)
    await store.queues.create(f"{world.run}-high", {}, {**world.queue_spec, "priority": 50}, {"everyone": True})
    async with start(policy=PREEMPTS) as service:
        await world.create(limited(world, "low", 2, queue, "1h"))
        await world.running("low")
        await timed(service, world, "low")
        high = limited(world, "high", 1, f"{world.run}-high")
        found = await ask(service, items=[submitted(high, f"{world.run}-high", world)])
        (job,) = found["jobs"]
        assert job["verdict"] == "Starts"
        assert job["preempts"][0] | {"submitter": None} == {
            "job": f"{world.namespace}/Pod/low",
            "namespace": world.namespace,
            "queue": queue,
            "submitter": None,
            "formerSubmitters": [],
            "members": 1,
        }
        (other,) = found["others"]
        assert (other["job"], other["preempted"], other["startAfter"]) == (f"{world.namespace}/Pod/low", True, None)
        assert "low" in await world.bound()


async def test_changes_of_nodes_queues_and_policy(world: World, start: Start, queue: str, store: Any) -> None:
    await world.play(2, 2)
    async with start(policy=Policy()) as service:
        await world.create(limited(world, "first", 2, queue, "1h"), limited(world, "second", 2, queue, "2h"))
        await world.running("first", "second")
        await timed(service, world, "first")
        await timed(service, world, "second")
        await world.create(limited(world, "third", 2, queue, "1h"))
        await world.event(names.EVENT_WAITING, "third")
        name = f"{world.namespace}/Pod/third"
        added = [{"name": "more", "like": world.nodes[0]}]
        found = await ask(service, change={"nodesAdded": added})
        assert [(one["job"], one["startAfter"]) for one in found["others"]] == [(name, found["at"])]
        found = await ask(service, change={"nodesGone": world.nodes})
        assert {one["job"].rpartition("/")[2]: one["startAfter"] for one in found["others"]} == dict.fromkeys(
            ("first", "second", "third")
        )
        closed = {**world.queue_spec, "quota": {"requests": {GPU: "4"}}}
        found = await ask(service, change={"queues": {queue: closed}})
        assert found["others"] == []
        found = await ask(service, change={"policy": BESTEFFORT})
        assert found["others"] == []
        bad = {
            "queues": {queue: {"priority": "x"}},
            "nodesGone": ["nowhere"],
            "nodesAdded": [
                {"name": world.nodes[0], "like": world.nodes[0]},
                {"name": "a"},
                {"name": "b", "like": "?"},
                7,
            ],
            "policy": "actions: [fly]",
        }
        with pytest.raises(NotAnswered) as error:
            await ask(service, change=bad)
        assert error.value.status == 422
        assert {one.path for one in error.value.errors} >= {
            f"change.queues[{queue}].spec.priority",
            "change.nodesGone[0]",
            "change.nodesAdded[0].name",
            "change.nodesAdded[1].allocatable",
            "change.nodesAdded[2].like",
            "change.nodesAdded[3]",
            "change.policy",
        }


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import sys; sys.exit(3)", "code 3"),
        ("raise MemoryError", "more memory"),
        ("import time, sys; sys.stdin.read(); time.sleep(600)", "took longer than 1 seconds"),
        ("import sys; sys.stdin.read(); print('[]')", "failed"),
    ],
)
async def test_a_worker_that_fails_is_told(world: World, start: Start, queue: str, program: str, says: str) -> None:
    await world.play(1, 1)
    async with start() as service:
        command = (sys.executable, "-c", program)
        service.simulations.limits = Limits(command=command, longest_seconds=1 if "sleep" in program else 25)
        with pytest.raises(NotAnswered, match=says) as error:
            await ask(service, items=[])
        assert error.value.status == 503


async def test_few_at_once_and_few_a_minute(world: World, start: Start, queue: str) -> None:
    await world.play(1, 1)
    async with start() as service:
        service.simulations.limits = Limits(a_minute=2, at_once=1)
        service.simulations._allowance._running = 1
        with pytest.raises(NotAnswered, match="no more than 1 run at once"):
            await ask(service)
        service.simulations._allowance._running = 0
        await ask(service)
        await ask(service)
        with pytest.raises(NotAnswered, match="'ann' may ask for 2 simulations a minute") as error:
            await ask(service)
        assert (error.value.status, error.value.code) == (429, "RateLimited")
        assert 0 < error.value.again <= 60
        await ask(service, user="bob")


async def test_while_all_scheduling_is_stopped_nothing_starts(world: World, start: Start, queue: str) -> None:
    await world.play(1, 1)
    async with start() as service:
        service.loop.paused = True
        found = await ask(service, items=[submitted(limited(world, "one", 1, queue), queue, world)])
        assert (found["jobs"][0]["verdict"], codes(found["jobs"][0])) == ("Waits", ["SchedulingStopped"])


async def test_a_worker_sees_no_environment(world: World, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.play(1, 1)
    monkeypatch.setenv("T9KSCHED_INTERNAL_SECRET", "told to nothing else")
    program = "import os, sys; sys.stdin.read(); sys.exit(any('T9K' in name for name in os.environ))"
    async with start() as service:
        service.simulations.limits = Limits(command=(sys.executable, "-c", program))
        with pytest.raises(NotAnswered, match="cannot be read"):
            await ask(service)
