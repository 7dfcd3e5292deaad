"""The columns of `kubectl get` for each built-in kind, as kube-apiserver 1.36 has them; `*` are those of `-o wide`."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.kube.resources import PVCS, PVS
from t9ksched.kube.transport.config import credentials
from tests.integration.world import World

pytestmark = pytest.mark.cluster
COLUMNS = json.loads(Path(__file__).with_name("columns.json").read_text())
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Tables:
    """What `kubectl get` asks for."""

    def __init__(self, session: aiohttp.ClientSession, host: str) -> None:
        self._session = session
        self._host = host

    async def read(self, path: str, **params: str) -> Any:
        async with self._session.get(self._host + path, params=params) as answer:
            return await answer.json()


@pytest.fixture
async def tables(world: World) -> AsyncIterator[Tables]:
    user = credentials(world.kubeconfig)
    await user.open()
    headers = {"Accept": TABLE, "Authorization": await user.authorization() or ""}
    connector = aiohttp.TCPConnector(ssl=user.tls or True)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield Tables(session, user.access.host)


async def test_columns(tables: Tables) -> None:
    found = {}
    for path in COLUMNS:
        heads = (await tables.read(path, limit="1"))["columnDefinitions"]
        found[path] = " | ".join(head["name"] + "*" * bool(head["priority"]) for head in heads)
    assert found == COLUMNS


async def test_claims_and_volumes_that_are_being_deleted_are_shown_so(world: World, tables: Tables) -> None:
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"{world.run}-one"}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}}
    kept = ["example.com/kept"]
    meta = {"name": f"{world.run}-one", "finalizers": kept}
    await world.create_shared(PVS, {"metadata": meta, "spec": common | volume})
    await world.client.create(PVCS, {"metadata": meta, "spec": common | claim}, world.namespace)
    for res, own in ((PVS, "pv-protection"), (PVCS, "pvc-protection")):
        there = await world.client.get(res, meta["name"], world.namespace)
        assert there["metadata"]["finalizers"] == [*kept, f"kubernetes.io/{own}"]
        await world.client.delete(res, meta["name"], world.namespace)
        table = await tables.read(res.path(world.namespace), fieldSelector=f"metadata.name={meta['name']}")
        column = [head["name"] for head in table["columnDefinitions"]].index("Status")
        assert [row["cells"][column] for row in table["rows"]] == ["Terminating"]
