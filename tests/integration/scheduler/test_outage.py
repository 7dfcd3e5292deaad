"""A database that is away when the scheduler starts: what runs is left alone, what is new waits until it is read."""

import asyncio
import shutil
from pathlib import Path

from t9ksched.kube.resources import QUEUES
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store import Store
from t9ksched.store.database import Database
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World


async def test_a_start_without_the_database_starts_nothing_until_it_could_be_read(
    world: World, start: Start, queue: str, store: Store, tmp_path: Path
) -> None:
    await world.play(1, 4)
    async with start():
        await world.create(world.pod("old", 1, queue=queue))
        (before,) = await world.running("old")
        shown = await world.until(QUEUES, queue, lambda one: one.get("status"), names.SYSTEM_NAMESPACE)
    await store.close()
    here, ready = tmp_path / "here", tmp_path / "ready"
    ready.mkdir()
    shutil.copy(tmp_path / "store.db", ready / "store.db")
    late = Store(Database(f"sqlite:///{here}/store.db"))
    client = world.faulty(await world.account(SCHEDULER))
    async with running(SchedulerService(client, late, internal_secret="s" * 20)) as service:
        assert service.state.outage.away
        await world.create(world.pod("new", 1, queue=queue))
        event = await world.event(names.EVENT_WAITING, "new")
        assert "the database has not answered" in event["message"]
        assert set(await world.bound()) == {"old"}
        kept = await world.client.get(QUEUES, queue, names.SYSTEM_NAMESPACE)
        assert kept["metadata"]["uid"] == shown["metadata"]["uid"]
        edit = {"spec": {"priority": 7}}
        await world.client.patch(QUEUES, queue, names.SYSTEM_NAMESPACE, edit)
        ready.rename(here)
        await world.running("new")
        async with asyncio.timeout(90):
            while service.state.outage.away:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        (after,) = await world.running("old")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        async with asyncio.timeout(90):
            while not {"old", "new"} <= {one.name for one in await late.acceptances.all()}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        event = await world.event(names.EVENT_QUEUE_EDITED_OUTSIDE, queue, names.SYSTEM_NAMESPACE)
        assert event["type"] == "Normal"
        record = await late.queues.get(queue)
        assert record is not None
        assert record.spec["priority"] == 7
    await late.close()
