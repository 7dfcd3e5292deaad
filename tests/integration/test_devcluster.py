"""The dev cluster as a process: its data directory, its port, its token."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.devcluster.apiserver.journal import DirectoryInUse
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube.errors import Expired
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.kube.transport.config import connect
from t9ksched.serving import PortInUse

pytestmark = pytest.mark.cluster

PROGRAM = """
import asyncio, sys
from pathlib import Path
from t9ksched.devcluster.cluster import DevCluster

async def main():
    cluster = DevCluster(Path(sys.argv[1]), [])
    await cluster.start()
    cluster.write_kubeconfig(Path(sys.argv[2]))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_killing_the_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(tmp_path / "data"), str(kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"ready\n"
    made: dict[str, str] = {}
    async with connect(kubeconfig) as client:
        for number in range(50):
            answer = await client.create(CONFIGMAPS, config(f"c{number}"), "default")
            made[answer["metadata"]["name"]] = answer["metadata"]["uid"]
        listed = await client.list(CONFIGMAPS, "default")
    process.send_signal(signal.SIGKILL)
    await process.wait()

    cluster = DevCluster(tmp_path / "data", [])
    await cluster.start()
    cluster.write_kubeconfig(kubeconfig)
    async with connect(kubeconfig) as client:
        again = await client.list(CONFIGMAPS, "default")
        assert {item["metadata"]["name"]: item["metadata"]["uid"] for item in again.items} == made
        assert [item["metadata"] for item in again.items] == [item["metadata"] for item in listed.items]
        assert int(again.resource_version) >= int(listed.resource_version)
        with pytest.raises(Expired):
            async for _ in client.watch(CONFIGMAPS, "default", resource_version="2"):
                pass
    await cluster.stop()


async def test_a_second_process_is_told(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path, [])
    await cluster.start()
    with pytest.raises(DirectoryInUse, match="another process"):
        await DevCluster(tmp_path, []).start()
    await cluster.stop()
    again = DevCluster(tmp_path, [])
    await again.start()
    assert again.token == cluster.token
    await again.stop()


async def test_a_port_in_use_is_told() -> None:
    cluster = DevCluster(None, [])
    await cluster.start()
    port = int(cluster.url.rpartition(":")[2])
    with pytest.raises(PortInUse, match=str(port)):
        await DevCluster(None, [], port=port).start()
    await cluster.stop()


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    made = DevCluster(None, [])
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/api/v1/pods", "Bearer {token}", 200),
        ("/as/{token}/api/v1/pods", None, 200),
        ("/as/wrong/api/v1/pods", None, 401),
        ("/api/v1/pods", "Bearer wrong", 401),
        ("/api/v1/pods", "Basic {token}", 401),
        ("/api/v1/pods", None, 403),
        ("/healthz", None, 200),
    ],
)
async def test_tokens(cluster: DevCluster, path: str, header: str | None, status: int) -> None:
    headers = {"Authorization": header.format(token=cluster.token)} if header else {}
    async with (
        aiohttp.ClientSession() as http,
        http.get(cluster.url + path.format(token=cluster.token), headers=headers) as r,
    ):
        assert r.status == status


async def test_the_kubeconfig_is_for_its_owner_only(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0


async def test_stopping_ends_open_watches(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    async with connect(tmp_path / "kubeconfig") as client:
        version = (await client.list(CONFIGMAPS)).resource_version
        await client.create(CONFIGMAPS, config("seen"), "default")
        watch = aiter(client.watch(CONFIGMAPS, resource_version=version))
        assert (await anext(watch)).type == "ADDED"
        rest = asyncio.ensure_future(anext(watch, None))
        async with asyncio.timeout(60):
            await cluster.stop()
            await asyncio.wait([rest])
        assert rest.exception() is not None or rest.result() is None


async def test_a_watch_ends_with_its_client(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    async with connect(tmp_path / "kubeconfig") as client:
        version = (await client.list(CONFIGMAPS)).resource_version
        await client.create(CONFIGMAPS, config("seen"), "default")
        assert (await anext(aiter(client.watch(CONFIGMAPS, resource_version=version)))).type == "ADDED"
        (served,) = cluster.frontend.requests.watches
    async with asyncio.timeout(90):
        await asyncio.wait([served])
