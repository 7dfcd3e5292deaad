"""Reservations with `onConflict: Preempt`: when one begins, what it is not for and still holds its room is evicted."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.store.history import PREEMPTED
from t9ksched.store.job_overrides import PREEMPTION, Stop
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_elastic import controllers, ends, members, submit
from tests.integration.scheduler.test_preemption import queues
from tests.integration.scheduler.test_reservations import (
    POLICIES,
    asking,
    at,
    edit,
    follows,
    judged,
    pod,
    reserve,
    waits_for,
)
from tests.integration.world import TIMEOUT, Object, World


def preempting(nodes: list[str], begin: float = -1, **fields: Any) -> Object:
    return asking("r", begin, nodes={"names": nodes}, onConflict="Preempt", **fields)


async def evicted(store: Store) -> list[tuple[str, str]]:
    """Pods that history says were evicted, with the reservation that was the cause."""
    rows = await store.history.list(event=PREEMPTED, limit=1000)
    return sorted((row.detail["pod"], row.detail.get("reservation", "")) for row in rows)


async def were_evicted(store: Store, *pods: str) -> None:
    """Wait until history, written in batches, says that these and no others were evicted for the reservation."""
    async with asyncio.timeout(TIMEOUT):
        while len(await evicted(store)) < len(pods):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert await evicted(store) == [(name, "r") for name in pods]


async def leave(world: World, *pods: str) -> None:
    for name in pods:
        await world.gone(PODS, name)


@POLICIES
async def test_room_is_cleared_when_it_begins_and_goes_to_whom_it_is_for(
    world: World, start: Start, store: Store, policy: Policy
) -> None:
    await queues(world, store, low={}, safe={"preemptible": False}, mine={})
    await world.play(3, 2)
    first, second, _ = world.nodes
    async with start(policy=policy) as service:
        await world.create(pod(world, "safe", 1, f"{world.run}-safe"))
        (safe,) = await world.running("safe")
        await world.gang("two", 2, 2, f"{world.run}-low")
        await world.running("two-0", "two-1")
        await world.create(pod(world, "short", 1, f"{world.run}-low", time_limit="4h"))
        await world.running("short")
        assert safe["spec"]["nodeName"] == first
        assert set((await world.bound()).values()) == set(world.nodes)
        spec = preempting([second], 4, for_={"queues": [f"{world.run}-mine"]}, note="evaluation")
        judgement = await judged(service, spec)
        assert judgement["conflicts"] == []
        (job,) = judgement["jobs"]
        assert (job["name"].rpartition("/")[2], job["nodes"], job["evicted"]) == ("two", [second], 2), "it goes whole"
        await reserve(store, spec, second)
        await world.create(pod(world, "mine", 2, f"{world.run}-mine", reservation="r", time_limit="10m"))
        told = (await world.event(names.EVENT_PREEMPTED, "two"))["message"]
        assert told.startswith(f"reservation 'r' (evaluation) has the room from {spec['from']} to {spec['to']}")
        assert at(0) >= spec["from"]
        await leave(world, "two-0", "two-1")
        (mine,) = await world.running("mine")
        assert mine["spec"]["nodeName"] == second
        assert set(await world.bound()) == {"safe", "short", "mine"}
        await were_evicted(store, "two-0", "two-1")
        group = await world.client.get(PODGROUPS, "two", world.namespace)
        said = {one["type"]: (one["status"], one.get("reason")) for one in group["status"]["conditions"]}
        assert ("True", names.EVENT_PREEMPTED) in said.values() or ("False", names.EVENT_PREEMPTED) in said.values()


async def test_what_may_not_be_evicted_stays_unless_forced(world: World, start: Start, store: Store) -> None:
    await queues(world, store, safe={"preemptible": False}, low={})
    await world.play(1, 2)
    async with start() as service:
        await world.create(pod(world, "safe", 1, f"{world.run}-safe"), pod(world, "low", 1, f"{world.run}-low"))
        await world.running("safe", "low")
        spec = preempting(world.nodes)
        (conflict,) = (await judged(service, spec))["conflicts"]
        assert (conflict["name"].rpartition("/")[2], conflict["evicted"]) == ("safe", 0)
        record = await reserve(store, spec, *world.nodes)
        await world.gone(PODS, "low")
        await asyncio.sleep(0.5)  # several cycles
        assert set(await world.bound()) == {"safe"}
        forced = spec | {"force": True}
        assert (await judged(service, forced))["conflicts"] == []
        await edit(store, forced, record.nodes)
        await world.gone(PODS, "safe")
        await were_evicted(store, "low", "safe")


async def test_of_an_elastic_job_go_members_above_its_minimum(world: World, start: Start, store: Store) -> None:
    await queues(world, store, q={})
    await world.play(3, 1)
    async with start(), controllers(world):
        await submit(world, f"{world.run}-q", 1, 3)
        places = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in await world.running(*members(0, 1, 2))}
        node = places[members(1)[0]]
        await reserve(store, preempting([node]), node)
        told = (await world.event(names.EVENT_PREEMPTED, "net"))["message"]
        assert "reservation 'r'" in told
        async with asyncio.timeout(TIMEOUT):
            while set((await world.bound()).values()) != set(world.nodes) - {node}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await were_evicted(store, members(1)[0])
        await ends(world, members(0)[0])


async def test_of_cards_only_as_many_are_cleared_as_are_reserved(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 5})
    await world.play(1, 4)
    async with start():
        for name, queue in (("a", "low"), ("b", "high"), ("c", "high")):
            await world.create(pod(world, name, 1, f"{world.run}-{queue}"))
        await world.running("a", "b", "c")
        cards = {"resource": "nvidia.com/gpu", "count": 2}
        await reserve(store, preempting(world.nodes, cards=cards), *world.nodes)
        await world.gone(PODS, "a")
        await world.create(pod(world, "d", 1, f"{world.run}-low"))
        assert "reservation 'r' keeps the room" in await waits_for(world, "d")
        assert set(await world.bound()) == {"b", "c"}
        await were_evicted(store, "a")


async def test_a_restart_before_the_eviction_does_it_and_does_it_once(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={})
    await world.play(2, 2)
    async with start() as service:
        await world.gang("two", 2, 2, f"{world.run}-low", terminationGracePeriodSeconds=5)
        await world.running("two-0", "two-1")
        now = datetime.now(UTC)
        await store.stops.stop(Stop(PREEMPTION, None, "root", now))
        async with asyncio.timeout(TIMEOUT):
            while not service.state.stops:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await reserve(store, preempting(world.nodes[:1]), world.nodes[0])
        await follows(service, store, "r")
        await asyncio.sleep(0.5)
        assert await evicted(store) == [], "nothing is evicted while an administrator has stopped that"
    await store.stops.resume(PREEMPTION, "root")
    async with start():
        await world.event(names.EVENT_PREEMPTED, "two")
    async with start():  # the pods may still be leaving
        await leave(world, "two-0", "two-1")
        await asyncio.sleep(1.5)
        await were_evicted(store, "two-0", "two-1")
