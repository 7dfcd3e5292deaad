"""Preemption from outside: the victims, their preemptors, and that no victim is evicted in vain."""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import aiohttp

from t9ksched.engine.policy import Policy, Preemption
from t9ksched.kube.resources import EVENTS, PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import TIMEOUT, Object, World

PREEMPT = Policy(actions=("allocate", "preempt"))


async def queues(world: World, store: Store, **specs: dict) -> None:
    for name, spec in specs.items():
        await store.queues.create(f"{world.run}-{name}", {}, world.queue_spec | spec, {"everyone": True})


async def test_a_higher_queue_takes_the_room_of_exactly_one_lower_gang(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(2, 4)
    async with start(policy=PREEMPT):
        await world.gang("older", 2, 2, f"{world.run}-low")
        await world.running("older-0", "older-1")
        await world.gang("younger", 2, 2, f"{world.run}-low", priority=1)
        await world.running("younger-0", "younger-1")
        await world.gang("urgent", 1, 4, f"{world.run}-high")
        event = await world.event(names.EVENT_PREEMPTED, "older")
        assert event["type"] == "Warning"
        await world.running("urgent-0")
        assert set(await world.bound()) == {"urgent-0", "younger-0", "younger-1"}


async def test_nothing_is_evicted_when_the_preemptor_would_not_fit_or_may_not(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, safe={"priority": 1, "preemptible": False}, high={"priority": 9})
    await world.play(1, 4)
    async with start(policy=PREEMPT):
        await world.create(world.pod("safe", 2, queue=f"{world.run}-safe"))
        await world.create(world.pod("low", 2, queue=f"{world.run}-low"))
        await world.running("safe", "low")
        await world.create(world.pod("too-large", 3, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "too-large")
        await world.create(world.pod("equal", 1, queue=f"{world.run}-low"))
        await world.event(names.EVENT_WAITING, "equal")
        assert set(await world.bound()) == {"safe", "low"}
        pods = (await world.client.list(PODS, world.namespace)).items
        assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods)


async def test_without_the_action_everybody_waits(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 2)
    async with start():
        await world.create(world.pod("low", 2, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 2, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        assert set(await world.bound()) == {"low"}


async def test_a_victim_is_marked_and_then_deleted_with_its_own_grace_at_most(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(3, 1)
    policy = replace(PREEMPT, preemption=Preemption(max_grace_seconds=3))
    seen: dict[str, list[Object]] = {}
    async with start(policy=policy):
        for name, grace in (("quick", 1), ("slow", 900), ("plain", None)):
            more = {} if grace is None else {"terminationGracePeriodSeconds": grace}
            await world.create(world.pod(name, 1, queue=f"{world.run}-low", **more))
        await world.running("quick", "slow", "plain")
        listed = await world.client.list(PODS, world.namespace)
        await world.gang("urgent", 3, 1, f"{world.run}-high")
        async with (
            asyncio.timeout(TIMEOUT),
            aclosing(world.client.watch(PODS, world.namespace, resource_version=listed.resource_version)) as events,
        ):
            async for event in events:
                name = event.object.get("metadata", {}).get("name", "")
                if name in ("quick", "slow", "plain"):
                    seen.setdefault(name, []).append(event.object)
                if len(seen) == 3 and all(one[-1]["metadata"].get("deletionTimestamp") for one in seen.values()):
                    break
        await world.running("urgent-0", "urgent-1", "urgent-2")
    for name, grace in (("quick", 1), ("slow", 3), ("plain", 3)):
        first, *_, last = seen[name]
        assert "deletionTimestamp" not in first["metadata"], "the mark comes first"
        (mark,) = [one for one in first["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
        assert f"{world.run}-high" in mark["message"]
        assert last["metadata"]["deletionGracePeriodSeconds"] == grace


async def test_a_disruption_budget_is_preferred_and_not_absolute(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 2)
    async with start(policy=PREEMPT) as service:
        guarded = world.pod("guarded", 1, queue=f"{world.run}-low")
        guarded["metadata"]["labels"]["app"] = "guarded"
        await world.create(guarded)
        await world.running("guarded")
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "none", "namespace": world.namespace},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await world.create(budget)
        await world.create(world.group("important", 1, f"{world.run}-low", priority=50))
        await world.create(world.pod("important", 1, group="important"))
        await world.running("important")
        await until(lambda: any(one.guarded for one in service._evictor.evictable.running(0)))
        await world.create(world.pod("first", 1, queue=f"{world.run}-high"))
        await world.running("first")
        assert set(await world.bound()) == {"guarded", "first"}, "the more important one goes, it breaks no budget"
        await world.create(world.pod("second", 1, queue=f"{world.run}-high"))
        await world.running("second")
        assert set(await world.bound()) == {"first", "second"}, "no other victim makes room"


async def test_a_job_that_was_evicted_often_today_is_spared_after_a_restart_too(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    policy = replace(PREEMPT, preemption=Preemption(most_evictions_a_day=1))
    await world.create(world.group("low", 1, f"{world.run}-low"))
    async with start(policy=policy) as service:
        await world.create(world.pod("low-0", 1, group="low"))
        await world.running("low-0")
        await world.create(world.pod("high-0", 1, queue=f"{world.run}-high"))
        await world.running("high-0")
        assert "low-0" not in await world.bound()
        await service.sql_writer.flushed()
    await world.client.delete(PODS, "high-0", world.namespace, grace=0)
    async with start(policy=policy) as service:
        await world.create(world.pod("low-1", 1, group="low"))
        await world.running("low-1")
        await world.create(world.pod("high-1", 1, queue=f"{world.run}-high"))
        event = await world.event(names.EVENT_WAITING, "high-1")
        assert event["message"].startswith("needs 1 × nvidia.com/gpu on one node"), "once today is enough"
        assert set(await world.bound()) == {"low-1"}
        service._apply(PREEMPT)
        await world.running("high-1")


async def test_a_job_is_a_victim_once_it_is_old_enough_although_nothing_else_happens(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    async with start(policy=replace(PREEMPT, preemption=Preemption(minimum_run_seconds=5))):
        await world.create(world.pod("low", 1, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 1, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        await world.running("high")
        assert set(await world.bound()) == {"high"}


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_what_users_read_in_the_cluster_names_no_job_of_others(world: World, start: Start, store: Store) -> None:
    """Events and conditions are read with kubectl, past every rule of REST."""
    await queues(world, store, low={"priority": 1}, high={"priority": 9}, strict={"ordering": "Strict"})
    await world.play(1, 4)
    secrets = ("victim-of-ann", "winner-of-bob", "waiter-of-eve", "later-of-dan", "head-of-fay", "tail-of-gus")
    async with start(policy=PREEMPT) as service:
        await world.gang(secrets[0], 1, 4, f"{world.run}-low")
        await world.running(f"{secrets[0]}-0")
        await world.gang(secrets[1], 1, 4, f"{world.run}-high")
        await world.event(names.EVENT_PREEMPTED, secrets[0])
        await world.running(f"{secrets[1]}-0")
        await world.gang(secrets[2], 1, 4, f"{world.run}-high")
        await world.gang(secrets[3], 1, 4, f"{world.run}-low")
        await world.gang(secrets[4], 1, 4, f"{world.run}-strict")
        await world.gang(secrets[5], 1, 4, f"{world.run}-strict")
        for name in secrets[2:]:
            await world.event(names.EVENT_WAITING, name)
            await world.until(PODGROUPS, name, lambda group: "It can start when" in str(group.get("status")))
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {'s' * 20}"}) as session:
            url = f"{service.address}/internal/v1/jobs/{world.namespace}/PodGroup/{secrets[2]}/explanation"
            async with session.get(url) as answer:
                told = await answer.json()
            async with session.get(url, headers={"Authorization": "Bearer x"}) as answer:
                assert answer.status == 401
    events = (await world.client.list(EVENTS, world.namespace)).items
    assert {event["reason"] for event in events} >= {names.EVENT_PREEMPTED, names.EVENT_WAITING}
    texts = [(event["involvedObject"]["name"], event["message"]) for event in events]
    for group in (await world.client.list(PODGROUPS, world.namespace)).items:
        texts += [(group["metadata"]["name"], one["message"]) for one in group["status"]["conditions"]]
    for about, text in texts:
        others = [secret for secret in secrets if secret in text and not about.startswith(secret)]
        assert not others, f"what is said of {about} names {others}: {text}"
    assert [one["job"] for one in told["holders"]] == [f"{world.namespace}/PodGroup/{secrets[1]}"]
    reasons = json.dumps([told["reasons"], told["unblocks"]])
    assert not [secret for secret in secrets if secret in reasons], "REST hides holders, reasons it hands through"
