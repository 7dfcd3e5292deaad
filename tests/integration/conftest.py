"""Fixtures of everything that talks to a Kubernetes API; see `world` for where that is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from t9ksched.kube.transport.client import Client
from tests.integration.world import World, new_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with new_world(tmp_path) as world:
        yield world


@pytest.fixture
def client(world: World) -> Client:
    return world.client
