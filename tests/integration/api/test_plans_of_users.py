"""Planned starts of users who submit through REST: how many each has, whoever may use the queue."""

import asyncio

import pytest

from t9ksched.engine.policy import Planning, Policy
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import JOBS, rest
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_planned_starts import limited, timed
from tests.integration.world import TIMEOUT, World
from tests.unit.api.world import Client

__all__ = ["rest"]
pytestmark = pytest.mark.cluster
POLICY = Policy(planning=Planning(per_user=2))


@pytest.mark.parametrize("everyone", [True, False], ids=["everyone", "members"])
async def test_a_user_has_no_more_plans_than_the_policy_allows(
    world: World, start: Start, store: Store, rest: Client, everyone: bool
) -> None:
    queue = f"{world.run}-q"
    await store.queues.create(queue, {}, world.queue_spec, {"everyone": everyone, "users": ["admin"]})
    await world.play(1, 1)
    async with start(policy=POLICY) as service:
        long = limited(world, "long", 1, queue, "3h")
        assert (await rest("POST", JOBS, long)).status == 201
        await world.running("long")
        await timed(service, world, "long")
        counts: list[int] = []
        service.loop.told = lambda: counts.append(len(service.state.reservations.planned))
        waiting = [f"w{at}" for at in range(6)]
        for pause, some in ((0.3, waiting[:3]), (0.0, waiting[3:])):
            for name in some:
                made = await rest("POST", JOBS, limited(world, name, 1, queue, "1m"))
                assert made.status == 201, made.body
                await asyncio.sleep(pause)
        for name in waiting:
            await world.event(names.EVENT_WAITING, name)
        async with asyncio.timeout(TIMEOUT):
            while len(service.state.reservations.planned) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert max(counts) == 2
        known = service.state.acceptances
        assert {known[gang.uid].submitter for gang in service.state.gangs.values()} == {"admin"}
        for gang in service.state.gangs.values():
            record = await store.acceptances.get(gang.uid)
            assert record is not None
            assert record.submitter == "admin"
