"""Fixtures of everything that talks to a Kubernetes API; see `world` for where that is."""

import sys
from collections.abc import AsyncIterator
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from t9ksched.kube.transport.client import Client
from t9ksched.scheduler.decide import plugins
from t9ksched.scheduler.keep import housekeeping
from t9ksched.scheduler.report import status
from tests.integration.world import World, new_world


class _Timers(AsyncIOScheduler):  # type: ignore[misc]
    """Deadlines are looked at often: a test need not wait five seconds for the look after its own deadline of one."""

    def add_job(self, *what: Any, seconds: float = 0, **options: Any) -> Any:
        """Set a timer."""
        return super().add_job(*what, seconds=min(seconds, _LOOK_SECONDS), **options)


_LOOK_SECONDS = 0.25


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scheduler does every few seconds it does several times a second; what is installed is read once."""
    monkeypatch.setattr(housekeeping, "AsyncIOScheduler", _Timers)
    monkeypatch.setattr(status, "GROUP_PERIOD", 0.1)
    monkeypatch.setattr(status, "QUEUE_PERIOD", 0.5)
    monkeypatch.setattr(plugins, "entry_points", lambda group: _installed(group, *sys.path))


@cache
def _installed(group: str, *path: str) -> EntryPoints:
    """The entry points of the packages on this path: reading all of them takes longer than starting a service."""
    return entry_points(group=group)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with new_world(tmp_path) as world:
        yield world


@pytest.fixture
def client(world: World) -> Client:
    return world.client
