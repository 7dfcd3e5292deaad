"""A wall clock that is set while pods hold cards: their hours are what lasted."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from t9ksched.kube.resources import PODS
from t9ksched.store.history import BOUND, CLOCK_SET, RELEASED
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import TIMEOUT, World

DAY = 86_400


async def written(store: Store, event: str) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await store.history.list(event=event):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("days", [1, -1], ids=["forward", "back"])
async def test_hours_come_from_what_lasted(
    world: World, start: Start, queue: str, store: Store, days: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.play(1, 2)
    ahead = 0

    def wall() -> int:
        return time.time_ns() + ahead * 1_000_000_000

    async with start(clock=wall, steady=time.monotonic) as service:
        await world.create(world.pod("p", 2, queue=queue))
        await world.running("p")
        await written(store, BOUND)
        ahead = days * DAY
        await written(store, CLOCK_SET)
        ahead += 2 * days * DAY
        await world.client.delete(PODS, "p", world.namespace, grace=0)
        await written(store, RELEASED)
        assert b"t9ksched_clock_jumps_total 2" in await service.metrics()
    until = datetime.now(UTC) + timedelta(days=9)
    (total,) = (await store.usage.report(["queue"], since=None, until=until, now=until)).values()
    assert 0 < total.amount < timedelta(hours=2) // timedelta(microseconds=1)
    assert 0 <= total.held <= total.amount
    assert capsys.readouterr().out.count("the wall clock was set") == 2
