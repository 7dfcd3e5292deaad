"""The dev cluster as a process: its data directory, its port, its token, and a life through kubectl."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.devcluster.cluster import DevCluster, PortInUse
from t9ksched.devcluster.journal import DirectoryInUse
from t9ksched.kube.config import connect
from t9ksched.kube.errors import Expired
from t9ksched.kube.resources import CONFIGMAPS

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
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
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
        async with asyncio.timeout(10):
            await cluster.stop()
            await asyncio.wait([rest])
        assert rest.exception() is not None or rest.result() is None


async def test_a_watch_ends_with_its_client(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    async with connect(tmp_path / "kubeconfig") as client:
        version = (await client.list(CONFIGMAPS)).resource_version
        await client.create(CONFIGMAPS, config("seen"), "default")
        assert (await anext(aiter(client.watch(CONFIGMAPS, resource_version=version)))).type == "ADDED"
        (served,) = cluster.frontend.watches
    async with asyncio.timeout(20):
        await asyncio.wait([served])


MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: main, image: "nginx:1"}]}
---
apiVersion: scheduler.tensorstack.dev/v1beta1
kind: Queue
metadata: {name: team, namespace: t9k-system}
spec: {priority: 20, quota: {requests: {cpu: "8"}}}
"""
KUBECTL = [  # command, what it prints
    ("apply -f {file}", "created"),
    ("apply -f {file}", "unchanged"),
    ("apply --server-side --force-conflicts -f {file}", "serverside-applied"),
    ("get pods -o wide", "READINESS GATES"),
    ("get q -n t9k-system", "PRIORITY"),
    ("get pods -l app=web -o name", "pod/web"),
    ("get pods -l app!=web -o name", ""),
    ("get pods --field-selector spec.nodeName= -o name", "pod/web"),
    ("describe pod web", "nginx:1"),
    ("describe queue team -n t9k-system", "Priority:  20"),
    ("explain queue.spec.quota", "How much the queue may hold at once"),
    ("explain pod.spec.nodeSelector", "nodeSelector"),
    ("label pod web tier=front", "labeled"),
    ("annotate pod web k=v", "annotated"),
    ("patch queue team -n t9k-system --type merge -p {patch}", "patched"),
    ("get queue team -n t9k-system -o jsonpath={{.spec.priority}}", "30"),
    ("create -f {other}", "configmap/made created"),
    ("create namespace fresh", "namespace/fresh created"),
    ("create configmap flags --from-literal a=b -n fresh", "configmap/flags created"),
    ("get configmap flags -n fresh -o jsonpath={{.data.a}}", "b"),
    ("auth can-i create pods", "yes"),
    ("get -w --request-timeout 1 configmap made", "made"),
    ("api-resources", "queues"),
    ("delete -f {file}", "deleted"),
    ("get pods -o name", ""),
]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_a_day_with_kubectl(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    (tmp_path / "file.yaml").write_text(MANIFEST)
    (tmp_path / "other.json").write_text(json.dumps(config("made")))
    words = {
        "file": tmp_path / "file.yaml",
        "other": tmp_path / "other.json",
        "patch": '{"spec":{"priority":30}}',
    }
    for command, printed in KUBECTL:
        arguments = [part.format(**words) for part in command.split()]
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            env={
                "KUBECONFIG": str(tmp_path / "kubeconfig"),
                "HOME": str(tmp_path),
                "PATH": "/usr/bin:/bin:/usr/local/bin",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0 or "-w" in arguments, f"{command}: {err.decode()}"
        assert printed in out.decode(), f"{command}: {out.decode()}{err.decode()}"
        assert printed or not out.strip(), f"{command}: {out.decode()}"
