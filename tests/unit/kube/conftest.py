"""A scripted API server on loopback, and a client that speaks to it."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.credentials import Credentials
from tests.unit.kube.scripted import ScriptedApi


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    scripted = ScriptedApi()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", scripted.handle)
    server = TestServer(app)
    await server.start_server()
    scripted.url = str(server.make_url("")).rstrip("/")
    yield scripted
    await server.close()


@pytest.fixture
async def client(api: ScriptedApi) -> AsyncIterator[Client]:
    async with Client(Credentials.fixed(api.url, "secret"), timeout=60.0) as opened:
        yield opened
