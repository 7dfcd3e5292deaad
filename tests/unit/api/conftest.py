"""The service as a client meets it: over HTTP on loopback, on a real database."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import aiohttp
import pytest
import structlog
from fastapi import FastAPI

from api import Services, create_app
from api.http.server import Server, listen
from t9ksched.store import Store
from tests.unit.api.world import Client, MemoryCluster, ScriptedLeader, World


@pytest.fixture(scope="session", autouse=True)
def plain_tracebacks() -> Iterator[None]:
    """By default a traceback is drawn with the values of all variables, which takes seconds."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, plain])
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """The routes, built once: FastAPI takes longer for that than a test does."""
    return create_app(cast(Services, None))


@pytest.fixture
async def world(tmp_path: Path, sqlite_template: Path, app: FastAPI) -> AsyncIterator[World]:
    kube, leader = MemoryCluster(), ScriptedLeader()
    path = shutil.copy(sqlite_template, tmp_path / "store.db")
    async with await Store.open(f"sqlite:///{path}", migrate=False) as store, aiohttp.ClientSession() as session:
        app.state.services = Services(store, kube, leader, max_body_bytes=64 * 1024)
        async with Server(app, listen("127.0.0.1", 0)) as server:
            admin = await store.tokens.ensure_admin()
            user = await store.tokens.create("ann-laptop", "user", owner="ann")
            assert admin is not None
            clients = [Client(server.url, session, token) for token in (admin, user, None)]
            yield World(store, kube, leader, *clients, app, [admin, user])
