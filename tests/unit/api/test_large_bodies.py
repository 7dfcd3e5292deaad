"""A client that sends a body that is not read to its end gets the answer, not a reset connection."""

import asyncio
import urllib.error
import urllib.request

import pytest

from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from tests.unit.api.world import World

JOBS = "/apis/v1/workloads"
LARGE = b"x" * (16 << 20)


@pytest.mark.parametrize(
    ("known", "code"), [(True, "Malformed"), (False, "Unauthenticated")], ids=["too large", "who is it"]
)
async def test_the_command_line_tells_why(world: World, known: bool, code: str) -> None:
    client = Client.at(world.user.url, (world.user.token or "") if known else "wrong")
    with pytest.raises(Failure) as failure:
        await asyncio.to_thread(client.call, "POST", JOBS, raw=LARGE, content_type="application/yaml")
    assert failure.value.name == code, failure.value.message


async def test_who_waits_for_the_word_to_go_on_is_answered_at_once(world: World) -> None:
    host, _, port = world.user.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {JOBS} HTTP/1.1\r\nHost: t\r\nContent-Length: {len(LARGE)}\r\nExpect: 100-continue\r\n"
    writer.write(f"{head}Authorization: Bearer {world.user.token}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()
    await writer.wait_closed()


async def test_a_body_in_chunks(world: World) -> None:
    def send() -> int:
        headers = {"Authorization": f"Bearer {world.user.token}", "Content-Type": "application/yaml"}
        chunks = (b"x" * 65536 for _ in range(256))
        request = urllib.request.Request(world.user.url + JOBS, data=chunks, headers=headers, method="POST")
        try:
            urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        raise AssertionError

    assert await asyncio.to_thread(send) == 413
