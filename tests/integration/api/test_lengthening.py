"""Longer time limits beside planned starts of other queues, through REST: the planner says which they delay."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from t9ksched.engine.policy import Planning, Policy
from t9ksched.scheduler.keep import overrides
from t9ksched.scheduler.service import SchedulerService
from t9ksched.scheduler.whatif.lengthening import LengtheningLimits
from t9ksched.simulation.present import Present
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import JOBS, rest
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_planned_starts import limited, timed
from tests.integration.world import TIMEOUT, World
from tests.unit.api.world import Answer, Client

__all__ = ["rest"]
pytestmark = pytest.mark.cluster
PLANS = Policy(planning=Planning(per_user=100))
Update = Callable[[Client, str, str], Awaitable[Answer]]


@pytest.fixture
async def other(world: World, store: Store) -> str:
    """Another queue over the same nodes."""
    name = f"{world.run}-other"
    await store.queues.create(name, {}, world.queue_spec, {"everyone": True})
    return name


@pytest.fixture
async def manager(rest: Client, queue: str, store: Store) -> Client:
    """A manager of the queue."""
    secret = await store.tokens.create("boss", "manager", "boss", queues=[queue])
    return Client(rest.url, rest.session, secret)


@pytest.fixture
async def service(world: World, start: Start) -> AsyncIterator[SchedulerService]:
    """A scheduler that plans starts on one node with two cards."""
    await world.play(1, 2)
    async with start(policy=PLANS) as running:
        yield running


@pytest.fixture
def update(world: World) -> Update:
    """Give a pod another time limit."""

    async def given(client: Client, name: str, limit: str) -> Answer:
        address = f"{JOBS}/{world.namespace}/Pod/{name}/actions/update"
        return await client("POST", address, {"timeLimit": limit})

    return given


async def plans(service: SchedulerService, world: World, *pods: str) -> dict[str, int]:
    """When these pods are planned to start, in nanoseconds since the epoch, once all are."""
    state = service.state
    async with asyncio.timeout(TIMEOUT):
        while True:
            found: dict[str, Any] = {}
            for owner, rows in state.reservations.planned.items():
                gang = state.gangs_by_uid.get(owner)
                found[gang.name if gang is not None else owner] = rows[0].since
            if set(found) == set(pods):
                return found
            await asyncio.sleep(0.05)


async def waiting(service: SchedulerService, world: World, *pods: tuple[str, str]) -> dict[str, int]:
    """One pod runs for three hours, these, with the queue of each, wait for it one after the other."""
    for name, queue in pods:
        limit = "3h" if name == "runs" else "1h"
        await world.create(limited(world, name, 2, queue, limit))
        if name == "runs":
            await world.running(name)
            await timed(service, world, name)
        else:
            have = [one for one, _ in pods[1 : pods.index((name, queue)) + 1]]
            found = await plans(service, world, *have)
    return found


async def test_a_plan_in_between_does_not_hide_those_behind_it(
    world: World, service: SchedulerService, queue: str, other: str, manager: Client, rest: Client, update: Update
) -> None:
    before = await waiting(service, world, ("runs", queue), ("ours", queue), ("theirs", other))
    for limit in ("4h", "5h", "0"):
        refused = await update(manager, "runs", limit)
        assert (refused.status, refused.body["code"]) == (409, "Conflict"), refused.body
        assert f"a job of the queue {other!r}, which is planned to start at" in refused.body["detail"]
    assert await plans(service, world, "ours", "theirs") == before
    assert (await update(rest, "runs", "4h")).status == 200, "administrators may"
    async with asyncio.timeout(TIMEOUT):
        while (await plans(service, world, "ours", "theirs"))["theirs"] <= before["theirs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_job_that_waits_moves_no_plan_behind_it(
    world: World, service: SchedulerService, queue: str, other: str, manager: Client, update: Update
) -> None:
    before = await waiting(service, world, ("runs", queue), ("ours", queue), ("theirs", other))
    refused = await update(manager, "ours", "5h")
    assert (refused.status, refused.body["code"]) == (409, "Conflict"), refused.body
    assert (await update(manager, "ours", "30m")).status == 200
    assert (await plans(service, world, "ours", "theirs"))["theirs"] <= before["theirs"]


async def test_many_small_delays_are_refused_as_one_large_one_is(
    world: World, service: SchedulerService, queue: str, other: str, manager: Client, update: Update
) -> None:
    before = await waiting(service, world, ("runs", queue), ("theirs", other))
    answers = [(await update(manager, "runs", f"3h{more}s")).status for more in (20, 40, 60, 80)]
    assert answers.count(200) <= 3
    assert answers[-1] == 409
    after = await plans(service, world, "theirs")
    assert after["theirs"] <= before["theirs"] + service.state.resolution


async def test_of_two_limits_that_delay_nothing_each_by_itself_one_is_given(
    world: World, service: SchedulerService, queue: str, other: str, manager: Client, update: Update
) -> None:
    for name in ("first", "second"):
        await world.create(limited(world, name, 1, queue, "3h"))
        await world.running(name)
        await timed(service, world, name)
    await world.create(limited(world, "theirs", 1, other, "1h"))
    before = await plans(service, world, "theirs")
    answers = await asyncio.gather(*(update(manager, name, "9h") for name in ("first", "second")))
    assert sorted(one.status for one in answers) == [200, 409], [one.body for one in answers]
    async with asyncio.timeout(TIMEOUT):
        while len(service.state.controls) < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    after = await plans(service, world, "theirs")
    assert after["theirs"] <= before["theirs"] + service.state.resolution


async def test_where_that_cannot_be_found_out_nothing_is_lengthened(
    world: World, service: SchedulerService, queue: str, other: str, manager: Client, update: Update, store: Store
) -> None:
    service.lengthening.limits = LengtheningLimits(a_minute=1, command=(sys.executable, "-c", "raise MemoryError"))
    first = await waiting(service, world, ("runs", queue), ("ours", queue))
    assert (await update(manager, "runs", "4h")).status == 200, "no plan of another queue: no process is started"
    async with asyncio.timeout(TIMEOUT):
        while (await plans(service, world, "ours"))["ours"] <= first["ours"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await world.create(limited(world, "theirs", 2, other, "1h"))
    before = await plans(service, world, "ours", "theirs")
    failed = await update(manager, "runs", "9h")
    assert (failed.status, failed.body["code"]) == (503, "Unavailable")
    often = await update(manager, "runs", "9h")
    assert (often.status, often.body["code"]) == (429, "RateLimited")
    (control,) = await store.controls.all()
    assert control.time_limit_seconds == 4 * 3600
    assert await plans(service, world, "ours", "theirs") == before


async def test_starts_that_were_planned_meanwhile_are_not_delayed_either(
    world: World,
    service: SchedulerService,
    queue: str,
    other: str,
    manager: Client,
    update: Update,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("first", "second"):
        await world.create(limited(world, name, 1, queue, "3h"))
        await world.running(name)
        await timed(service, world, name)
    await world.create(limited(world, "theirs", 1, other, "1h"))
    await plans(service, world, "theirs")
    found = service.lengthening._planned

    async def slow(present: Present) -> dict[str, int]:
        starts = await found(present)
        await world.create(limited(world, "new", 1, other, "1h"))
        await plans(service, world, "theirs", "new")
        return starts

    monkeypatch.setattr(service.lengthening, "_planned", slow)
    asked = await update(manager, "first", "9h")
    assert (asked.status, asked.body["code"]) == (503, "Unavailable"), asked.body
    assert "starts were planned while" in asked.body["detail"]


async def test_a_limit_that_is_never_recorded_counts_no_more_after_a_while(
    world: World, service: SchedulerService, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overrides, "_RECORDED", 0.2)
    await world.create(limited(world, "runs", 2, queue, "3h"))
    await world.running("runs")
    gang = service.state.pod_named(world.namespace, "runs").gang
    service._directions.suppose(gang.uid, 4 * 3600, "boss")
    assert service.state.controls[gang.uid].time_limit_seconds == 4 * 3600
    async with asyncio.timeout(TIMEOUT):
        while gang.uid in service.state.controls:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
