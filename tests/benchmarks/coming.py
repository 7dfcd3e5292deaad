"""Work that comes to a service which began small, and goes again: prints JSON.

    uv run python -m tests.benchmarks.coming [--nodes 2000] [--pods 10000,30000] [--gangs 250,1000] [--held 15]

A dev cluster whose objects are put straight into its storage runs in a child process; this process is the scheduler
alone, which starts with nothing to do. Then single pods come all at once, and after them gangs of eight, each with
another amount of cpu; all run, end, and are deleted. Of each phase: this process's CPU, and the longest time that its
event loop was held in one piece, in CPU time of its thread, until nothing waits to be written any more. `--held` tells
on the error output where the loop was when it was held for so many milliseconds.
"""

import argparse
import asyncio
import multiprocessing
import secrets
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from t9ksched.devcluster.apiserver.options import DeleteOptions
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from tests.benchmarks.heldloop import HeldLoop
from tests.benchmarks.restart import LoopWatch, cpu, settled
from tests.benchmarks.timing import report
from tests.benchmarks.untidycluster import RUNNING, Object, node_objects, pod

TIMEOUT = 900
GANG = 8
PHASES = ("singles", "gangs", "run", "ended", "deleted")


class Work:
    """What happens on the cluster, phase by phase; each is a series of changes."""

    def __init__(self, cluster: DevCluster, pods: int, gangs: int) -> None:
        group, _, version = names.SCHEDULER_API.partition("/")
        self._api = cluster.api
        self._kind = self._api.kind("", "v1", "pods")
        self._groups = self._api.kind(group, version, "podgroups")
        self._pods, self._gangs = pods, gangs

    async def do(self, phase: str) -> None:
        for nth, _ in enumerate(getattr(self, phase)()):
            if nth % 50 == 0:
                await asyncio.sleep(0)

    def singles(self) -> Iterator[None]:
        for at in range(self._pods):
            yield self._create(pod(f"s{at}", {"cpu": "1"}, {names.QUEUE_LABEL: "default"}))

    def gangs(self) -> Iterator[None]:
        for at in range(self._gangs):
            spec = {"minMember": GANG, "queue": "default"}
            named = {"apiVersion": names.SCHEDULER_API, "kind": "PodGroup", "metadata": {"name": f"g{at}"}}
            self._api.create(self._groups, "default", named | {"spec": spec})
            for member in range(GANG):
                labels = {names.QUEUE_LABEL: "default", names.GROUP_LABEL: f"g{at}"}
                yield self._create(pod(f"g{at}-{member}", {"cpu": f"{100 + at}m"}, labels))

    def run(self) -> Iterator[None]:
        yield from self._tell(RUNNING)

    def ended(self) -> Iterator[None]:
        yield from self._tell({"phase": "Succeeded"})

    def deleted(self) -> Iterator[None]:
        for kind in (self._kind, self._groups):
            for key in list(self._api.collection(kind).entries):
                yield self._delete(kind, key.partition("/")[2])

    def _create(self, body: Object) -> None:
        self._api.create(self._kind, "default", body)

    def _tell(self, status: Object) -> Iterator[None]:
        for entry in list(self._api.collection(self._kind).entries.values()):
            yield self._write(entry, status)

    def _write(self, entry: Any, status: Object) -> None:
        self._api.write(self._kind, entry, entry.object | {"status": entry.object.get("status", {}) | status})

    def _delete(self, kind: Any, name: str) -> None:
        self._api.delete(kind, "default", name, DeleteOptions(grace=0))


def serve(kubeconfig: Path, nodes: int, pods: int, gangs: int, pipe: Connection) -> None:
    """The child: a dev cluster, and each phase that `pipe` names; it answers when the phase is done."""

    async def main() -> None:
        cluster = DevCluster(None, node_objects(nodes), controllers=False)
        await cluster.start()
        cluster.write_kubeconfig(kubeconfig)
        work = Work(cluster, pods, gangs)
        pipe.send("up")
        while phase := await asyncio.to_thread(pipe.recv):
            await work.do(phase)
            pipe.send(phase)
        await cluster.stop()

    asyncio.run(main())


async def measure(kubeconfig: Path, folder: str, pipe: Connection, bound: int, held_ms: float) -> dict[str, Any]:
    """The figures of each phase."""
    figures: dict[str, Any] = {}
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        service = SchedulerService(client, store, internal_secret=secrets.token_hex())
        async with running(service), asyncio.timeout(TIMEOUT):
            watch = LoopWatch()
            watch.start()
            for phase in PHASES:
                held = HeldLoop(held_ms / 1e3) if held_ms else None
                if held is not None:
                    held.start()
                watch.longest, spent = 0.0, cpu()
                pipe.send(phase)
                await asyncio.to_thread(pipe.recv)
                longest = watch.longest
                await settled(service, watch)
                longest = max(longest, watch.longest)
                figures[phase] = {
                    "cpu_ms": round(1e3 * (cpu() - spent)),
                    "longest_block_ms": round(1e3 * longest, 1),
                }
                if held is not None:
                    print(f"== {phase}", *held.stop(), sep="\n", file=sys.stderr)
            watch.stop()
            if service.executor.stats.bound != bound:
                raise SystemExit(f"{service.executor.stats.bound} pods were bound, {bound} were to be")
    return figures


def one(nodes: int, pods: int, gangs: int, held_ms: float) -> dict[str, Any]:
    """All phases on a new cluster and with a new service."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        ours, theirs = context.Pipe()
        child = context.Process(target=serve, args=(kubeconfig, nodes, pods, gangs, theirs))
        child.start()
        theirs.close()
        try:
            ours.recv()
            return asyncio.run(measure(kubeconfig, folder, ours, pods + GANG * gangs, held_ms))
        finally:
            if child.is_alive():
                ours.send("")
            child.join(30)
            child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", default="10000,30000")
    parser.add_argument("--gangs", default="250,1000")
    parser.add_argument("--held", type=float, default=0, help="tell where the loop is when held for so many CPU ms")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    given = parser.parse_args()
    sizes = zip(map(int, given.pods.split(",")), map(int, given.gangs.split(",")), strict=True)
    figures = {f"{pods}_pods_{gangs}_gangs": one(given.nodes, pods, gangs, given.held) for pods, gangs in sizes}
    report("coming", given.record, nodes=given.nodes, figures=figures)


if __name__ == "__main__":
    main()
