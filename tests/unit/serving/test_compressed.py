"""Compressed bodies: a small one may unpack to gigabytes, so none of our servers unpacks any."""

import gzip
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

import t9ksched
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.serving import ConnectionLimits, listen
from t9ksched.serving.aiohttp_site import AcceptingSite, app_runner, handler_runner, read_body

BOMB = gzip.compress(b"a" * 1_000_000)


async def _length(request: web.BaseRequest) -> web.Response:
    return web.Response(text=str(len(await read_body(request))))


@pytest.mark.parametrize("kind", ["application", "handler"])
async def test_a_body_stays_as_it_was_sent(kind: str) -> None:
    app = web.Application()
    app.add_routes([web.post("/", _length)])
    runner: web.BaseRunner = app_runner(app) if kind == "application" else handler_runner(_length, 8190)
    await runner.setup()
    site = AcceptingSite(runner, listen("127.0.0.1", 0), ConnectionLimits(), "t")
    await site.start()
    try:
        headers = {"Content-Encoding": "gzip"}
        async with aiohttp.ClientSession() as session, session.post(site.name, data=BOMB, headers=headers) as answer:
            assert (answer.status, await answer.text()) == (200, str(len(BOMB)))
    finally:
        await runner.cleanup()


def test_all_servers_are_made_in_one_place() -> None:
    root = Path(t9ksched.__file__).parent
    makers = {path.name for path in root.rglob("*.py") if any(f"web.{made}(" in path.read_text() for made in MADE)}
    assert makers == {"aiohttp_site.py"}


MADE = ("AppRunner", "Server", "ServerRunner", "run_app")


@pytest.mark.parametrize("body", [BOMB, b"{}", gzip.compress(b"{}")], ids=["bomb", "not compressed", "compressed"])
@pytest.mark.parametrize("token", [True, False])
async def test_the_dev_cluster_says_that_it_cannot_read_it(body: bytes, token: bool) -> None:
    """As a kube-apiserver does, which reads no `Content-Encoding` of requests."""
    cluster = DevCluster(None, [])
    await cluster.start()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    headers |= {"Authorization": f"Bearer {cluster.token}"} if token else {}
    try:
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{cluster.url}/api/v1/namespaces/default/pods", data=body) as answer,
        ):
            told = await answer.json()
        assert (answer.status, told["kind"]) == (403 if not token else 422 if body == b"{}" else 400, "Status")
    finally:
        await cluster.stop()
