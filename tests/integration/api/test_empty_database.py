"""A scheduler with an empty database on a cluster in use: what runs goes on, and no user gets in by the loss."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from t9ksched.kube.resources import PODS, QUEUES
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.scheduler.keep.queue_sync import REVISION_ANNOTATION
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_preemption import PREEMPT
from tests.integration.world import World


@asynccontextmanager
async def with_new_database(world: World, path: Path, **options: Any) -> AsyncIterator[Store]:
    """A scheduler that remembers nothing."""
    async with await Store.open(f"sqlite:///{path}") as empty:
        await empty.tokens.ensure_admin()
        client = await world.account(SCHEDULER)
        async with running(
            SchedulerService(client, empty, internal_secret="s" * 20, options=SchedulerOptions(**options))
        ):
            yield empty


async def projected(world: World, name: str, revision: int) -> None:
    """The queue's object tells that revision."""

    def holds(item: dict[str, Any]) -> bool:
        told = (item["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION, "0")
        return int(told) >= revision

    await world.until(QUEUES, name, holds, names.SYSTEM_NAMESPACE)


async def submitted(world: World, store: Store, name: str, queue: str, by: str) -> None:
    """A pod that REST created for a user."""
    made = await world.create(world.pod(name, 1, queue=queue))
    row = Acceptance(uid=made["metadata"]["uid"], kind="Pod", namespace=world.namespace, name=name, queue=queue)
    await store.acceptances.put_many([replace(row, submitter=by)])


async def test_nothing_is_evicted_and_no_user_admitted(
    world: World, start: Start, store: Store, tmp_path: Path
) -> None:
    """Queues of low and high priority, full, with preemption on; a team's queue; and `default`, once shut."""
    low, high, team = (f"{world.run}-{name}" for name in ("low", "high", "team"))
    await world.play(1, 3)
    who = {"users": ["ann"]}
    await store.tokens.ensure_admin()
    for name, priority in ((low, 1), (high, 9), (team, 5)):
        await store.queues.create(name, {"k": "v"}, world.queue_spec | {"priority": priority}, who)
    shut = await store.queues.edit(names.DEFAULT_QUEUE, lambda old: (old.labels, world.queue_spec), members=who)
    async with start(policy=PREEMPT):
        for name, queue in (("low", low), ("team", team), ("default", names.DEFAULT_QUEUE)):
            await submitted(world, store, name, queue, "ann")
        await world.running("low", "team", "default")
        for name in (low, high, team, names.DEFAULT_QUEUE):
            await projected(world, name, shut.revision if name == names.DEFAULT_QUEUE else 1)
    before = await world.bound()
    assert len(before) == 3

    async with with_new_database(world, tmp_path / "empty.db", policy=PREEMPT) as empty:
        for name, queue in (("x-low", low), ("x-high", high), ("x-team", team), ("x-default", names.DEFAULT_QUEUE)):
            await world.create(world.pod(name, 1, queue=queue))
        for name in ("x-low", "x-high", "x-team", "x-default"):
            await world.event(names.EVENT_REFUSED, name)
        assert await world.bound() == before, "full, and no victim was evicted for the high queue"
        await world.client.delete(PODS, "low", world.namespace)
        await world.gone(PODS, "low")
        await world.create(world.pod("y-default", 1, queue=names.DEFAULT_QUEUE))
        await world.event(names.EVENT_REFUSED, "y-default")
        assert await world.bound() == {name: node for name, node in before.items() if name != "low"}
        for name in (low, high, team, names.DEFAULT_QUEUE):
            back = await _known(empty, name)
            assert (back.spec["nodeSelector"], back.members) == (world.queue_spec["nodeSelector"], {}), name
        assert (await _known(empty, high)).spec["priority"] == 9
        await empty.queues.set_members(names.DEFAULT_QUEUE, {"everyone": True})
        await _one_of(world, "x-default", "y-default")


async def test_a_first_start_leaves_default_open(world: World, start: Start, store: Store) -> None:
    await world.play(1, 1)
    await store.queues.edit(names.DEFAULT_QUEUE, lambda old: (old.labels, world.queue_spec))
    async with start():
        await world.create(world.pod("a", 1, queue=names.DEFAULT_QUEUE))
        await world.running("a")
    record = await _known(store, names.DEFAULT_QUEUE)
    assert record.members == {"everyone": True}
    async with start():
        await world.client.delete(PODS, "a", world.namespace)
        await world.create(world.pod("b", 1, queue=names.DEFAULT_QUEUE))
        await world.running("b")
    assert await _known(store, names.DEFAULT_QUEUE) == record


async def _known(store: Store, name: str) -> Any:
    record = await store.queues.get(name)
    assert record is not None, name
    return record


async def _one_of(world: World, *pods: str) -> None:
    """One of the pods gets the free card."""
    async with asyncio.timeout(90):
        while not set(pods) & (await world.bound()).keys():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
