"""What the controllers spend on a job of each kind, beside a PyTorchTrainingJob, when 1,000 are submitted at once.

    uv run python tests/benchmarks/kinds.py [--jobs 1000] [--each 100] [--nodes 1000]

A dev cluster with simulated nodes, a scheduler and the controllers run, a process each. In turn `--jobs` jobs of all
kinds that have a controller, mixed, and `--jobs` PyTorchTrainingJobs are created at once; then `--each` jobs of each
kind alone. Left out is VirtualServer, whose pods KubeVirt makes. Jobs are those of `examples/`, an experiment with the
tuner Random. A round is over when all pods that its jobs ask for run and every job says so in its status.

CPU is that of the whole process of the controllers from the first job until 4 s after the end of a round: what they
read, decide and write. `looks` are decisions about one job, by outcome. Prints one JSON object; exits with 1 if a job
was refused, or a look ended with an error, or anything did not run.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog
import yaml

from t9ksched.cli.heap import settle
from t9ksched.controller.meters import FAILED, NAME_TAKEN, NOT_MADE, REFUSED
from t9ksched.controller.service import Controllers
from t9ksched.devcluster import agents
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import NAMESPACES, PODS, PVCS, PVS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.packaged import folder
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import CONTROLLED, KINDS
from tests.benchmarks.bind import each

PYTORCH = "PyTorchTrainingJob"
NODE = {"cpu": "512", "memory": "8Ti", "pods": "250", "nvidia.com/gpu": "32"}
CLAIMS = ("training", "models")
"""What the examples name."""
ERRORS = (NAME_TAKEN, NOT_MADE, REFUSED, FAILED)
LOOK = re.compile(r'^t9ksched_controller_reconciles_total\{kind="(\w+)",outcome="(\w+)"\} (\S+)', re.MULTILINE)
SETTLE_SECONDS = 4.0
Object = dict[str, Any]
Looks = Counter[tuple[str, str]]


def cluster(kubeconfig: Path, ready: Any, nodes: int) -> None:
    """A process: the cluster and all that plays in it."""

    async def run() -> None:
        dev = DevCluster(None, [])
        await dev.start()
        await agents.start(dev.port_api, nodes_from({"nodes": [{"name": "n", "count": nodes, "allocatable": NODE}]}))
        dev.write_kubeconfig(kubeconfig)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(run())


def scheduler(kubeconfig: Path, ready: Any, database: str) -> None:
    """A process: the scheduler."""

    async def run() -> None:
        async with (
            await Store.open(database) as store,
            connect(kubeconfig) as client,
            running(SchedulerService(client, store, internal_secret="a secret of the benchmark")),
        ):
            settle()
            ready.set()
            await asyncio.Event().wait()

    quiet()
    asyncio.run(run())


def quiet() -> None:
    """Tell warnings and errors only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def controllers(kubeconfig: Path, ready: Any, pipe: Connection) -> None:
    """A process: the controllers. To anything in the pipe it answers what CPU it has spent, and its metrics page."""

    async def run() -> None:
        async with connect(kubeconfig) as client:
            service = Controllers(client)
            task = asyncio.create_task(service.run())
            await service.ready.wait()
            settle()
            ready.set()
            while not task.done():
                if await asyncio.to_thread(pipe.poll, 1.0):
                    pipe.recv()
                    pipe.send((time.process_time(), (await service.metrics(openmetrics=False)).decode()))
            task.result()

    quiet()
    asyncio.run(run())


def example(kind: str) -> Object:
    """The job of that kind in `examples/`, in the queue `default`."""
    for path in sorted(folder("examples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document.get("kind") == kind:
                found: Object = document
                spec = found["spec"]
                (spec.get("trainingConfig") or spec)["scheduler"]["t9kScheduler"]["queue"] = "default"
                if "tuner" in spec:
                    spec["tuner"] = {"builtinTunerName": "Random"}
                return found
    raise LookupError(f"no example of the kind {kind}")


class Bench:
    """Rounds on one cluster; each has a namespace of its own."""

    def __init__(self, client: Client, pipe: Connection) -> None:
        self._client = client
        self._pipe = pipe
        self.refused: list[str] = []
        self._stuck: list[str] = []

    @property
    def faults(self) -> list[str]:
        return self.refused + self._stuck

    def spent(self) -> tuple[float, Looks]:
        """Seconds of CPU of the controllers since their start, and their looks by kind and outcome."""
        self._pipe.send(None)
        cpu, page = self._pipe.recv()
        return cpu, Counter({(kind, outcome): int(float(count)) for kind, outcome, count in LOOK.findall(page)})

    async def round(self, name: str, kinds: list[str], jobs: int, timeout: float) -> Object:
        await self._client.create(NAMESPACES, {"metadata": {"name": name}})
        for claim in CLAIMS:
            wants = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
            amount = {"storage": "1Gi"}
            volume = {**wants, "capacity": amount, "nfs": {"server": "files.example", "path": "/"}}
            await self._client.create(PVS, {"metadata": {"name": f"{name}-{claim}"}, "spec": volume})
            spec = {**wants, "resources": {"requests": amount}}
            await self._client.create(PVCS, {"metadata": {"name": claim}, "spec": spec}, name)
        samples = {kind: example(kind) for kind in kinds}
        chosen = [kinds[index % len(kinds)] for index in range(jobs)]
        wanted = sum(read(samples[kind]).replicas for kind in chosen)
        before, looks = self.spent()
        began = time.perf_counter()

        async def submit(numbered: tuple[int, str]) -> None:
            index, kind = numbered
            job = deepcopy(samples[kind])
            job["metadata"] = {"name": f"j-{index}", "namespace": name}
            try:
                await self._client.create(KINDS[kind].resource, job, name)
            except ApiError as error:
                self.refused.append(f"{kind}: {error}")

        await each(enumerate(chosen), 64, submit)
        created = time.perf_counter() - began
        there = await self._settled(name, kinds, wanted, timeout)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLE_SECONDS)
        after, now = await asyncio.to_thread(self.spent)
        now.subtract(looks)
        print(f"{name}: {there} of {wanted} pods after {seconds:.0f} s", *self.faults[-1:], file=sys.stderr)
        outcomes: Counter[str] = Counter()
        for (_, outcome), count in now.items():
            outcomes[outcome] += count
        return {
            "jobs": jobs,
            "pods": there,
            "createdSeconds": round(created, 1),
            "seconds": round(seconds, 1),
            "cpuMillisecondsPerJob": round(1e3 * (after - before) / jobs, 1),
            "cpuMillisecondsPerPod": round(1e3 * (after - before) / max(1, wanted), 2),
            "looks": {outcome: count for outcome, count in outcomes.items() if count},
        }

    async def _settled(self, name: str, kinds: list[str], wanted: int, timeout: float) -> int:
        """Wait until all pods run and all jobs say so; how many pods run."""
        pods, waiting = 0, Counter[str]()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while pods < wanted or waiting:
                    await asyncio.sleep(1.0)
                    listed = await self._client.list(PODS, name, field_selector="status.phase=Running")
                    pods, waiting = len(listed.items), Counter[str]()
                    if pods < wanted:
                        continue
                    for kind in kinds:
                        for job in (await self._client.list(KINDS[kind].resource, name)).items:
                            phase = str((job.get("status") or {}).get("phase"))
                            if phase.lower() not in ("running", "ready"):
                                waiting[f"{kind} {phase}"] += 1
        if pods < wanted or waiting:
            self._stuck.append(f"{name}: {pods} of {wanted} pods run after {timeout:.0f} s; {dict(waiting)}")
        return pods


async def measure(kubeconfig: Path, pipe: Connection, options: argparse.Namespace) -> tuple[Object, list[str]]:
    elsewhere = {addon.kind for addon in ADDONS}
    kinds = [row.name for row in CONTROLLED if row.name not in elsewhere]
    async with connect(kubeconfig) as client:
        bench = Bench(client, pipe)
        found: Object = {"nodes": options.nodes, "loadAtStart": round(os.getloadavg()[0], 1)}
        found["mixed"] = await bench.round("mixed", kinds, options.jobs, options.timeout)
        found[PYTORCH] = await bench.round("pytorch", [PYTORCH], options.jobs, options.timeout)
        alone = {}
        for kind in kinds if options.each else ():
            alone[kind] = await bench.round(kind.lower(), [kind], options.each, options.timeout)
        _, looks = bench.spent()
    wrong = [f"{count} looks at {kind} ended as {outcome}" for (kind, outcome), count in looks.items() if count]
    errors = bench.faults + [text for text in wrong if text.rsplit(" ", 1)[1] in ERRORS]
    return found | {"alone": alone, "errors": errors, "loadAtEnd": round(os.getloadavg()[0], 1)}, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--each", type=int, default=100, help="jobs of each kind alone; 0 for none")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a round")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with tempfile.TemporaryDirectory() as where:
        kubeconfig = Path(where) / "kubeconfig"
        started = []
        try:
            for target, last in (
                (cluster, options.nodes),
                (scheduler, f"sqlite:///{where}/history.db"),
                (controllers, theirs),
            ):
                ready = spawn.Event()
                started.append(spawn.Process(target=target, args=(kubeconfig, ready, last), daemon=True))
                started[-1].start()
                if not ready.wait(120):
                    raise TimeoutError(f"the {target.__name__} did not start within 120 s")
            found, errors = asyncio.run(measure(kubeconfig, ours, options))
            for process in started:
                if not process.is_alive():
                    errors.append(f"a process ended by itself: {process.exitcode}")
        finally:
            for process in reversed(started):
                process.terminate()
                process.join()
    print(json.dumps(found))
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
