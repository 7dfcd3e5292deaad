"""The columns of `kubectl get` for each built-in kind, as kube-apiserver 1.36 has them; `*` are those of `-o wide`."""

import json
from pathlib import Path

import aiohttp
import pytest

from t9ksched.kube.transport.config import credentials
from tests.integration.world import World

pytestmark = pytest.mark.cluster
COLUMNS = json.loads(Path(__file__).with_name("columns.json").read_text())
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_columns(world: World) -> None:
    user = credentials(world.kubeconfig)
    await user.open()
    headers = {"Accept": TABLE, "Authorization": await user.authorization() or ""}
    connector = aiohttp.TCPConnector(ssl=user.tls or True)
    found = {}
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        for path in COLUMNS:
            async with session.get(user.access.host + path, params={"limit": "1"}) as answer:
                heads = (await answer.json())["columnDefinitions"]
            found[path] = " | ".join(head["name"] + "*" * bool(head["priority"]) for head in heads)
    assert found == COLUMNS
