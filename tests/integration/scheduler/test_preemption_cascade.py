"""Evicted pods come again and again, as their controllers make them; no job preempts twice, no victim goes in vain."""

import asyncio
from collections import Counter, defaultdict

import pytest

from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODS, REPLICASETS
from t9ksched.store.history import PREEMPTED
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import TIMEOUT, World

CARDS = 8


async def replicas(world: World, name: str, queue: str, count: int) -> None:
    """A ReplicaSet of one-card pods, each a gang of its own."""
    pod = world.pod(name, 1, queue=queue)
    labels = pod["metadata"]["labels"] | {"app": name}
    spec = {
        "replicas": count,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    await world.client.create(
        REPLICASETS,
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": world.namespace},
            "spec": spec,
        },
    )
    await all_run(world, name, count)


async def all_run(world: World, name: str, count: int) -> None:
    """Wait until so many pods run and stay. A ReplicaSet's status may be older than an eviction."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            listed = await world.client.list(PODS, world.namespace, label_selector=f"app={name}")
            here = [pod for pod in listed.items if not pod["metadata"].get("deletionTimestamp")]
            if sum(pod["status"].get("phase") == "Running" for pod in here) == count:
                return
            async for _ in world.client.watch(
                PODS,
                world.namespace,
                resource_version=listed.resource_version,
                timeout=2,
                label_selector=f"app={name}",
            ):
                break


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.soak)])
async def test_victims_that_come_again_start_no_cascade(world: World, start: Start, store: Store, rounds: int) -> None:
    await queues(world, store, low={"priority": 1}, mid={"priority": 5}, high={"priority": 9})
    await world.play(2, CARDS // 2)
    async with start(policy=Policy(actions=("allocate", "preempt"))) as service:
        await replicas(world, "low", f"{world.run}-low", CARDS // 2)
        await replicas(world, "mid", f"{world.run}-mid", CARDS // 2)
        for round_ in range(rounds):
            name, pods = f"high{round_}", round_ % 3 + 1
            brief = {"annotations": {"devcluster.tensorstack.dev/run-seconds": "0.05"}}
            await world.create(world.group(name, pods, f"{world.run}-high"))
            gang = [world.pod(f"{name}-{at}", 2, group=name, restartPolicy="Never", **brief) for at in range(pods)]
            await world.create(*gang)
            for at in range(pods):
                await world.until(PODS, f"{name}-{at}", lambda pod: pod["status"].get("phase") == "Succeeded")
            for kind in ("low", "mid"):
                await all_run(world, kind, CARDS // 2)
        await service.sql_writer.flushed()
        asked = {gang.uid: 2 * len(gang.members) for gang in service.state.gangs.values() if gang.name[:4] == "high"}
    rows = await store.history.list(event=PREEMPTED, limit=10_000)
    by = defaultdict(set)
    for row in rows:
        by[row.detail["byUid"]].add(row.detail["pod"])
    taken = {uid: len(victims) for uid, victims in by.items()}
    high = {uid: count for uid, count in taken.items() if uid in asked}
    assert len(high) == rounds, "each of them had to take its room"
    assert all(count <= asked[uid] for uid, count in high.items()), "no victim goes in vain, no job preempts twice"
    others = Counter(row.detail["byQueue"] for row in rows if row.detail["byUid"] not in asked)
    assert set(others) <= {f"{world.run}-mid"}, "the lowest preempts no job"
    assert all(count == 1 for uid, count in taken.items() if uid not in asked), "one card takes one card"
