"""A job submitted right after its queue was made is never told that the queue does not exist."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.resources import EVENTS
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

pytestmark = pytest.mark.cluster


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    sqlite = request.param == "sqlite"
    address = f"sqlite:///{tmp_path}/store.db" if sqlite else str(request.getfixturevalue("postgres_with_tables"))
    async with await Store.open(address) as store:
        yield store


async def told(world: World, store: Store) -> list[Any]:
    """All that was said of a queue that does not exist."""
    events = (await world.client.list(EVENTS, world.namespace)).items
    lines = [event.detail for event in await store.history.list(limit=1000)]
    return [said for said in [*(event["message"] for event in events), *lines] if "does not exist" in str(said)]


async def test_a_job_right_after_its_queue(
    world: World, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the change log is never looked at."""

    async def never(*_: Any, **__: Any) -> bool:
        await asyncio.Event().wait()
        return False

    await world.play(1, 8)
    monkeypatch.setattr(store.changes, "wait", never)
    async with start():
        for name in ("one", "two"):
            queue = f"{world.run}-{name}"
            await store.queues.create(queue, {}, world.queue_spec, {"everyone": True})
            await world.create(world.group(name, 1, queue), world.pod(f"{name}-0", 1, group=name))
            await world.create(world.pod(f"{name}-alone", 1, queue=queue))
        await world.running("one-0", "one-alone", "two-0", "two-alone")
        assert not await told(world, store)
        await world.create(world.pod("lost", 1, queue=f"{world.run}-three"))
        assert "does not exist" in (await world.event("Waiting", "lost"))["message"], "this one is not there"
