"""The service as a client meets it: over HTTP on loopback, on a real database."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import aiohttp
import pytest
import structlog
from fastapi import FastAPI

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
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


@pytest.fixture(scope="session")
def filled_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A database as a service has it after its first start, with the administrator's token and that of a user."""
    path = Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("template") / "store.db"))

    async def fill() -> tuple[str, str]:
        async with await Store.open(f"sqlite:///{path}", migrate=False) as store:
            admin = await store.tokens.ensure_admin()
            assert admin is not None
            return admin, await store.tokens.create("ann-laptop", "user", owner="ann")

    with ThreadPoolExecutor(1) as aside:  # the tests' own event loop stays as it is
        return (path, *aside.submit(asyncio.run, fill()).result())


@pytest.fixture
async def world(tmp_path: Path, filled_template: tuple[Path, str, str], app: FastAPI) -> AsyncIterator[World]:
    kube, leader = MemoryCluster(), ScriptedLeader()
    template, admin, user = filled_template
    path = shutil.copy(template, tmp_path / "store.db")
    async with await Store.open(f"sqlite:///{path}", migrate=False) as store, aiohttp.ClientSession() as session:
        app.state.services = Services(store, kube, leader, max_body_bytes=64 * 1024)
        async with Server(app, listen("127.0.0.1", 0)) as server:
            clients = [Client(server.url, session, token) for token in (admin, user, None)]
            yield World(store, kube, leader, *clients, app, [admin, user])
