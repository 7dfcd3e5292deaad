"""HEAD is answered wherever GET is: the same status and headers, and no body."""

import pytest

from tests.unit.api.test_matrix import PUBLIC
from tests.unit.api.world import Answer, World, pytorch

_VARIES = ("X-Request-Id", "Date")


def told(answer: Answer) -> dict[str, str]:
    return {key: value for key, value in answer.headers.items() if key.title() not in _VARIES}


async def test_of_every_address(world: World) -> None:
    await world.admin("POST", "/apis/v1/admin/queues", {"name": "a100", "members": {"everyone": True}})
    await world.user("POST", "/apis/v1/workloads", pytorch())
    there = {"namespace": "default", "kind": "pytorchtrainingjob", "what": "scheduling", "pod": "p", "id": "n"}
    gets = [path for path, methods in world.app.openapi()["paths"].items() if "get" in methods]
    assert len(gets) > 15
    assert set(gets) >= PUBLIC - {"/docs"}
    for path in (*gets, "/docs", "/openapi.json"):
        name = "resnet" if "workloads" in path else "a100"
        address = path.format_map(there | {"name": name})
        for client in (world.admin, world.nobody):
            whole, head = await client("GET", address), await client("HEAD", address)
            if told(head) != told(whole):  # some say what time it is, to the second
                whole, head = await client("GET", address), await client("HEAD", address)
            assert (head.status, head.body) == (whole.status, b""), path
            if path != "/metrics":  # each request is counted there
                assert told(head) == told(whole), path


@pytest.mark.parametrize("path", ["/apis/v1/access-reviews", "/apis/v1/admin/queues/a100/actions/close"])
async def test_where_nothing_is_to_get_it_is_refused(world: World, path: str) -> None:
    refused = await world.admin("HEAD", path)
    assert (refused.status, refused.headers["Allow"], refused.body) == (405, "POST", b"")


async def test_a_refused_method_names_it_beside_get(world: World) -> None:
    assert set((await world.admin("PATCH", "/apis/v1/nodes")).headers["Allow"].split(", ")) == {"GET", "HEAD"}
