"""Jobs that start only at certain times: in the windows of their queue, or not before a moment of their own."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.resources import PODS, QUEUES
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_time_limits import explained
from tests.integration.world import World

MINUTE = 60_000_000_000
SOON = 4_000_000_000


def before_a_minute() -> tuple[Callable[[], int], int]:
    """A clock that shows a whole minute in a moment, and that minute in nanoseconds since the epoch."""
    now = time.time_ns()
    minute = now - now % MINUTE + MINUTE
    ahead = minute - SOON - now
    return lambda: time.time_ns() + ahead, minute


def clock_time(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e9, UTC).strftime("%H:%M")


async def first_reason(service: Any, kind: str, name: str, namespace: str) -> dict[str, Any]:
    told = await explained(service, kind, name, namespace)
    assert told["verdict"] == "Waiting"
    reason: dict[str, Any] = told["reasons"][0]
    return reason


async def test_a_job_starts_when_the_window_of_its_queue_begins(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    clock, begin = before_a_minute()
    name = f"{world.run}-night"
    window = {"from": clock_time(begin), "to": clock_time(begin + 60 * MINUTE)}
    await store.queues.create(name, {}, world.queue_spec | {"startWindows": [window]}, {"everyone": True})
    async with start(clock=clock) as service:
        await world.create(world.pod("a", 1, queue=name))
        event = await world.event(names.EVENT_WAITING, "a")
        begins = datetime.fromtimestamp(begin / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:00Z")
        assert (
            f"queue {name!r} starts jobs only in its start windows: the next one begins at {begins}" in event["message"]
        )
        assert (await first_reason(service, "pod", "a", world.namespace))["code"] == "OutsideWindow"
        shown = await world.client.get(QUEUES, name, names.SYSTEM_NAMESPACE)
        assert shown["spec"]["startWindows"] == [window]
        assert not await world.bound()
        await world.running("a")
        assert clock() >= begin


async def test_a_start_is_planned_for_the_begin_of_the_window(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    clock, begin = before_a_minute()
    name = f"{world.run}-night"
    windows = [{"from": clock_time(begin), "to": clock_time(begin + 60 * MINUTE)}]
    await store.queues.create(name, {}, world.queue_spec | {"startWindows": windows}, {"everyone": True})
    async with start(clock=clock, policy=Policy(planning=Planning())) as service:
        await world.create(world.pod("a", 1, queue=name))
        await world.event(names.EVENT_WAITING, "a")
        told = await explained(service, "pod", "a", world.namespace)
        assert [reason["code"] for reason in told["reasons"]] == ["PlannedStart", "OutsideWindow"]
        begins = datetime.fromtimestamp(begin / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:00Z")
        assert told["job"]["plannedStart"]["at"] == begins
        await world.running("a")
        assert clock() >= begin


async def test_a_job_starts_no_earlier_than_it_asks_for(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    begin = time.time_ns() // 1_000_000_000 + 5
    text = datetime.fromtimestamp(begin, UTC).isoformat()
    group = world.group("g", 2, queue)
    group["metadata"]["annotations"] = {names.START_AFTER_ANNOTATION: text}
    async with start() as service:
        await world.create(group, *(world.pod(f"g-{at}", 1, group="g") for at in range(2)))
        event = await world.event(names.EVENT_WAITING, "g")
        assert f"it is not to start before {text.replace('+00:00', 'Z')}" in event["message"]
        assert (await first_reason(service, "podgroup", "g", world.namespace))["code"] == "StartTimeNotReached"
        await world.create(world.pod("beside", 4, queue=queue))
        await world.running("beside")
        await world.client.delete(PODS, "beside", world.namespace)
        for at in range(2):
            await world.running(f"g-{at}")
        assert time.time() >= begin


async def test_a_start_time_that_cannot_be_read_is_ignored_and_said(world: World, start: Start, queue: str) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(world.pod("a", 1, queue=queue, annotations={names.START_AFTER_ANNOTATION: "tonight"}))
        event = await world.event(names.EVENT_START_AFTER_IGNORED, "a")
        assert f"the annotation {names.START_AFTER_ANNOTATION} is ignored: 'tonight' is not a time" in event["message"]
        await world.running("a")
        (warning,) = (await explained(service, "pod", "a", world.namespace))["warnings"]
        assert (warning["path"], "'tonight' is not a time" in warning["message"]) == (
            f"metadata.annotations[{names.START_AFTER_ANNOTATION}]",
            True,
        )
