"""A scheduler starts on a cluster in use: from nothing to its first binding.

    uv run python tests/benchmarks/restart.py --nodes 5000 --pods 140000

The cluster (a dev cluster with its objects put straight into its storage) runs in a child process; this process is the
scheduler alone. All pods but one run; the clock starts with the scheduler and stops when the waiting one is bound.
`longestBlockMilliseconds` is the longest time that the event loop was held until then, `…Settling…` afterwards, while
what was found is written down. Then the scheduler idles: its CPU, its requests, and the longest block while the metrics
page is read. Requests are those that the API server answered, by method and status; a watch is one.
Prints one JSON object.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import secrets
import tempfile
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import aiohttp

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.port import answers_of
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store

TIMEOUT = 900
CARDS = names.GPU_INDEX_PREFIX + "main"
CARDS_A_NODE = 7
"""Of eight, so that one is left for the pod that waits."""


def serve(kubeconfig: Path, nodes: int, pods: int, up: Event, done: Event) -> None:
    """The child: a dev cluster whose pods run already, and one that waits, until `done`."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    entry = {"name": "bench", "count": nodes, "allocatable": allocatable}

    async def main(arguments: list[str] | None = None) -> None:
        cluster = DevCluster(None, nodes_from({"nodes": [entry]}), controllers=False)
        await cluster.start()
        kind = cluster.api.kind("", "v1", "pods")
        for index in range(pods + 1):
            waits, layer = index == pods, index // nodes
            made = cluster.api.create(kind, "default", pod(index, cards=waits or layer < CARDS_A_NODE))
            if not waits:
                cluster.api.write(kind, made, running_pod(made.object, f"bench-{index % nodes}", layer))
            if index % 1000 == 0:
                await asyncio.sleep(0)
        cluster.api.storage.compact()
        cluster.write_kubeconfig(kubeconfig)
        up.set()
        await asyncio.to_thread(done.wait)
        await cluster.stop()

    asyncio.run(main())


def pod(index: int, *, cards: bool) -> dict[str, Any]:
    """A pod of ours that waits for a node."""
    amounts = {"cpu": "1", "memory": "4Gi"} | ({"nvidia.com/gpu": "1"} if cards else {})
    container = {
        "name": "main",
        "image": "registry.example/training:1",
        "command": ["python", "train.py"],
        "env": [{"name": "RANK", "value": str(index)}, {"name": "WORLD_SIZE", "value": "8"}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    metadata: dict[str, Any] = {
        "name": f"p{index}",
        "namespace": "default",
        "labels": {names.QUEUE_LABEL: "default", "app": "bench"},
    }
    spec: dict[str, Any] = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def running_pod(waiting: dict[str, Any], node: str, layer: int) -> dict[str, Any]:
    """The pod after its binding, which named its card, and its start."""
    cards = {"annotations": {CARDS: str(layer)}} if layer < CARDS_A_NODE else {}
    scheduled = {"type": "PodScheduled", "status": "True"}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [scheduled]}
    return {
        **waiting,
        "metadata": waiting["metadata"] | cards,
        "spec": waiting["spec"] | {"nodeName": node},
        "status": status,
    }


class LoopWatch:
    """Measures how long the event loop is held at most, from `start` to `stop`; costs CPU itself.

    In seconds of this thread's own CPU time, so that other programs of a busy machine do not count.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.longest = 0.0
        self._task = asyncio.create_task(self._tick())

    def stop(self) -> float:
        if self._task is not None:
            self._task.cancel()
        return self.longest

    async def _tick(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.thread_time() - before)


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rss() -> int:
    """MiB that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def requests(client: Client) -> Counter[str]:
    """Requests so far, by method and status."""
    return Counter({f"{method} {code}": count for (method, code), count in answers_of(client).items()})


async def settled(service: SchedulerService, watch: LoopWatch) -> None:
    """Until the writing about what was found has ended: three seconds in which nothing waited to be written."""
    watch.longest, quiet = 0.0, 0
    seen = service.state.feed.jobs.number
    while quiet < 3:
        await asyncio.sleep(1)
        quiet = 0 if service.sql_writer.backlog or service.state.feed.jobs.number > seen else quiet + 1
        seen = service.state.feed.jobs.number


async def idle(service: SchedulerService, seconds: float) -> dict[str, Any]:
    """Ten seconds without events: CPU first, then the longest block while the metrics page is read."""
    spent, began = cpu(), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (cpu() - spent) / (time.perf_counter() - began)
    watch, page = LoopWatch(), b""
    watch.start()
    async with aiohttp.ClientSession() as session:
        for _ in range(5):
            async with session.get(f"{service.address}/metrics") as answer:
                page = await answer.read()
            await asyncio.sleep(1)
    block = watch.stop()
    return {
        "idleCorePercent": round(100 * share, 3),
        "idleLongestBlockMilliseconds": round(1000 * block, 1),
        "metricsKiB": len(page) // 1024,
    }


async def measure(kubeconfig: Path, folder: str, nodes: int, pods: int, seconds: float) -> dict[str, Any]:
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        service = SchedulerService(client, store, internal_secret=secrets.token_hex())
        watch = LoopWatch()
        watch.start()
        started, spent = time.perf_counter(), cpu()
        async with running(service), asyncio.timeout(TIMEOUT):
            ready = time.perf_counter()
            while not service.executor.stats.bound:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            bound, spent = time.perf_counter(), cpu() - spent
            before = watch.longest
            await settled(service, watch)
            settling = time.perf_counter() - bound
            after = watch.stop()
            asked = requests(client)
            quiet = await idle(service, seconds)
            quiet["idleRequests"] = requests(client) - asked
    return {
        "nodes": nodes,
        "pods": pods,
        "readySeconds": round(ready - started, 3),
        "firstBindSeconds": round(bound - started, 3),
        "cpuSeconds": round(spent, 3),
        "longestBlockMilliseconds": round(1000 * before, 1),
        "settlingSeconds": round(settling, 1),
        "longestBlockSettlingMilliseconds": round(1000 * after, 1),
        "startRequests": asked,
        "rssMiB": rss(),
        "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **quiet,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=140000)
    parser.add_argument("--idle", type=float, default=10, help="seconds of idling")
    options = parser.parse_args(arguments)
    context = multiprocessing.get_context("spawn")
    up, done = context.Event(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        child = context.Process(target=serve, args=(kubeconfig, options.nodes, options.pods, up, done))
        child.start()
        try:
            up.wait(TIMEOUT)
            result = asyncio.run(measure(kubeconfig, folder, options.nodes, options.pods, options.idle))
        finally:
            done.set()
            child.join(30)
            child.kill()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
