"""How fast pods are bound, beside a plain loop that decides nothing, on the same cluster in the same run.

    uv run python tests/benchmarks/bind.py --kubeconfig PATH --nodes 1000 --pods 5000 --gang 8 --in-flight 64
    uv run python tests/benchmarks/bind.py --null --nodes 5000 --gang 500
    uv run python tests/benchmarks/bind.py --null --filled 1000000

Rounds alternate: a plain aiohttp loop binds fresh pods with as many requests in flight and one watcher that reads and
does not decode (the ceiling), then the whole scheduler meets fresh pods of the same shape, in gangs of `--gang`. Both
send the same binding. Printed as one JSON object, medians of the rounds: pods/s and CPU per bound pod of both,
refusals, and the share of the ceiling that the scheduler reaches.

`cpuMicrosecondsPerPod` is all of this process's CPU, from the first decision until the last binding was confirmed by
the watch, its history written and the statuses brought up to date, divided by bound pods;
`readingMicrosecondsPerPod` is what the start cost before, nodes included.

Works in namespaces and on nodes of its own, which are removed at the end, as are definitions and queues that were not
there before. Without --kubeconfig a dev cluster without kubelets runs in a process of its own; with --null a server
that keeps objects and checks nothing (`nullserver.py`), which shows our own CPU. On a real server be an ordinary user:
system:masters is exempt from its flow control. The user needs the rights of `deploy/rbac.yaml`, and every right to
namespaces, service accounts, nodes, pods and podgroups. No other t9ksched may run on that cluster.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.errors import AlreadyExists, Forbidden, NotFound, TooManyRequests
from t9ksched.kube.resources import CRDS, NAMESPACES, NODES, PODGROUPS, PODS, QUEUES, SERVICEACCOUNTS
from t9ksched.kube.setup.crds import ensure, read
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect, credentials
from t9ksched.model import names
from t9ksched.model.api_resource import Resource
from t9ksched.packaged import folder
from t9ksched.scheduler.act import batching
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from tests.benchmarks import nullserver
from tests.benchmarks.filled import KEEP, copied, filled

RUN = "t9ksched.bench/run"
TIMEOUT = 600
SETTLE_SECONDS = 6.0
"""After the last binding: what is written seldom is written by then (jobs: 4 s, Queues: 5 s)."""
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


def binding(namespace: str, name: str, uid: str, node: str, card: int) -> Object:
    annotations = {f"{names.GPU_INDEX_PREFIX}main": str(card)}
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": annotations}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def figures(bound: int, seconds: float, cpu: float) -> Object:
    per_pod = 1e6 * cpu / max(bound, 1)
    return {"bound": bound, "podsPerSecond": round(bound / seconds, 1), "cpuMicrosecondsPerPod": round(per_pod, 1)}


class Plain:
    """The ceiling: what one aiohttp process can bind when it decides and remembers nothing."""

    def __init__(self, kubeconfig: Path, in_flight: int) -> None:
        self._credentials = credentials(kubeconfig)
        self._in_flight = in_flight
        self._heard = 0

    async def run(self, decisions: list[tuple[str, Object]]) -> Object:
        await self._credentials.open()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorization := await self._credentials.authorization():
            headers["Authorization"] = authorization
        connector = aiohttp.TCPConnector(limit=0, ssl=self._credentials.tls or True)
        answers: Counter[int] = Counter()
        base = self._credentials.access.host
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def bind(decision: tuple[str, Object]) -> None:
                async with session.post(base + decision[0], data=msgspec.json.encode(decision[1])) as response:
                    await response.read()
                answers[response.status] += 1

            async with session.get(f"{base}{PODS.path()}?limit=1") as response:
                version = (await response.json())["metadata"]["resourceVersion"]
            watch = asyncio.create_task(
                self._watch(session, f"{base}{PODS.path()}?watch=true&resourceVersion={version}")
            )
            started, cpu = time.perf_counter(), time.process_time()
            await each(decisions, self._in_flight, bind)
            seconds = time.perf_counter() - started
            async with asyncio.timeout(TIMEOUT):
                while self._heard < answers[201] and not watch.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            cpu = time.process_time() - cpu
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        return figures(answers[201], seconds, cpu) | {"refused": sum(answers.values()) - answers[201]}

    async def _watch(self, session: aiohttp.ClientSession, url: str) -> None:
        self._heard = 0
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            async for chunk in response.content.iter_any():
                self._heard += chunk.count(b"\n")


class Bench:
    """One run: `prepare`, rounds of `ceiling` and `scheduler`, `clean`."""

    def __init__(self, client: Client, kubeconfig: Path, options: argparse.Namespace) -> None:
        self.client = client
        self.nodes, self.gang, self.in_flight = options.nodes, options.gang, options.in_flight
        self.pods = options.pods // options.gang * options.gang
        self.honours, self.database = options.honours, options.database
        self.filled, self.keep = options.filled, options.keep
        self.run = f"bind-{uuid4().hex[:8]}"
        self.made: list[str] = []
        self.undo: list[Callable[[], Awaitable[Any]]] = []
        self.plain = Plain(kubeconfig, options.in_flight)

    async def prepare(self) -> None:
        definitions = read(folder("crds"))
        for name in [definition["metadata"]["name"] for definition in definitions]:
            if not await self._there(CRDS, name):
                self._remove_later(CRDS, name)
        await ensure(self.client, definitions)
        if not await self._there(NAMESPACES, names.SYSTEM_NAMESPACE):
            await self._make_namespace(names.SYSTEM_NAMESPACE)
        for name in (names.DEFAULT_QUEUE, self.run):
            if not await self._there(QUEUES, name, names.SYSTEM_NAMESPACE):
                self._remove_later(QUEUES, name, names.SYSTEM_NAMESPACE)
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        entry = {"name": self.run, "count": self.nodes, "labels": {RUN: self.run}, "allocatable": allocatable}
        if self.honours:
            entry["annotations"] = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX}

        async def make(node: Object) -> None:
            made = await create(self.client, NODES, node)
            self.made.append(made["metadata"]["name"])
            if made["spec"].get("taints"):  # a new node's, until its kubelet reports
                await self.client.patch(NODES, self.made[-1], None, {"spec": {"taints": None}})

        await each(nodes_from({"nodes": [entry]}), 32, make)

    async def _there(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        with suppress(NotFound):
            with suppress(Forbidden):  # a user who may not see an object need not remove it
                await self.client.get(res, name, namespace)
            return True
        return False

    async def _make_namespace(self, name: str) -> None:
        await create(self.client, NAMESPACES, {"metadata": {"name": name}})
        self._remove_later(NAMESPACES, name)
        with suppress(AlreadyExists, Forbidden):  # pods need it where no controller makes it
            await self.client.create(SERVICEACCOUNTS, {"metadata": {"name": "default"}}, name)

    def _remove_later(self, res: Resource, name: str, namespace: str | None = None) -> None:
        self.undo.append(lambda: self.client.delete(res, name, namespace))

    async def ceiling(self, turn: int) -> Object:
        """Bind without deciding, round-robin over the nodes."""
        namespace = f"{self.run}-plain-{turn}"
        await self._make_namespace(namespace)
        decisions: list[tuple[str, Object]] = []

        async def make(index: int) -> None:
            name, node = f"p{index}", self.made[index % self.nodes]
            made = await create(self.client, PODS, pod(name, f"{self.run}-none", "none"), namespace)
            body = binding(namespace, name, made["metadata"]["uid"], node, index % 8)
            decisions.append((PODS.path(namespace, name, "binding"), body))

        await each(range(self.pods), 32, make)
        found = await self.plain.run(decisions)
        await self._empty(namespace)
        return found

    async def scheduler(self, turn: int, where: str) -> Object:
        """The whole service: reading, deciding, binding, status, history in SQLite, events."""
        namespace, queue = f"{self.run}-{turn}", self.run
        await self._make_namespace(namespace)
        if self.gang > 1:
            api, spec = names.SCHEDULER_API, {"minMember": self.gang, "queue": queue}
            groups = [
                {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": f"g{index}"}, "spec": spec}
                for index in range(self.pods // self.gang)
            ]
            await each(groups, 32, lambda group: create(self.client, PODGROUPS, group, namespace))
        waiting = [
            pod(f"p{index}", queue, f"g{index // self.gang}" if self.gang > 1 else "") for index in range(self.pods)
        ]
        await each(waiting, 32, lambda item: create(self.client, PODS, item, namespace))
        address = self.database or copied(self.keep, self.filled, Path(where) / f"store-{turn}.db", live=False)
        async with await Store.open(address) as store:
            spec = {"nodeSelector": {"matchLabels": {RUN: self.run}}}
            if turn == 0 or not self.database:
                await store.queues.create(queue, {}, spec, {"everyone": True})
            service = SchedulerService(self.client, store, internal_secret=uuid4().hex)
            before = time.process_time()
            async with running(service), asyncio.timeout(TIMEOUT):
                started, cpu = time.perf_counter(), time.process_time()
                stats = service.executor.stats
                while stats.bound + stats.refused < len(waiting):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                seconds = time.perf_counter() - started
                while any(record.assumed for record in service.state.pods.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                await asyncio.sleep(SETTLE_SECONDS)
                await service.sql_writer.flushed()
                found = figures(stats.bound, seconds, time.process_time() - cpu)
                cycles = service.loop.stats.cycles
        reading = round(1e6 * (cpu - before) / len(waiting), 1)
        del service
        gc.unfreeze()
        gc.collect()  # it is garbage in cycles, which the next round must not carry
        await self._empty(namespace)
        more = {"refused": stats.refused, "throttled": stats.throttled, "cycles": cycles}
        return found | more | {"readingMicrosecondsPerPod": reading}

    async def _empty(self, namespace: str) -> None:
        await self.client.request("DELETE", PODS.path(namespace), query={"gracePeriodSeconds": "0"}, timeout=TIMEOUT)
        if self.gang > 1:
            await self.client.request("DELETE", PODGROUPS.path(namespace), timeout=TIMEOUT)

    async def clean(self) -> None:
        await each(self.made, 32, lambda name: self.client.delete(NODES, name))
        for remove in reversed(self.undo):
            with suppress(NotFound):
                await remove()


def medians(rounds: list[Object]) -> Object:
    return {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}


async def measure(kubeconfig: Path, options: argparse.Namespace) -> Object:
    ceilings: list[Object] = []
    ours: list[Object] = []
    async with connect(kubeconfig) as client:
        bench = Bench(client, kubeconfig, options)
        try:
            await bench.prepare()
            with tempfile.TemporaryDirectory() as where:
                for turn in range(options.rounds):
                    ceilings.append(await bench.ceiling(turn))
                    ours.append(await bench.scheduler(turn, where))
        finally:
            await bench.clean()
    pairs = zip(ceilings, ours, strict=True)
    shares = [round(own["podsPerSecond"] / plain["podsPerSecond"], 3) for plain, own in pairs]
    return {
        "server": "given" if options.kubeconfig else "null" if options.null else "devcluster",
        "tls": client.server.startswith("https"),
        "nodes": options.nodes,
        "pods": bench.pods,
        "gang": options.gang,
        "inFlight": options.in_flight,
        "honours": options.honours,
        "database": "postgresql" if options.database else "sqlite",
        "rowsBefore": options.filled,
        "rounds": options.rounds,
        "ceiling": medians(ceilings),
        "scheduler": medians(ours),
        "shareOfCeiling": statistics.median(shares),
        "shares": shares,
    }


def devcluster(kubeconfig: Path, ready: Any) -> None:
    """A dev cluster without agents, in this process, until it is terminated."""

    async def run() -> None:
        cluster = DevCluster(None, [])
        await cluster.start()
        cluster.write_kubeconfig(kubeconfig)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(run())


def certificate(where: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, made by the openssl command."""
    path, request = where / "server.pem", ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *key, *request, "-days", "2", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=where, check=True, capture_output=True)
    path.write_bytes((where / "key.pem").read_bytes() + (where / "cert.pem").read_bytes())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--null", action="store_true", help="a server that costs next to nothing, in its own process")
    parser.add_argument("--tls", action="store_true", help="with --null: serve by TLS (needs the openssl command)")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gang", type=int, default=1, help="members of a gang; 1 means single pods")
    parser.add_argument("--in-flight", type=int, default=64, help="of the plain loop; the scheduler begins with 64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--honours",
        action="store_true",
        help="nodes honour indices: cards are on record before a pod is bound",
    )
    parser.add_argument("--database", default="", help="URL of an empty PostgreSQL in place of SQLite files")
    parser.add_argument("--filled", type=int, default=0, help="rows of history that the SQLite file has before")
    parser.add_argument("--keep", type=Path, default=KEEP, help="the folder in which filled files are kept")
    options = parser.parse_args()
    if options.filled:
        filled(options.keep, options.filled)
    if options.nodes * 8 < options.pods:
        parser.error(f"{options.nodes} nodes of 8 cards cannot take {options.pods} pods of one card")
    if options.kubeconfig is not None:
        print(json.dumps(batching.run(measure(options.kubeconfig, options))))
        return
    with tempfile.TemporaryDirectory() as where:
        kubeconfig = Path(where) / "kubeconfig"
        spawn = multiprocessing.get_context("spawn")
        ready = spawn.Event()
        arguments = (kubeconfig, ready, certificate(Path(where)) if options.tls else None)
        target, arguments = (nullserver.serve, arguments) if options.null else (devcluster, arguments[:2])
        server = spawn.Process(target=target, args=arguments, daemon=True)
        server.start()
        try:
            if not ready.wait(60):
                raise TimeoutError("the server did not start within 60 s")
            print(json.dumps(batching.run(measure(kubeconfig, options))))
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
