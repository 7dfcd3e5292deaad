"""What the leader tells replicas of REST before it knows its cluster."""

import asyncio
from unittest.mock import Mock

import aiohttp
import pytest

from t9ksched.scheduler.serve.internal import InternalServer

SECRET = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize("what", ["jobs", "nodes", "timeline", "queues", "jobs/ns/pod/p", "names"])
async def test_nothing_is_told_of_a_cluster_that_is_read_in_part(what: str) -> None:
    server = InternalServer(Mock(), "secret", ("127.0.0.1", 0), asyncio.Event())
    await server.start()
    try:
        async with aiohttp.ClientSession(server.address) as session:
            async with session.get(f"/internal/v1/{what}", headers=SECRET) as answer:
                assert (answer.status, await answer.json()) == (
                    503,
                    {"error": "this scheduler has not read its cluster yet"},
                )
            async with session.get(f"/internal/v1/{what}") as answer:
                assert answer.status == 401
            async with session.get("/healthz") as answer:
                assert answer.status == 200
    finally:
        await server.stop()
