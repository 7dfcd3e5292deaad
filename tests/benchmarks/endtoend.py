"""From pods waiting in the API to pods running, through HTTP: the whole scheduler on a dev cluster in its own process.

    uv run python tests/benchmarks/endtoend.py --nodes 1000 --pods 5000 --gang 1

The cluster (API, simulated kubelets, auditor) runs in a child process; this process is the scheduler alone, so
`cpuMillisecondsPerPod` is our own CPU per bound pod: reading, deciding, charging, binding, history, status and events.
Pods are created before the clock starts. Prints one JSON object; the findings of the auditor belong to the result.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import secrets
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from t9ksched.devcluster.agents import start
from t9ksched.devcluster.audit.auditor import audit
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.resources import NODES, PODGROUPS, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store

TIMEOUT = 600


def serve(kubeconfig: Path, nodes: int, up: Event, done: Event) -> None:
    """The child: a dev cluster with simulated nodes, until `done`."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    entry = {"name": "bench", "count": nodes, "allocatable": allocatable}

    async def main() -> None:
        cluster = DevCluster(None, nodes_from({"nodes": [entry]}))
        await cluster.start()
        agents = await start(cluster.port_api, ())
        cluster.write_kubeconfig(kubeconfig)
        up.set()
        await asyncio.to_thread(done.wait)
        await agents.stop()
        await cluster.stop()

    asyncio.run(main())


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


def group(index: int, gang: int) -> dict[str, Any]:
    return {
        "apiVersion": names.SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": {"name": f"g{index}", "namespace": "default"},
        "spec": {"minMember": gang, "queue": "default"},
    }


async def fill(client: Client, pods: int, gang: int) -> None:
    limit = asyncio.Semaphore(32)

    async def create(res: Any, obj: dict[str, Any]) -> None:
        async with limit:
            await client.create(res, obj, "default")

    groups = range(pods // gang) if gang > 1 else ()
    await asyncio.gather(*(create(PODGROUPS, group(index, gang)) for index in groups))
    await asyncio.gather(*(create(PODS, pod(index, gang)) for index in range(pods)))


async def until(holds: Callable[[], bool]) -> None:
    """Look now and then; the looking must cost nothing beside what is measured."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(kubeconfig: Path, folder: str, nodes: int, pods: int, gang: int) -> dict[str, Any]:
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        await fill(client, pods, gang)
        service = SchedulerService(client, store, internal_secret=secrets.token_hex())
        started, spent = time.perf_counter(), cpu()
        async with running(service), asyncio.timeout(TIMEOUT):
            ready = time.perf_counter()
            await until(lambda: service.executor.stats.bound == pods)
            bound, spent = time.perf_counter(), cpu() - spent
            await until(lambda: service.state.counts.pods["default"]["Running"] == pods)
            ran = time.perf_counter()
            refused, cycles = service.executor.stats.refused, service.loop.stats.cycles
        found = [(await client.list(res)).items for res in (NODES, PODS, PODGROUPS)]
    report = audit(*found)
    return {
        "nodes": nodes,
        "pods": pods,
        "gang": gang,
        "startSeconds": round(ready - started, 3),
        "bindSeconds": round(bound - ready, 3),
        "podsBoundPerSecond": round(pods / (bound - ready), 1),
        "runningSeconds": round(ran - started, 3),
        "cpuMillisecondsPerPod": round(1000 * spent / pods, 3),
        "cycles": cycles,
        "refused": refused,
        "cardsGivenTwice": report.cards_given_twice,
        "findings": len(report.findings),
        "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gang", type=int, default=1, help="members of a gang; 1 means single pods")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    up, done = context.Event(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        child = context.Process(target=serve, args=(kubeconfig, options.nodes, up, done))
        child.start()
        try:
            up.wait(TIMEOUT)
            result = asyncio.run(measure(kubeconfig, folder, options.nodes, options.pods, options.gang))
        finally:
            done.set()
            child.join(10)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
