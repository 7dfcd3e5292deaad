"""The ceiling of a cluster's API: how many pods a second a plain loop binds that decides nothing.

    uv run python tests/benchmarks/bind.py --kubeconfig PATH --nodes 1000 --pods 5000 --in-flight 64

Makes a namespace with P pods of our scheduler's name, binds them round-robin over N node names with card annotations
as the scheduler would, and prints one JSON object: pods/s, our CPU per bound pod, outcomes. Nodes need not exist: no
API server checks them in a binding. Without --kubeconfig a dev cluster runs in a process of its own. Use an ordinary
user: system:masters is exempt from the server's flow control. The scheduler itself must not run on that cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube import binding
from t9ksched.kube.binding import Binding
from t9ksched.kube.client import Client
from t9ksched.kube.config import connect
from t9ksched.kube.errors import TooManyRequests
from t9ksched.kube.resources import NAMESPACES, PODS
from t9ksched.model.names import SCHEDULER_NAME


async def each(items: Iterable[Any], in_flight: int, act: Callable[[Any], Awaitable[None]]) -> None:
    """Do `act` for every item, at most `in_flight` at a time."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await act(item)

    await asyncio.gather(*(worker() for _ in range(in_flight)))


def pod(namespace: str, index: int) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "example/none:1", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": SCHEDULER_NAME, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{index}", "namespace": namespace},
        "spec": spec,
    }


async def measure(kubeconfig: Path, nodes: int, pods: int, in_flight: int) -> dict[str, Any]:
    namespace = f"bind-{uuid4().hex[:8]}"
    async with connect(kubeconfig) as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        try:
            return await bind_all(client, namespace, nodes, pods, in_flight)
        finally:
            await client.delete(NAMESPACES, namespace)


async def bind_all(client: Client, namespace: str, nodes: int, pods: int, in_flight: int) -> dict[str, Any]:
    decisions: list[Binding] = []

    async def create(index: int) -> None:
        while True:
            try:
                made = await client.create(PODS, pod(namespace, index))
                break
            except TooManyRequests as busy:
                await asyncio.sleep(busy.retry_after or 1.0)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        decisions.append(Binding(namespace, name, uid, f"bench-{index % nodes}", cards={"main": (index % 8,)}))

    await each(range(pods), min(in_flight, 32), create)
    outcomes: Counter[str] = Counter()

    async def bind(decision: Binding) -> None:
        outcomes[type(await binding.run(client, decision)).__name__] += 1

    started, cpu = time.perf_counter(), time.process_time()
    await each(decisions, in_flight, bind)
    seconds, spent = time.perf_counter() - started, time.process_time() - cpu
    bound = outcomes["Bound"]
    return {
        "nodes": nodes,
        "pods": pods,
        "inFlight": in_flight,
        "seconds": round(seconds, 3),
        "podsPerSecond": round(bound / seconds, 1),
        "cpuMicrosecondsPerPod": round(spent / max(bound, 1) * 1e6, 1),
        "refused": pods - bound,
        "outcomes": dict(outcomes),
    }


def serve(kubeconfig: Path, ready: Any) -> None:
    """A dev cluster without agents, in this process, until it is terminated."""

    async def run() -> None:
        cluster = DevCluster(None, [])
        await cluster.start()
        cluster.write_kubeconfig(kubeconfig)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()

    def go(kubeconfig: Path) -> None:
        print(json.dumps(asyncio.run(measure(kubeconfig, options.nodes, options.pods, options.in_flight))))

    if options.kubeconfig is not None:
        go(options.kubeconfig)
        return
    with tempfile.TemporaryDirectory() as folder:
        spawn = multiprocessing.get_context("spawn")
        ready = spawn.Event()
        server = spawn.Process(target=serve, args=(Path(folder) / "kubeconfig", ready), daemon=True)
        server.start()
        try:
            if not ready.wait(30):
                raise TimeoutError("the dev cluster did not start within 30 s")
            go(Path(folder) / "kubeconfig")
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
