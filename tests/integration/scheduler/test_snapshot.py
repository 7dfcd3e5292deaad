"""Snapshots of a live scheduler, replayed elsewhere."""

import msgspec

from t9ksched.engine.policy import Planning, Policy
from t9ksched.simulation.policies import named
from t9ksched.simulation.snapshot import load, play
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_planned_starts import asked, limited, timed, waits_for
from tests.integration.world import TIMEOUT, World

PLANS = Policy(planning=Planning(per_user=100, resolution_seconds=1))


async def test_a_snapshot_is_replayed_elsewhere(world: World, start: Start, queue: str) -> None:
    """As the leader gives it to REST."""
    await world.play(1, 4)
    async with start(policy=PLANS) as service:
        await world.create(limited(world, "first", 3, queue, "1h"))
        await world.running("first")
        await timed(service, world, "first")
        await world.create(limited(world, "large", 4, queue, "2h"))
        await waits_for(world, "large")
        known = load(msgspec.json.encode(await asked(service, "snapshot")), dict)
        assert sorted(known.expected.values()) == [7200]
        for policy in (None, named("fcfs")):
            (run,) = play(known, policy).runs
            assert run.job.cards == 4
            assert 3600 - TIMEOUT < run.started < 3630, "when the first job has ended by its limit"
