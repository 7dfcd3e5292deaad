"""How a history begins: an empty cluster with its agents, a database with its tables, and everything that watches."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import yaml

from t9ksched import packaged
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.crd import DEFINITIONS, Definitions
from t9ksched.devcluster.apiserver.gc import GarbageCollector
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.kube.resources import NAMESPACES
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.act import gang_timeouts as integrity
from t9ksched.scheduler.act import preemption, stopping
from t9ksched.scheduler.keep import late_starts
from t9ksched.store import schema
from tests.chaos.invariant_checker import InvariantChecker
from tests.chaos.repeat import START
from tests.chaos.world import World


@cache
def _crds() -> tuple[bytes, ...]:
    """Of every kind: the scheduler starts once it can follow them all."""
    files = sorted(packaged.folder("crds").glob("*.yaml"))
    return tuple(msgspec.json.encode(yaml.safe_load(file.read_text())) for file in files)


@cache
def _empty_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="t9ksched-chaos-"))
    schema.upgrade(f"sqlite:///{folder}/empty.db")
    return folder / "empty.db"


@contextlib.contextmanager
def _watched(world: World) -> Any:
    """The plans are audited, and the chosen victims are known."""
    originals = {module: module.evict for module in (preemption, integrity)}

    def telling(original: Any) -> Any:
        async def evict(port: Any, victim: Any, **options: Any) -> Any:
            world.checker.sets_out(victim.uid)
            return await original(port, victim, **options)

        return evict

    def ending(original: Any) -> Any:
        async def evict(port: Any, victim: Any, **options: Any) -> Any:
            world.checker.to_go.add(victim.uid)  # it is over its limit
            return await original(port, victim, **options)

        return evict

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch("t9ksched.scheduler.decide.loop.Planner", world.plans.planner))
        for keeper in (stopping, late_starts):
            stack.enter_context(patch.object(keeper, "evict", ending(keeper.evict)))
        for module, original in originals.items():
            stack.enter_context(patch.object(module, "evict", telling(original)))
        yield


@contextlib.asynccontextmanager
async def new_world(seed: int, folder: Path) -> AsyncIterator[World]:
    """An empty cluster with its agents at work; services begin by `World.begin`."""
    clock = asyncio.get_running_loop().time
    checker = InvariantChecker(lambda: START + clock())
    storage = Storage(checker)
    api = Api(storage, Registry())
    Definitions(api)
    collector = asyncio.create_task(GarbageCollector(api).run())
    for crd in _crds():
        api.create(DEFINITIONS, None, msgspec.json.decode(crd))
    shutil.copy(_empty_database(), folder / "store.db")
    world = World(api, checker, seed, folder)
    for name in ("default", SYSTEM_NAMESPACE):
        await world.port.create(NAMESPACES, {"metadata": {"name": name}})
    store = world.store()
    await store.queues.ensure_default()
    await store.close()
    checker.decided = world.plans.decided
    world.agents.begin()
    await world.agents.synced()
    with _watched(world):
        try:
            yield world
        finally:
            await world.stop()
            collector.cancel()
            await asyncio.gather(collector, return_exceptions=True)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()


__all__ = ["new_world"]
