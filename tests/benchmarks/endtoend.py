"""From pods in the API to pods running, through HTTP: the whole scheduler on the dev cluster, or on a real server.

    uv run python tests/benchmarks/endtoend.py --nodes 1000 --pods 5000 --gang 1

Everything runs in this one process, dev cluster included: `cpuSecondsPerPod` is an upper bound of our own share. Prints
one JSON object. The auditor reads the cluster's own objects afterwards; its findings belong to the result.
"""

import argparse
import asyncio
import json
import resource
import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from t9ksched.devcluster.agents import start
from t9ksched.devcluster.auditor import audit
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodefile import nodes_from
from t9ksched.kube.client import Client
from t9ksched.kube.config import connect
from t9ksched.kube.crds import ensure, read
from t9ksched.kube.resources import NODES, PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.packaged import folder
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store


def node_entries(count: int) -> list[dict[str, Any]]:
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return nodes_from({"nodes": [{"name": "bench", "count": count, "allocatable": allocatable}]})


def pod(index: int, gang: int) -> dict[str, Any]:
    labels = {names.QUEUE_LABEL: "default"}
    if gang > 1:
        labels[names.GROUP_LABEL] = f"g{index // gang}"
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{index}", "namespace": "default", "labels": labels},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container]},
    }


@asynccontextmanager
async def installed(client: Client) -> AsyncIterator[None]:
    await ensure(client, read(folder("crds")))
    yield


async def measure(nodes: int, pods: int, gang: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = DevCluster(None, node_entries(nodes))
        await cluster.start()
        agents = await start(cluster.port_api, ())
        kubeconfig = Path(folder) / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        try:
            async with (
                connect(kubeconfig) as client,
                installed(client),
                await Store.open(f"sqlite:///{folder}/store.db") as store,
                running(SchedulerService(client, store, internal_secret=secrets.token_hex())) as service,
            ):
                started, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
                groups = range(pods // gang) if gang > 1 else ()
                for index in groups:
                    group = {
                        "apiVersion": names.SCHEDULER_API,
                        "kind": "PodGroup",
                        "metadata": {"name": f"g{index}", "namespace": "default"},
                        "spec": {"minMember": gang, "queue": "default"},
                    }
                    await client.create(PODGROUPS, group, "default")
                limit = asyncio.Semaphore(32)

                async def create(index: int) -> None:
                    async with limit:
                        await client.create(PODS, pod(index, gang), "default")

                await asyncio.gather(*(create(index) for index in range(pods)))
                created = time.perf_counter()
                while True:
                    found = (await client.list(PODS, "default")).items
                    if sum(item["status"].get("phase") == "Running" for item in found) == pods:
                        break
                    if time.perf_counter() - created > 300:
                        raise TimeoutError("pods still wait after 300 s")
                    await asyncio.sleep(0.25)
                done, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
                report = audit((await client.list(NODES)).items, found, (await client.list(PODGROUPS)).items)
                spent = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
                return {
                    "nodes": nodes,
                    "pods": pods,
                    "gang": gang,
                    "seconds": round(done - started, 3),
                    "podsPerSecond": round(pods / (done - started), 1),
                    "cpuSecondsPerPod": round(spent / pods, 6),
                    "refused": service.executor.stats.refused,
                    "kubeletRefusals": len(agents.refusals),
                    "cardsGivenTwice": report.cards_given_twice,
                    "findings": len(report.findings),
                    "peakMiB": after.ru_maxrss // 1024,
                }
        finally:
            await agents.stop()
            await cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gang", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.nodes, options.pods, options.gang))))


if __name__ == "__main__":
    main()
