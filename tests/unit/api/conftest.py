"""The service as a client meets it: over HTTP on loopback, on a real database."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from api import Services, create_app
from api.server import Server, listen
from t9ksched.store import Store
from tests.unit.api.world import Client, MemoryCluster, ScriptedLeader, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    kube, leader = MemoryCluster(), ScriptedLeader()
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store, aiohttp.ClientSession() as session:
        app = create_app(Services(store, kube, leader, max_body_bytes=64 * 1024))
        async with Server(app, listen("127.0.0.1", 0)) as server:
            admin = await store.tokens.ensure_admin()
            user = await store.tokens.create("ann-laptop", "user", owner="ann")
            assert admin is not None
            clients = [Client(server.url, session, token) for token in (admin, user, None)]
            yield World(store, kube, leader, *clients, app, [admin, user])
