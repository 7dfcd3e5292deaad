"""What happens to jobs reaches a receiver: each kind of event, by the scheduler that runs them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from t9ksched.engine.policy import Policy, Preemption
from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.model.notification import EVENTS, Address
from t9ksched.notify.sending import Send, sender
from t9ksched.notify.services import Services
from t9ksched.notify.webhook import Webhooks
from t9ksched.scheduler.state.clocks import NEAR_SECONDS
from t9ksched.store.notifications import new_target
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World
from tests.unit.notify.receiver import LOOPBACK, Receiver, receiving

SECOND = 10**9


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


def to_loopback() -> Send:
    return sender(Webhooks(LOOPBACK), Services())


async def listen(store: Store, receiver: Receiver, queue: str) -> None:
    address = Address("webhook", f"{receiver.url}/{queue}", "http://127.0.0.1/…")
    await store.notifications.add(new_target(address, "eve", EVENTS, queue=queue), 10, by="eve")


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(90):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_the_life_of_jobs_is_told(
    world: World, start: Start, queue: str, store: Store, receiver: Receiver
) -> None:
    await world.play(1, 8)
    await listen(store, receiver, queue)

    def told() -> set[tuple[str, str]]:
        return {(body["type"], body["name"]) for body in receiver.bodies(f"/{queue}")}

    runs = {"devcluster.tensorstack.dev/run-seconds": "2"}
    fails = runs | {"devcluster.tensorstack.dev/exit-code": "3"}
    async with start(send=to_loopback()):
        await world.create(
            world.pod("good", 1, queue=queue, annotations=runs, restartPolicy="Never"),
            world.pod("bad", 1, queue=queue, annotations=fails, restartPolicy="Never"),
            world.pod("cancelled", 1, queue=queue),
        )
        await world.running("cancelled")
        await until(lambda: {("started", "cancelled"), ("ended", "good"), ("failed", "bad")} <= told())
        await world.client.delete(PODS, "cancelled", world.namespace)
        await until(lambda: ("ended", "cancelled") in told())
    bodies = receiver.bodies(f"/{queue}")
    assert max(Counter((body["type"], body["name"]) for body in bodies).values()) == 1
    assert len({body["id"] for body in bodies}) == len(bodies)
    [ended] = [body for body in bodies if body["name"] == "cancelled" and body["type"] == "ended"]
    assert (ended["queue"], ended["namespace"], ended["kind"]) == (queue, world.namespace, "Pod")
    assert "was deleted" in ended["message"]


async def test_a_gang_that_is_evicted_is_told_once(
    world: World, start: Start, store: Store, receiver: Receiver
) -> None:
    low, high = f"{world.run}-low", f"{world.run}-high"
    for name, priority in ((low, 1), (high, 9)):
        await store.queues.create(name, {}, world.queue_spec | {"priority": priority}, {"everyone": True})
    await listen(store, receiver, low)
    await world.play(1, 4)
    policy = Policy(actions=("allocate", "preempt"), preemption=Preemption())
    async with start(policy=policy, send=to_loopback()):
        await world.gang("lower", 4, 1, low)
        await world.running(*(f"lower-{n}" for n in range(4)))
        await world.gang("urgent", 1, 4, high)
        await world.event(names.EVENT_PREEMPTED, "lower")
        await world.running("urgent-0")
        await until(lambda: "preempted" in {body["type"] for body in receiver.bodies(f"/{low}")})
        await until(lambda: not [1 for body in receiver.bodies(f"/{low}") if body["name"] != "lower"])
    told = [body for body in receiver.bodies(f"/{low}") if body["type"] == "preempted"]
    assert [body["name"] for body in told] == ["lower"]
    assert "urgent" not in told[0]["message"]


async def test_a_job_that_nears_its_time_limit_is_told(
    world: World, start: Start, queue: str, store: Store, receiver: Receiver
) -> None:
    await world.play(1, 2)
    await listen(store, receiver, queue)
    ahead = 0

    def clock() -> int:
        return time.time_ns() + ahead

    limit = {"scheduler.tensorstack.dev/time-limit": "20m"}
    async with start(clock=clock, send=to_loopback()):
        await world.create(world.pod("long", 1, queue=queue, annotations=limit))
        await world.running("long")
        await until(lambda: "started" in {body["type"] for body in receiver.bodies(f"/{queue}")})
        ahead = (20 * 60 - NEAR_SECONDS + 30) * SECOND
        await until(lambda: "time-limit-near" in {body["type"] for body in receiver.bodies(f"/{queue}")})
    [near] = [body for body in receiver.bodies(f"/{queue}") if body["type"] == "time-limit-near"]
    assert "it reaches its time limit of 20m" in near["message"]
