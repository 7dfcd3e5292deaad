"""Answers that did not change are not sent again, large ones travel compressed, and `/` leads to the pages."""

import gzip
from typing import Any

import pytest

from t9ksched.api.http.representation import LEAST, takes_gzip
from tests.unit.api.world import World

QUEUES = "/apis/v1/queues"


async def raw(world: World, path: str, **headers: str) -> tuple[int, Any, bytes]:
    """The answer as it travels: the client of the other tests unpacks it."""
    sent = {"Authorization": f"Bearer {world.user.token}"} | {
        key.replace("_", "-"): val for key, val in headers.items()
    }
    async with world.user.session.get(
        world.user.url + path, headers=sent, auto_decompress=False, allow_redirects=False
    ) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_an_answer_that_did_not_change_is_not_sent_again(world: World) -> None:
    _, headers, body = await raw(world, QUEUES)
    tag = headers["ETag"]
    assert tag.startswith('W/"')
    assert headers["Cache-Control"] == "private, no-cache"
    assert "Authorization" in headers["Vary"]
    for known in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
        again = await raw(world, QUEUES, If_None_Match=known)
        assert (again[0], again[1]["ETag"], again[2]) == (304, tag, b""), known
        assert "Content-Type" not in again[1]
    await world.store.queues.create("new", {}, {}, {"everyone": True})
    status, headers, changed = await raw(world, QUEUES, If_None_Match=tag)
    assert (status, headers["ETag"] != tag, changed != body) == (200, True, True)


async def test_an_answer_that_is_known_is_not_compressed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        await world.store.queues.create(f"queue-{number}", {}, {}, {"everyone": True})
    packed: list[int] = []

    def compress(body: bytes, *_: int, **__: int) -> bytes:
        packed.append(len(body))
        return b"packed"

    monkeypatch.setattr(gzip, "compress", compress)
    status, headers, body = await raw(world, QUEUES, Accept_Encoding="gzip")
    assert (status, body, len(packed)) == (200, b"packed", 1)
    again = await raw(world, QUEUES, Accept_Encoding="gzip", If_None_Match=headers["ETag"])
    assert (again[0], again[2], len(packed)) == (304, b"", 1)


async def test_a_revision_is_no_hash_of_what_is_shown(world: World) -> None:
    """What a queue holds changes without its revision."""
    await world.store.queues.create("a100", {}, {}, {})
    address = "/apis/v1/admin/queues/a100"
    tag = (await world.admin("GET", address)).headers["ETag"]
    world.leader.queue_status["a100"] = {"pods": 3}
    again = await world.admin("GET", address, If_None_Match=tag)
    assert (again.status, again.headers["ETag"], again.body["status"]["pods"]) == (200, tag, 3)


async def test_secrets_get_no_tag(world: World) -> None:
    made = await world.admin("POST", "/apis/v1/admin/tokens", {"name": "new"})
    assert (made.status, made.headers["Location"]) == (201, "/apis/v1/admin/tokens/new")
    assert (made.headers["Cache-Control"], "ETag" in made.headers) == ("no-store", False)


async def test_large_answers_are_compressed_for_those_who_take_it(world: World) -> None:
    for number in range(30):
        await world.store.queues.create(f"queue-{number}", {}, {}, {"everyone": True})
    _, plain, whole = await raw(world, QUEUES, Accept_Encoding="identity")
    assert ("Content-Encoding" in plain, len(whole) > LEAST) == (False, True)
    _, headers, packed = await raw(world, QUEUES, Accept_Encoding="br, gzip;q=0.5")
    assert headers["Content-Encoding"] == "gzip"
    assert int(headers["Content-Length"]) == len(packed) < len(whole) / 2
    assert (gzip.decompress(packed), headers["ETag"]) == (whole, plain["ETag"])
    _, small, _ = await raw(world, "/apis/v1/whoami", Accept_Encoding="gzip")
    assert "Content-Encoding" not in small


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [(b"", False), (b"gzip", True), (b"GZIP ; q=1", True), (b"gzip;q=0", False), (b"br,gzip", True), (b"*", False)],
)
def test_who_takes_gzip(accepted: bytes, taken: bool) -> None:
    assert takes_gzip(accepted) is taken


async def test_the_start_page_leads_to_the_documentation(world: World) -> None:
    status, headers, _ = await raw(world, "/")
    assert (status, headers["Location"]) == (307, "/docs")


async def test_both_addresses_tell_the_release(world: World) -> None:
    assert (await world.nobody("GET", "/apis/v1/version")).body == (await world.nobody("GET", "/version")).body


async def test_figures_need_a_token(world: World) -> None:
    assert (await world.nobody("GET", "/metrics")).status == 401
    assert (await world.user("GET", "/metrics")).status == 200
