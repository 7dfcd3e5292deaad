"""Refusals without HTTP's library: only of requests that leave no doubt, and with the same answer."""

import asyncio
from dataclasses import replace

import pytest

from t9ksched.api.http.shedding import secret_of
from tests.unit.api.test_floods import LIST, OTHER, Held
from tests.unit.api.world import World

HOST = b"Host: t\r\n"
GET = b"GET /apis/v1/queues HTTP/1.1\r\n" + HOST
POST = b"POST /apis/v1/workloads HTTP/1.1\r\n" + HOST


@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (GET + b"\r\n", ""),
        (GET + b"Authorization: Bearer abc\r\n\r\n", "abc"),
        (GET + b"authorization:Bearer  abc \r\nAccept: */*\r\n\r\n", "abc"),
        (POST + b"Content-Length: 2\r\n\r\n{}", ""),
        (POST + b"content-length: 0\r\n\r\n", ""),
        (b"GET /apis/v1/workloads?queue=a&limit=5 HTTP/1.1\r\n" + HOST + b"\r\n", ""),
    ],
)
def test_a_plain_request_is_read(data: bytes, secret: str) -> None:
    assert secret_of(data) == secret


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GET,
        GET + b"\r\nG",
        GET + b"\r\n" + GET + b"\r\n",
        GET + b"\n\r\n",
        b"\r\n" + GET + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /apis/%2e%2e/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET http://t/apis/v1/queues HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /apis/v1/queues HTTP/1.0\r\n" + HOST + b"\r\n",
        b"HEAD /apis/v1/queues HTTP/1.1\r\n" + HOST + b"\r\n",
        b"get /apis/v1/queues HTTP/1.1\r\n" + HOST + b"\r\n",
        GET + b"Connection: close\r\n\r\n",
        GET + b"Expect: 100-continue\r\n\r\n",
        GET + b"X: a\r\n b\r\n\r\n",
        GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        GET + b"Authorization: Bearer a b\r\n\r\n",
        GET + b"Authorization: Bearer \xff\r\n\r\n",
        POST + b"Content-Length: 3\r\n\r\n{}",
        POST + b"Content-Length: 1\r\n\r\n{}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Content-Length : 2\r\n\r\n{}",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_whatever_leaves_a_doubt_goes_its_usual_way(data: bytes) -> None:
    assert secret_of(data) is None


@pytest.fixture
def held(world: World, monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr("t9ksched.serving.overload.WAIT_SECONDS", 30.0)
    services = replace(world.app.state.services, max_requests_at_once=4)
    world.app.state.services = services
    return Held(world, monkeypatch)


async def test_both_ways_give_the_same_answer(world: World, held: Held) -> None:
    """One connection is refused again and again, by bytes that are plain and by some that are not, then served."""
    await world.user("GET", OTHER)
    flood = [asyncio.create_task(world.user("GET", LIST)) for _ in range(7)]
    await held.until(3)
    limiter = world.app.state.services.limiter
    async with asyncio.timeout(90):
        while limiter.waiting < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    host, _, port = world.user.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    token = f"Authorization: Bearer {world.tokens[1]}\r\n".encode()
    told = []
    for odd in (b"", b"Expect: nothing\r\n", b"", b"Upgrade: no\r\n"):
        writer.write(GET + token + odd + b"\r\n")
        told.append(await answer(reader))
    assert [status for status, _, _ in told] == [told[0][0]] * 4
    assert told[0][0].split()[1] in (b"429", b"503")
    assert all(headers.keys() == told[0][1].keys() for _, headers, _ in told), told
    assert all(body == told[0][2] for _, _, body in told)
    assert len({headers[b"x-request-id"] for _, headers, _ in told}) == 4
    held.go.set()
    await asyncio.gather(*flood)
    writer.write(GET + token + b"\r\n")
    assert (await answer(reader))[0].split()[1] == b"200"
    writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Status line, headers and body of the next answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head[1:] if line)}
    headers.pop(b"date", None)
    headers.pop(b"server", None)
    return head[0], headers, await reader.readexactly(int(headers[b"content-length"]))
