"""Alerts on the dev cluster about work that is slow or refused: each reason is caused, and its expression says so."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model.notification import EVENTS, Address
from t9ksched.notify.sending import sender
from t9ksched.notify.services import Services
from t9ksched.notify.webhook import Webhooks
from t9ksched.scheduler.act import executor
from t9ksched.scheduler.decide import loop
from t9ksched.scheduler.keep import notifier
from t9ksched.scheduler.report import metrics
from t9ksched.store import history, notifications
from t9ksched.store.history import Event
from t9ksched.store.notifications import new_target
from t9ksched.store.store import Store
from tests import promql
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_alerts import ALERTS, active, holding, page
from tests.integration.scheduler.test_planned_starts import limited, timed
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import World
from tests.unit.notify.receiver import LOOPBACK, receiving

SECOND = 10**9


class Late:
    """A steady clock that is ahead by `seconds`, in place of the module `time`."""

    seconds = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.seconds

    def nanoseconds(self) -> int:
        return time.time_ns() + int(self.seconds * SECOND)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Late:
    """The clock of cycles and bindings."""
    clock = Late()
    for module in (loop, executor):
        monkeypatch.setattr(module, "clock_of", clock)
    return clock


async def when(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_cycles_that_take_long(
    world: World, start: Start, queue: str, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.play(1, 4)
    running = asyncio.get_running_loop()
    ordinary = running.time
    monkeypatch.setattr(running, "time", lambda: ordinary() + late.seconds)
    async with start() as service:
        before, cycle = await page(service), service.loop.cycle

        async def slow() -> Any:
            late.seconds = 8  # once: what waits for something on the loop's clock must not give up
            return await cycle()

        monkeypatch.setattr(service.loop, "cycle", slow)
        await world.create(world.pod("a", 1, queue=queue))
        await world.running("a")
        assert holding(before, before) == set()
        assert holding(before, await page(service)) >= {"T9kschedCycleSlow", "T9kschedDecisionsLate"}


async def test_a_binding_that_takes_long(world: World, start: Start, queue: str, late: Late) -> None:
    await world.play(1, 4)
    async with start() as service:
        before = await page(service)
        world.faults.rules = [Rule(verb="create", resource="pods/binding", latency=0.5)]
        await world.create(world.pod("a", 1, queue=queue))
        await when(lambda: service.executor.in_flight)
        late.seconds += 45
        await world.running("a")
        await when(lambda: not service.executor.in_flight)
        assert "T9kschedBindingSlow" in holding(before, await page(service))


async def test_a_database_that_is_slow_and_falls_behind(
    world: World, start: Start, queue: str, store: Store, tmp_path: Path
) -> None:
    await world.play(1, 4)
    async with start() as service:
        before = await page(service)
        held = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
        with closing(held) as other:
            await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
            await world.create(world.pod("a", 1, queue=queue))
            await asyncio.sleep(1.1)  # longer than a second; a write is under way
            for number in range(20_001):
                service.sql_writer.event(Event(event=history.WAITING, name=f"p{number}", uid="u", queue=queue))
            assert "T9kschedJournalBehind" in holding(before, await page(service))
            other.execute("ROLLBACK")
        await world.running("a")
        await when(lambda: not service.sql_writer.backlog)
        assert active(before, after := await page(service)) == set()
        assert "T9kschedDatabaseSlow" in holding(before, after)


async def test_gangs_that_are_taken_back(world: World, start: Start, queue: str, late: Late) -> None:
    await world.play(1, 4)
    async with start(clock=late.nanoseconds) as service:
        before = await page(service)
        for number in range(4):
            name = f"half{number}"
            await world.create(world.group(name, 2, queue), world.pod(f"{name}-0", 1, group=name))
            await world.bind(f"{name}-0", world.nodes[0])
            await world.create(world.pod(f"{name}-1", 99, group=name))
        await when(lambda: len(service.state.partial) == 4)
        async with asyncio.timeout(60):
            while service.state.partial:
                late.seconds += 61
                await asyncio.sleep(0.1)
        assert "T9kschedGangsTakenBack" in active(before, await page(service))


async def test_evictions_that_are_refused(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 6)
    async with start(policy=Policy(actions=("allocate", "preempt"))) as service:
        await world.gang("low", 6, 1, f"{world.run}-low")
        await world.running(*(f"low-{each}" for each in range(6)))
        before = await page(service)
        world.faults.rules = [Rule(verb="delete", resource="pods", status=403)]
        await world.create(world.pod("high", 6, queue=f"{world.run}-high"))
        declined = service.state.meters.evictions_declined
        await when(lambda: any('answer="refused"} 6' in line for line in declined.lines()))
        assert "T9kschedEvictionsDeclined" in active(before, await page(service))
        world.faults.rules = []


async def test_notifications_that_are_given_up(
    world: World, start: Start, queue: str, store: Store, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "MOST_FAILURES", 1)
    monkeypatch.setattr(notifier, "PERIOD", 0.05)
    await world.play(1, 4)
    async with receiving() as receiver, start(send=sender(Webhooks(LOOPBACK), Services())) as service:
        receiver.answers["/"] = 500
        before = await page(service)
        address = Address("webhook", f"{receiver.url}/", "http://127.0.0.1/…")
        target = new_target(address, "eve", EVENTS, queue=queue)
        await store.notifications.add(target, 10, by="eve")
        await store.notifications.test(target, datetime.now(UTC), "eve")
        await when(lambda: service.state.notified.told["failed"])
        assert active(before, await page(service)) == set(), "who asked for a test is told of it"
        await store.notifications.test(target, datetime.now(UTC), "eve")
        receiver.answers["/"] = 204
        await when(lambda: service.state.notified.told["sent"])
        receiver.answers["/"] = 500
        await world.create(world.pod("a", 1, queue=queue))
        await when(lambda: service.state.notified.told["dropped"])
        assert active(before, await page(service)) == {"T9kschedNotificationsDropped"}


async def test_planned_starts_that_are_missed(world: World, start: Start, queue: str, late: Late) -> None:
    """Nothing was done for two hours, in which the job should have ended that they waited for."""
    jobs = [f"p{number}" for number in range(12)]
    await world.play(1, 12)
    planning = Planning(per_queue=20, per_user=20)
    async with start(clock=late.nanoseconds, policy=Policy(planning=planning)) as service:
        service.forecaster.pauses = (0.1, 0.1)
        await world.create(limited(world, "long", 12, queue, "1h"))
        await world.running("long")
        await timed(service, world, "long")
        await world.create(*(limited(world, name, 1, queue, "1h") for name in jobs))
        await when(lambda: service.state.forecasts.waiting["plan"] == 12)
        before = await page(service)
        # The nodes' clock is not late: what they say of starts comes once these are on record.
        world.faults.rules = [Rule(verb="patch", resource="pods/status", status=503)]
        late.seconds += 2 * 3600
        await when(lambda: service.state.forecasts.started["plan"] == 12)
        world.faults.rules = []
        await world.running(*jobs)
        assert "T9kschedPlansBroken" in active(before, await page(service))


async def test_two_schedulers_of_which_one_was_cut_off(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)

    def both(first: str, second: str) -> list[promql.One]:
        database = promql.Database()
        database.scrape(first, 0.0, pod="a")
        database.scrape(second, 0.0, pod="b")
        return promql.evaluate(ALERTS["T9kschedTwoLeaders"], 0.0, database)

    async with start() as first:
        assert not both(await page(first), metrics.standby().decode())
        async with start() as second:
            assert both(await page(first), await page(second))
