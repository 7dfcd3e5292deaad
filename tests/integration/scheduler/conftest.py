"""The scheduler over a real store, on the world's cluster."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from tests.integration.world import World

Start = Callable[..., AbstractAsyncContextManager[SchedulerService]]


@pytest.fixture
async def store(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Store]:
    path = shutil.copy(sqlite_template, tmp_path / "store.db")
    async with await Store.open(f"sqlite:///{path}", migrate=False) as store:
        yield store


@pytest.fixture
def start(world: World, store: Store) -> Start:
    """Starts a scheduler; a second one after the first has stopped is a restart."""

    @asynccontextmanager
    async def run(**given: Any) -> AsyncIterator[SchedulerService]:
        clocks = {name: given.pop(name) for name in ("clock", "steady") if name in given}
        client = world.faulty(await world.account(SCHEDULER))
        async with running(
            SchedulerService(client, store, internal_secret="s" * 20, options=SchedulerOptions(**given), **clocks)
        ) as service:
            yield service

    return run


@pytest.fixture
async def queue(world: World, store: Store) -> str:
    """A queue over this test's nodes."""
    await store.queues.create(f"{world.run}-q", {}, world.queue_spec, {"everyone": True})
    return f"{world.run}-q"
