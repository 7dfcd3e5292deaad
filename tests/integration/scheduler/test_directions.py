"""What people tell the scheduler through the database is followed within a moment."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from t9ksched.kube.resources import PODS, QUEUES
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.store.history import JOB_HELD, JOB_PRIORITISED, JOB_RELEASED, Event
from t9ksched.store.job_overrides import PREEMPTION, SCHEDULING, Stop
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_preemption import PREEMPT, queues
from tests.integration.world import TIMEOUT, World


def _stopped(item: dict[str, Any]) -> bool:
    return any(one["type"] == "SchedulingStopped" for one in (item.get("status") or {}).get("conditions") or [])


async def until(holds: Callable[[], object]) -> None:
    """Look until it holds; what the scheduler knows inside sends no events."""
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_held_job_waits_until_it_is_released(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(world.pod("first", 2, queue=queue))
        await world.running("first")
        uid = (await world.create(world.pod("held", 1, queue=queue)))["metadata"]["uid"]
        await store.controls.hold(Event(event=JOB_HELD, uid=uid, actor="ann"))
        await until(lambda: uid in service.state.controls)
        await world.client.delete(PODS, "first", world.namespace)
        await world.create(world.pod("next", 1, queue=queue))
        await world.running("next")
        (gang,) = (gang for gang in service.state.pending if gang.uid == uid)
        assert "held by ann" in gang.reasons[0].message
        await store.controls.release(Event(event=JOB_RELEASED, uid=uid, actor="ann"))
        await world.running("held")


async def test_a_job_moved_up_goes_first(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 1)
    async with start() as service:
        await world.create(world.pod("running", 1, queue=queue))
        await world.running("running")
        await world.create(world.pod("a", 1, queue=queue))
        uid = (await world.create(world.pod("b", 1, queue=queue)))["metadata"]["uid"]
        await store.controls.prioritise(Event(event=JOB_PRIORITISED, uid=uid, actor="ann"), 50)
        await until(lambda: uid in service.state.controls)
        await world.event(names.EVENT_WAITING, "b")
        await world.client.delete(PODS, "running", world.namespace)
        await world.running("b")
        assert set(await world.bound()) == {"b"}


async def test_a_stop_of_scheduling_holds_until_its_time(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 1)
    now = datetime.now(UTC)
    await store.stops.stop(Stop(SCHEDULING, now + timedelta(hours=1), "ann", now))
    async with start() as service:
        assert service.loop.paused
        await world.create(world.pod("a", 1, queue=queue))
        assert await world.bound() == {}
        assert 't9ksched_stopped{what="scheduling"} 1' in (await service.metrics()).decode()
        shown = await world.until(QUEUES, queue, _stopped, names.SYSTEM_NAMESPACE)
        assert [one["message"] for one in shown["status"]["conditions"][2:]] == ["by ann"]
        soon = datetime.now(UTC) + timedelta(seconds=1)
        await store.stops.stop(Stop(SCHEDULING, soon, "ann", now))
        await world.running("a")
        await world.until(QUEUES, queue, lambda item: not _stopped(item), names.SYSTEM_NAMESPACE)
        assert 't9ksched_stopped{what="scheduling"} 0' in (await service.metrics()).decode()
        assert not service.loop.paused
        assert datetime.now(UTC) >= soon


async def test_a_stop_of_scheduling_accepts_and_refuses_as_usual(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """Also what time alone decides, while nothing else happens."""
    shut = f"{world.run}-shut"
    await store.queues.create(shut, {}, world.queue_spec)
    await world.play(1, 1)
    now = datetime.now(UTC)
    await store.stops.stop(Stop(SCHEDULING, now + timedelta(hours=1), "ann", now))
    async with start() as service:

        def said() -> dict[str, Code]:
            return {gang.name: gang.reasons[0].code for gang in service.state.pending if gang.reasons}

        later = f"{datetime.now(UTC) + timedelta(seconds=4):%Y-%m-%dT%H:%M:%SZ}"
        obj = world.pod("later", 1, queue=queue)
        obj["metadata"].setdefault("annotations", {})[names.START_AFTER_ANNOTATION] = later
        await world.create(obj)
        await world.create(world.pod("stranger", 1, queue=shut))
        await until(lambda: said() == {"later": Code.SCHEDULING_STOPPED, "stranger": Code.SUBMITTER_UNKNOWN})
        assert await world.bound() == {}


async def test_a_stop_of_preemption_spares_everybody(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    now = datetime.now(UTC)
    await store.stops.stop(Stop(PREEMPTION, None, "ann", now))
    async with start(policy=PREEMPT):
        await world.create(world.pod("low", 1, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 1, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        assert set(await world.bound()) == {"low"}
        await store.stops.resume(PREEMPTION, "ann")
        await world.running("high")


async def test_a_draining_queue_starts_nothing_that_waits(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(world.pod("runs", 1, queue=queue))
        await world.running("runs")
        await store.queues.edit(queue, lambda old: (old.labels, old.spec), draining=True)
        await until(lambda: service.state.queues[queue].draining)
        uid = (await world.create(world.pod("late", 1, queue=queue)))["metadata"]["uid"]
        await until(lambda: uid in service.state.gangs_by_uid and service.state.gangs_by_uid[uid].reasons)
        gang = service.state.gangs_by_uid[uid]
        assert "draining" in gang.reasons[0].message
        await store.queues.edit(queue, lambda old: (old.labels, old.spec), draining=False)
        await world.running("late")


async def test_history_tells_when_cards_were_held(world: World, start: Start, queue: str, store: Store) -> None:
    async def happened() -> dict[str, Any]:
        return {event.event: event.detail for event in await store.history.list(name="a")}

    await world.play(1, 2)
    async with start() as service:
        await world.create(world.pod("a", 2, queue=queue))
        await world.running("a")
        for event in ("started", "released"):
            async with asyncio.timeout(TIMEOUT):
                while event not in (told := await happened()):
                    await asyncio.sleep(0.05)
                    await service.sql_writer.flushed()
            if event == "started":
                await world.client.delete(PODS, "a", world.namespace)
    assert sorted(told["bound"]["cards"]["main"]) == [0, 1]
    assert (told["bound"]["model"], told["bound"]["resource"]) == ("NVIDIA-A100-PCIE-80GB", "nvidia.com/gpu")
    assert told["released"] == {"pod": "a"}
