"""Bodies that the dev cluster waits for, and the requests that a connection of the reserve may bring."""

import asyncio
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from t9ksched.devcluster.apiserver.auth import MASTERS, User
from t9ksched.devcluster.apiserver.intake import RESERVED, check_reserve
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.serving import aiohttp_site


async def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohttp_site, "BODY_SECONDS", 0.05)
    cluster = DevCluster(None, [])
    await cluster.start()
    ended = False

    async def pieces() -> Any:
        while not ended:
            yield b" "
            await asyncio.sleep(0.001)

    try:
        headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{cluster.url}/api/v1/namespaces/default/pods", data=pieces()) as answer,
        ):
            ended = True
            told = await answer.json()
        assert (answer.status, told["kind"], told["reason"]) == (408, "Status", "Timeout")
    finally:
        await cluster.stop()


@pytest.mark.parametrize(
    ("reserved", "path", "groups", "refused"),
    [
        (False, "/api/v1/pods", (), False),
        (True, "/api/v1/pods", (), True),
        (True, "/healthz", (), False),
        (True, "/api/v1/pods", (MASTERS,), False),
    ],
)
def test_the_reserve_is_for_health_and_administrators(
    reserved: bool, path: str, groups: tuple[str, ...], refused: bool
) -> None:
    request = cast(web.BaseRequest, {RESERVED: reserved})
    if not refused:
        check_reserve(request, path, User("x", groups))
        return
    with pytest.raises(StatusError) as error:
        check_reserve(request, path, User("x", groups))
    assert (error.value.code, error.value.retry_after) == (429, 1)
