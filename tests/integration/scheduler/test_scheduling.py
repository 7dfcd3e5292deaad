"""The scheduler from outside: what is in the cluster afterwards."""

import asyncio
from typing import Any

import pytest

from t9ksched.engine.policy import Policy, Preemption
from t9ksched.kube.resources import JOBS, PODGROUPS, PODS, QUEUES
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.model.api_resource import Resource
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, TIMEOUT, World

CARDS = names.GPU_INDEX_PREFIX + "main"


async def test_a_gang_is_placed_whole_on_cards_by_index(world: World, start: Start, queue: str) -> None:
    await world.play(2, 8)
    async with start():
        await world.gang("train", 4, 4, queue)
        pods = await world.running(*(f"train-{index}" for index in range(4)))
        cards = {
            (pod["spec"]["nodeName"], index)
            for pod in pods
            for index in pod["metadata"]["annotations"][CARDS].split(",")
        }
        assert len(cards) == 16
        await world.condition("train", "GroupScheduled", "True")
        await world.condition("train", "SufficientGroupMember", "True")
        item = await world.until(
            QUEUES,
            queue,
            lambda q: (q.get("status") or {}).get("allocated", {}).get(GPU) == "16",
            names.SYSTEM_NAMESPACE,
        )
        assert item["status"]["podGroups"]["total"] == 1
        assert (await world.event("Scheduled", "train"))["type"] == "Normal"


async def test_a_gang_too_large_waits_whole_and_says_why(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    async with start():
        await world.gang("first", 1, 4, queue)
        await world.running("first-0")
        await world.gang("second", 2, 4, queue)
        condition = await world.condition("second", "GroupScheduled", "False", "InsufficientResources")
        assert GPU in condition["message"]
        assert set(await world.bound()) == {"first-0"}
        told = (await world.event("Waiting", "second"))["message"]
        assert condition["message"] == f"{told}. It can start when: room for 1 more of them is given back"
        await world.client.delete(
            PODGROUPS, "first", world.namespace
        )  # else the lost member's room is kept for a minute
        await world.client.delete(PODS, "first-0", world.namespace)
        await world.running("second-0", "second-1")


async def test_foreign_pods_take_room_and_are_never_touched(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    await world.create(world.pod("foreign", 3, nodeName=world.nodes[0]))
    await world.running("foreign")
    async with start():
        await world.create(world.pod("big", 2, queue=queue), world.pod("small", 1, queue=queue))
        await world.running("small")
        await world.event("Waiting", "big")
        assert set(await world.bound()) == {"foreign", "small"}


async def test_a_quota_is_never_exceeded(world: World, start: Start, store: Store) -> None:
    await world.play(2, 8)
    spec = world.queue_spec | {"quota": {"requests": {GPU: "3"}}}
    await store.queues.create(f"{world.run}-small", {}, spec, {"everyone": True})
    async with start() as service:
        await world.create(*(world.pod(f"p{index}", 1, queue=f"{world.run}-small") for index in range(6)))
        told = [await world.node_or_reason(f"p{index}") for index in range(6)]
        assert sum("of 3 left" in text for text in told) == 3, told
        assert service.state.charges.queue_used[f"{world.run}-small"][GPU] == 3
        assert len(await world.bound()) == 3


async def test_a_restart_disturbs_nothing_and_gives_no_card_twice(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    async with start():
        await world.gang("old", 2, 3, queue)
        before = {pod["metadata"]["uid"] for pod in await world.running("old-0", "old-1")}
    await world.create(world.pod("while-away", 1, queue=queue))
    async with start():
        await world.running("while-away")
        await world.create(world.pod("after", 1, queue=queue), world.pod("none-left", 1, queue=queue))
        await world.running("after")
        await world.event("Waiting", "none-left")
        assert {pod["metadata"]["uid"] for pod in await world.running("old-0", "old-1")} == before


async def test_what_was_agreed_outlives_the_scheduler(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 1)
    await store.queues.create(f"{world.run}-other", {}, world.queue_spec, {"everyone": True})
    async with start():
        await world.gang("big", 1, 8, queue)
        await world.condition("big", "GroupScheduled", "False", "NeverFits")
    body = {"spec": {"queue": f"{world.run}-other", "priority": 99}}
    await world.client.patch(PODGROUPS, "big", world.namespace, body)
    async with start() as service:
        (gang,) = service.state.gangs.values()
        assert (gang.spec.queue, gang.queue, gang.priority) == (f"{world.run}-other", queue, 0)


async def test_a_queue_edited_as_an_object_is_taken_over_or_reverted(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 1)
    system = names.SYSTEM_NAMESPACE
    async with start():
        await world.until(QUEUES, queue, lambda q: q["metadata"].get("annotations"), system)
        await world.client.patch(QUEUES, queue, system, {"spec": {"priority": 7}})
        event = await world.event(names.EVENT_QUEUE_EDITED_OUTSIDE, queue, system)
        assert event["type"] == "Normal"
        record = await store.queues.get(queue)
        assert record is not None
        assert record.spec["priority"] == 7
        broken = {"spec": {"nodeSelector": {"matchLabels": {"not a key": "x"}}}}
        await world.client.patch(QUEUES, queue, system, broken)
        await world.until(QUEUES, queue, lambda q: "not a key" not in q["spec"]["nodeSelector"]["matchLabels"], system)
        await store.queues.edit(queue, lambda old: (old.labels, old.spec | {"closed": True}))
        await world.until(QUEUES, queue, lambda q: q["spec"].get("closed") is True, system)


async def test_an_edit_that_is_seen_before_the_answer_to_our_own_write_is_not_lost(
    world: World, start: Start, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, account = names.SYSTEM_NAMESPACE, await world.account(SCHEDULER)
    patch, edited = account.patch, False

    async def late(res: Resource, name: str, *rest: Any, **options: Any) -> Any:
        nonlocal edited
        answer = await patch(res, name, *rest, **options)
        if res is QUEUES and name == queue and not edited:
            edited = True
            await world.client.patch(QUEUES, queue, system, {"spec": {"priority": 7}})
            async with asyncio.timeout(TIMEOUT):
                while service._projection.objects[queue]["spec"]["priority"] != 7:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        return answer

    monkeypatch.setattr(account, "patch", late)
    async with start() as service:
        await world.event(names.EVENT_QUEUE_EDITED_OUTSIDE, queue, system)


async def test_an_unknown_and_a_closed_queue_keep_their_pods_waiting_with_the_reason(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    await store.queues.edit(queue, lambda old: (old.labels, old.spec | {"closed": True}))
    async with start():
        await world.create(world.pod("lost", 1, queue="no-such-queue"), world.pod("late", 1, queue=queue))
        assert "no-such-queue" in (await world.event("Waiting", "lost"))["message"]
        assert "closed" in (await world.event("Refused", "late"))["message"]
        await store.queues.edit(queue, lambda old: (old.labels, old.spec | {"closed": False}))
        await world.running("late")
        assert set(await world.bound()) == {"late"}


async def test_what_runs_longer_than_the_queue_allows_is_ended(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    name = f"{world.run}-short"
    await store.queues.create(name, {}, world.queue_spec | {"maxDuration": "1s"}, {"everyone": True})
    async with start():
        pod = world.pod("plain", 1, queue=name)
        template = {"metadata": pod["metadata"] | {"name": "x"}, "spec": pod["spec"] | {"restartPolicy": "Never"}}
        del template["metadata"]["namespace"]
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sweep", "namespace": world.namespace},
            "spec": {"template": template},
        }
        await world.create(pod, job)
        event = await world.event(names.EVENT_MAX_DURATION_EXCEEDED, "plain")
        assert "1s" in event["message"]
        await world.gone(PODS, "plain")
        await world.event(names.EVENT_MAX_DURATION_EXCEEDED, "sweep")
        await world.until(JOBS, "sweep", lambda item: item["spec"].get("suspend") is True)


async def test_a_half_bound_gang_is_taken_back(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    await world.create(world.group("half", 2, queue))
    await world.create(world.pod("half-0", 4, group="half"))
    await world.bind("half-0", world.nodes[0])
    await world.create(world.pod("half-1", 4, group="half"))
    async with start(gang_bind_timeout=1):
        event = await world.event(names.EVENT_GANG_TAKEN_BACK, "half")
        assert "1 of 2" in event["message"]
        await world.gone(PODS, "half-0")


async def test_members_taken_back_get_the_longest_grace_at_most(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    slow = {"terminationGracePeriodSeconds": 900}
    await world.create(world.group("half", 2, queue), world.pod("half-0", 4, group="half", **slow))
    await world.bind("half-0", world.nodes[0])
    await world.create(world.pod("half-1", 4, group="half"))
    await world.running("half-0")
    async with start(gang_bind_timeout=1, policy=Policy(preemption=Preemption(max_grace_seconds=2))):
        pod = await world.until(PODS, "half-0", lambda pod: pod["metadata"].get("deletionTimestamp"))
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 2
        await world.gone(PODS, "half-0")
