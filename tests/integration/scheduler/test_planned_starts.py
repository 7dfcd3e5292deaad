"""Planned starts from outside: who waits is told when it starts, nobody delays it, and a restart keeps the moment."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.resources import NODES, PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.store import history
from t9ksched.store.job_overrides import SCHEDULING, Stop
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_failures import happened
from tests.integration.world import TIMEOUT, Object, World

PLANS = Policy(planning=Planning(per_user=100))
EXACT = Policy(planning=Planning(per_user=100, resolution_seconds=1))


def limited(world: World, name: str, gpus: int, queue: str, limit: str = "", grace: int = 1) -> Object:
    annotations = {names.TIME_LIMIT_ANNOTATION: limit} if limit else {}
    return world.pod(name, gpus, queue=queue, annotations=annotations, terminationGracePeriodSeconds=grace)


async def uid(world: World, pod: str) -> str:
    return str((await world.client.get(PODS, pod, world.namespace))["metadata"]["uid"])


async def waits_for(world: World, pod: str) -> str:
    return (await world.event(names.EVENT_WAITING, pod))["message"]


async def stored(store: Store, *waiting: str) -> dict[str, Any]:
    """The planned starts in SQL, once those are of these."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            if set(found := await store.planned_starts.all()) == set(waiting):
                return found
            await asyncio.sleep(0.1)


async def timed(service: Any, world: World, pod: str) -> None:
    """Return once it is known since when the pod runs; before that it may run longer by `startTimeout`."""
    gang = service.state.pod_named(world.namespace, pod).gang
    async with asyncio.timeout(TIMEOUT):
        while (clock := service.state.clocks.of(gang)) is None or not clock.run.ran_at:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def asked(service: Any, path: str) -> Any:
    """What the leader answers to REST."""
    headers = {"Authorization": f"Bearer {'s' * 20}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{service.address}/internal/v1/{path}") as response,
    ):
        return await response.json()


async def job_of(service: Any, kind: str, name: str, namespace: str) -> Any:
    view = await service._jobs.find(namespace, kind, name)
    assert view is not None
    return await explanation(view, service.state)


async def test_a_large_gang_starts_although_small_jobs_keep_coming(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 4)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "long", 3, queue, "4h"))
        await world.running("long")
        await timed(service, world, "long")
        await world.gang("large", 2, 2, queue)
        condition = await world.condition("large", "PlannedStart", "True", "Firm")
        assert world.nodes[0] in condition["message"]
        await world.create(limited(world, "endless", 1, queue))
        assert "when other jobs are to start there" in await waits_for(world, "endless")
        await world.create(limited(world, "small", 1, queue, "10m"))
        await world.running("small")
        told = await job_of(service, "podgroup", "large", world.namespace)
        assert [reason["code"] for reason in told["reasons"]] == ["PlannedStart"]
        assert [(one["job"], one["from"]) for one in told["holders"]] == [
            (f"{world.namespace}/Pod/{name}", None) for name in ("long", "small")
        ]
        planned = told["job"]["plannedStart"]
        behind = (await job_of(service, "pod", "endless", world.namespace))["holders"]
        assert [(one["job"], one["from"]) for one in behind][2:] == [
            (f"{world.namespace}/PodGroup/large", planned["at"])
        ]
        (plan,) = (await asked(service, f"nodes/{world.nodes[0]}"))["planned"]
        assert (plan["at"], plan["job"], plan["gpus"]) == (planned["at"], "PodGroup/large", 4)
        bars = [one for one in (await asked(service, "timeline"))["items"] if one["namespace"] == world.namespace]
        assert [(one["kind"], one["job"], bool(one["until"])) for one in bars] == [
            ("running", "Pod/long", True),
            ("running", "Pod/small", True),
            ("planned start", "PodGroup/large", False),
        ]
        assert bars[2]["from"] == planned["at"] >= bars[0]["until"] > bars[1]["until"]
        assert (planned["firm"], list(planned["nodes"])) == (True, world.nodes)
        await world.until(PODGROUPS, "large", lambda group: planned["at"] in str(group["status"]["conditions"]))
        assert planned["at"].endswith(":00Z"), "rounded up to the resolution"
        await world.client.delete(PODS, "long", world.namespace)
        moved = await world.event(names.EVENT_PLAN_MOVED, "large")
        assert "room is expected sooner than before" in moved["message"]
        assert "moved from" in (await happened(store, history.PLAN_MOVED, "large")).detail["message"]
        await world.client.delete(PODS, "small", world.namespace)
        await world.running("large-0", "large-1")
        await world.condition("large", "PlannedStart", "False", "Started")
        assert set(await world.bound()) == {"large-0", "large-1"}


async def test_a_planned_start_comes_when_it_was_planned_and_outlives_a_restart(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start(policy=EXACT):
        await world.create(limited(world, "first", 1, queue, "15s"))
        await world.running("first")
        await world.create(limited(world, "second", 2, queue, "1h"))
        assert "planned to start at" in await waits_for(world, "second")
        (plan,) = (await stored(store, await uid(world, "second"))).values()
    async with start(policy=EXACT) as service:
        assert next(iter(service.state.reservations.planned.values()))[0].since <= plan[0].since
        await world.create(limited(world, "third", 1, queue))
        await waits_for(world, "third")
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "first")
        await world.running("second")
        await stored(store, await uid(world, "third"))
        begun = service.state.pod_named(world.namespace, "second").started
        assert begun <= plan[0].since + 2_000_000_000, "never later than planned"
        assert "third" not in await world.bound()


async def test_where_a_plan_is_lost_what_waited_for_it_starts_at_once(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """The one that waits is in a queue that is served before that of the plan."""
    other = f"{world.run}-other"
    await store.queues.create(other, {}, world.queue_spec, {"everyone": True})
    await world.play(3, 1)
    async with start(policy=PLANS):
        await world.create(limited(world, "long", 1, queue, "1h"))
        (there,) = await world.running("long")
        await world.gang("large", 3, 1, queue)
        await world.condition("large", "PlannedStart", "True")
        await world.create(limited(world, "endless", 1, other))
        await waits_for(world, "endless")
        free = [name for name in world.nodes if name != there["spec"]["nodeName"]]
        await world.client.patch(NODES, free[0], None, {"spec": {"unschedulable": True}})
        await world.running("endless")
        await world.condition("large", "PlannedStart", "False", "NotPlanned")


@pytest.mark.parametrize("lost", [1, 2], ids=["one pod", "all pods"])
async def test_a_plan_outlives_pods_that_are_missing_for_a_moment(
    world: World, start: Start, queue: str, lost: int
) -> None:
    await world.play(1, 2)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "long", 1, queue, "1h"))
        await world.running("long")
        await timed(service, world, "long")
        await world.gang("large", 2, 1, queue)
        await world.condition("large", "PlannedStart", "True")
        await world.create(limited(world, "endless", 1, queue))
        await waits_for(world, "endless")
        (before,) = [plan[0].since for plan in service.state.reservations.planned.values()]
        gone = [f"large-{index}" for index in range(lost)]
        for name in gone:
            await world.client.delete(PODS, name, world.namespace)
        for name in gone:
            await world.gone(PODS, name)
        await asyncio.sleep(2)
        assert set(await world.bound()) == {"long"}
        await world.create(*(world.pod(name, 1, group="large") for name in gone))
        await world.create(limited(world, "last", 1, queue))
        await waits_for(world, "last")
        assert set(await world.bound()) == {"long"}
        assert [plan[0].since for plan in service.state.reservations.planned.values()] == [before]


async def test_a_closed_node_moves_a_plan_and_the_cause_is_told(world: World, start: Start, queue: str) -> None:
    await world.play(2, 2)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "short", 2, queue, "1h"), limited(world, "long", 2, queue, "9h"))
        places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await world.running("short", "long")}
        await world.gang("next", 1, 2, queue)
        condition = await world.condition("next", "PlannedStart", "True")
        assert places["short"] in condition["message"]
        await world.client.patch(NODES, places["short"], None, {"spec": {"unschedulable": True}})
        moved = await world.event(names.EVENT_PLAN_MOVED, "next")
        assert f"node {places['short']} was lost or closed" in moved["message"]
        await world.until(
            PODGROUPS,
            "next",
            lambda group: any(
                one["type"] == "PlannedStart" and places["long"] in one["message"]
                for one in group["status"]["conditions"]
            ),
        )
        service.loop.policy = Policy()
        service.loop.wake()
        await world.condition("next", "PlannedStart", "False", "NotPlanned")
        assert service.state.enforced_ends is None


def codes(told: Any) -> list[str]:
    return [reason["code"] for reason in told["reasons"]]


async def planned(service: Any, world: World, pod: str, *, is_planned: bool, code: str = "PlannedStart") -> Any:
    """What is told of a waiting job, once a start is planned for it, or none is, and this one reason why it waits."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            told = await job_of(service, "pod", pod, world.namespace)
            if ((told["job"]["plannedStart"] is not None), codes(told)) == (is_planned, [code]):
                return told
            await asyncio.sleep(0.1)


async def test_while_nothing_is_started_no_start_is_planned(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "long", 2, queue, "4h"))
        await world.running("long")
        await timed(service, world, "long")
        await world.create(limited(world, "next", 2, queue, "1h"))
        assert "planned to start at" in await waits_for(world, "next")
        before = (await planned(service, world, "next", is_planned=True))["job"]
        assert before["expectedStart"]["basis"] == "plan"

        await store.stops.stop(Stop(SCHEDULING, None, "root", datetime.now(UTC), "power"))
        told = await planned(service, world, "next", is_planned=False, code="SchedulingStopped")
        assert (told["job"]["expectedStart"]["basis"], told["job"]["expectedStart"]["latest"]) == ("unknown", None)
        assert not (await asked(service, f"nodes/{world.nodes[0]}"))["planned"]
        bars = [one for one in (await asked(service, "timeline"))["items"] if one["namespace"] == world.namespace]
        assert [one["kind"] for one in bars] == ["running"]
        moved = (await world.event(names.EVENT_PLAN_MOVED, "next"))["message"]
        assert f"it is no longer planned to start at {before['plannedStart']['at']}: scheduling is stopped" in moved
        await store.stops.resume(SCHEDULING, "root")
        again = (await planned(service, world, "next", is_planned=True))["job"]["plannedStart"]
        assert again["at"] >= before["plannedStart"]["at"]

        await store.queues.edit(queue, lambda old: (old.labels, old.spec), draining=True)
        await planned(service, world, "next", is_planned=False, code="QueueClosed")
        await store.queues.edit(queue, lambda old: (old.labels, old.spec | {"closed": True}), draining=False)
        await planned(service, world, "next", is_planned=True)  # it was in the queue before: closing does not stop it


async def policy_changed(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    service.loop.policy = Policy()
    service.loop.wake()
    return "the scheduling policy was changed"


async def card_cordoned(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    await store.card_cordons.cordon(places["short"], 0, "fan", "root")
    return f"node {places['short']} has less than before"


async def limit_lengthened(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    asked = history.Event(event=history.JOB_LIMITED, uid=await uid(world, "short"), actor="ann")
    await store.controls.limit(asked, 7 * 3600)
    return "a running job may run longer than before"


async def job_held(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    await store.controls.hold(
        history.Event(event=history.JOB_HELD, uid=await uid(world, "next"), actor="ann", kind="Pod", name="next")
    )
    return "it was held"


async def queue_narrowed(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    labels = (world.queue_spec.get("nodeSelector") or {}).get("matchLabels", {})
    narrow = {"nodeSelector": {"matchLabels": labels | {"kubernetes.io/hostname": places["long"]}}}
    (queue,) = {gang.queue for gang in service.state.gangs.values()}
    await store.queues.edit(queue, lambda old: (old.labels, old.spec | narrow))
    return f"queue '{queue}' was changed"


async def larger_queue(service: Any, world: World, store: Store, places: dict[str, str]) -> str:
    high = f"{world.run}-high"
    await store.queues.create(high, {}, world.queue_spec | {"priority": 50}, {"everyone": True})
    await world.create(limited(world, "urgent", 2, high, "2h"))
    return f"queue '{high}' has a larger priority (50 against 0)"


CAUSES = (policy_changed, card_cordoned, limit_lengthened, job_held, queue_narrowed, larger_queue)


@pytest.mark.parametrize("act", CAUSES, ids=[one.__name__ for one in CAUSES])
async def test_what_moves_a_plan_is_told_in_event_and_history(
    world: World, start: Start, queue: str, store: Store, act: Any
) -> None:
    await world.play(2, 2)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "short", 2, queue, "1h"), limited(world, "long", 2, queue, "9h"))
        places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await world.running("short", "long")}
        for name in places:
            await timed(service, world, name)
        await world.create(limited(world, "next", 2, queue, "1h"))
        assert "planned to start at" in await waits_for(world, "next")
        why = await act(service, world, store, places)
        message = (await world.event(names.EVENT_PLAN_MOVED, "next"))["message"]
        assert message.endswith(f": {why}")
        assert (await happened(store, history.PLAN_MOVED, "next")).detail["message"] == message
