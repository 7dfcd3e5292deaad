"""How fast pods are bound: a plain loop that decides nothing, then the whole scheduler, on the same cluster in one run.

    uv run python tests/benchmarks/bind.py --kubeconfig PATH --nodes 1000 --pods 5000 --gang 8 --in-flight 64

The ceiling is a loop that binds pods round-robin with card annotations, exactly the requests the scheduler would send.
Then the scheduler meets as many waiting pods (in gangs of `--gang`) and N nodes of its own. Printed as one JSON object:
pods/s and our CPU per bound pod of both, refusals, and the share of the ceiling that the scheduler reaches. Works in
namespaces and on nodes of its own, which are removed. Without --kubeconfig a dev cluster without kubelets runs in a
process of its own. Use an ordinary user: system:masters is exempt from the flow control of a server. No other t9ksched
may run on that cluster.
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodefile import nodes_from
from t9ksched.kube import binding
from t9ksched.kube.binding import Binding
from t9ksched.kube.client import Client
from t9ksched.kube.config import connect
from t9ksched.kube.crds import ensure, read
from t9ksched.kube.errors import AlreadyExists, NotFound, TooManyRequests
from t9ksched.kube.resources import NAMESPACES, NODES, PODGROUPS, PODS, Resource
from t9ksched.model import names
from t9ksched.packaged import folder
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store

RUN = "t9ksched.bench/run"
Object = dict[str, Any]


async def each(items: Iterable[Any], in_flight: int, act: Callable[[Any], Awaitable[Any]]) -> None:
    """Do `act` for every item, at most `in_flight` at a time."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await act(item)

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def create(client: Client, res: Resource, obj: Object, namespace: str | None = None) -> Object:
    while True:
        try:
            return await client.create(res, obj, namespace)
        except TooManyRequests as busy:
            await asyncio.sleep(busy.retry_after or 1.0)


def pod(name: str, queue: str, group: str = "") -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "example/none:1", "resources": {"requests": amounts, "limits": amounts}}
    labels = {names.QUEUE_LABEL: queue} | ({names.GROUP_LABEL: group} if group else {})
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


class Bench:
    """One run: `ceiling`, then `scheduler`, then `clean`."""

    def __init__(self, client: Client, options: argparse.Namespace) -> None:
        self.client = client
        self.nodes, self.pods, self.gang, self.in_flight = options.nodes, options.pods, options.gang, options.in_flight
        self.run = f"bind-{uuid4().hex[:8]}"
        self.made: list[str] = []

    async def ceiling(self) -> Object:
        """Bind without deciding. Nodes need not exist: no API server checks them in a binding."""
        namespace = f"{self.run}-plain"
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        decisions: list[Binding] = []

        async def make(index: int) -> None:
            made = await create(self.client, PODS, pod(f"p{index}", f"{self.run}-none"), namespace)
            uid, node = made["metadata"]["uid"], f"{self.run}-nowhere-{index % self.nodes}"
            decisions.append(Binding(namespace, f"p{index}", uid, node, cards={"main": (index % 8,)}))

        await each(range(self.pods), 32, make)
        outcomes: Counter[str] = Counter()

        async def bind(decision: Binding) -> None:
            outcomes[type(await binding.run(self.client, decision)).__name__] += 1

        started, cpu = time.perf_counter(), time.process_time()
        await each(decisions, self.in_flight, bind)
        found = self._result(outcomes["Bound"], time.perf_counter() - started, time.process_time() - cpu)
        await self._empty(namespace)
        return found | {"outcomes": dict(outcomes)}

    async def scheduler(self, where: str) -> Object:
        """The whole service: reading, deciding, binding, status, history in SQLite, events."""
        namespace, queue = f"{self.run}-gangs", f"{self.run}-q"
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        with suppress(AlreadyExists):
            await self.client.create(NAMESPACES, {"metadata": {"name": names.SYSTEM_NAMESPACE}})
        await self._make_nodes()
        if self.gang > 1:
            api = names.SCHEDULER_API
            spec = {"minMember": self.gang, "queue": queue}
            groups = [
                {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": f"g{index}"}, "spec": spec}
                for index in range(self.pods // self.gang)
            ]
            await each(groups, 32, lambda group: create(self.client, PODGROUPS, group, namespace))
        waiting = [
            pod(f"p{index}", queue, f"g{index // self.gang}" if self.gang > 1 else "")
            for index in range(self.pods // self.gang * self.gang)
        ]
        await each(waiting, 32, lambda item: create(self.client, PODS, item, namespace))
        async with await Store.open(f"sqlite:///{where}/store.db") as store:
            await store.queues.create(queue, {}, {"nodeSelector": {"matchLabels": {RUN: self.run}}})
            service = SchedulerService(self.client, store, internal_secret=uuid4().hex)
            async with running(service), asyncio.timeout(600):
                started, cpu = time.perf_counter(), time.process_time()
                stats = service.executor.stats
                while stats.bound + stats.refused < len(waiting):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                found = self._result(stats.bound, time.perf_counter() - started, time.process_time() - cpu)
                cycles = service.loop.stats.cycles
            await store.queues.delete(queue)
        await self._empty(namespace)
        return found | {"refused": stats.refused, "throttled": stats.throttled, "cycles": cycles}

    async def _make_nodes(self) -> None:
        allocatable = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
        entry = {"name": self.run, "count": self.nodes, "labels": {RUN: self.run}, "allocatable": allocatable}

        async def make(node: Object) -> None:
            status = node.pop("status")
            made = await create(self.client, NODES, node)
            await self.client.replace_status(NODES, made | {"status": status})
            self.made.append(made["metadata"]["name"])

        await each(nodes_from({"nodes": [entry]}), 32, make)

    def _result(self, bound: int, seconds: float, cpu: float) -> Object:
        per_pod = cpu / max(bound, 1)
        return {
            "bound": bound,
            "podsPerSecond": round(bound / seconds, 1),
            "cpuMicrosecondsPerPod": round(per_pod * 1e6, 1),
        }

    async def _empty(self, namespace: str) -> None:
        async def remove(name: str) -> None:
            with suppress(NotFound):
                await self.client.delete(PODS, name, namespace, grace=0)

        await each([f"p{index}" for index in range(self.pods)], 32, remove)
        await self.client.delete(NAMESPACES, namespace)

    async def clean(self) -> None:
        await each(self.made, 32, lambda name: self.client.delete(NODES, name))


async def measure(kubeconfig: Path, options: argparse.Namespace) -> Object:
    async with connect(kubeconfig) as client:
        await ensure(client, read(folder("crds")))
        bench = Bench(client, options)
        try:
            with tempfile.TemporaryDirectory() as where:
                ceiling, scheduler = await bench.ceiling(), await bench.scheduler(where)
        finally:
            await bench.clean()
    return {
        "nodes": options.nodes,
        "pods": options.pods,
        "gang": options.gang,
        "inFlight": options.in_flight,
        "ceiling": ceiling,
        "scheduler": scheduler,
        "shareOfCeiling": round(scheduler["podsPerSecond"] / ceiling["podsPerSecond"], 3),
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gang", type=int, default=1, help="members of a gang; 1 means single pods")
    parser.add_argument("--in-flight", type=int, default=64, help="of the plain loop; the scheduler finds its own")
    options = parser.parse_args()
    if options.kubeconfig is not None:
        print(json.dumps(asyncio.run(measure(options.kubeconfig, options))))
        return
    with tempfile.TemporaryDirectory() as where:
        spawn = multiprocessing.get_context("spawn")
        ready = spawn.Event()
        server = spawn.Process(target=serve, args=(Path(where) / "kubeconfig", ready), daemon=True)
        server.start()
        try:
            if not ready.wait(60):
                raise TimeoutError("the dev cluster did not start within 60 s")
            print(json.dumps(asyncio.run(measure(Path(where) / "kubeconfig", options))))
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
