"""How long no scheduler works when the leader is frozen (SIGSTOP), or ends in order (SIGTERM).

    uv run python tests/benchmarks/takeover.py --runs 5 [--nodes 1000 --pods 20000] [--term]

A dev cluster, a PostgreSQL and two schedulers, a process each. In each run the leader is stopped at a moment drawn at
random and a pod is created; the clock says when the lease has another holder, and when the pod is bound. `lease` and
`binding` are seconds from the signal; `load` is the machine's load average then. Prints one JSON object.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import LEASES, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.kube.write.standby import lease_of
from t9ksched.model.leadership import DURATION
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.benchmarks.restart import pod, running_pod
from tests.postgresql import PostgreSQL, postgresql

LEASE = "t9k-scheduler"
TIMEOUT = 120.0


def serve(kubeconfig: Path, nodes: int, pods: int) -> None:
    """The child: a dev cluster in which `pods` pods run, until its input ends."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}

    async def main() -> None:
        cluster = DevCluster(None, nodes_from({"nodes": [{"name": "n", "count": nodes, "allocatable": allocatable}]}))
        await cluster.start()
        kind = cluster.api.kind("", "v1", "pods")
        for index in range(pods):
            made = cluster.api.create(kind, "default", pod(index, cards=False))
            cluster.api.write(kind, made, running_pod(made.object, f"n-{index % nodes}", 99))
            if index % 1000 == 0:
                await asyncio.sleep(0)
        cluster.write_kubeconfig(kubeconfig)
        await asyncio.to_thread(sys.stdin.read)
        await cluster.stop()

    asyncio.run(main())


class Schedulers:
    """Two of them on one cluster and one database; what ends is started again."""

    def __init__(self, folder: Path, kubeconfig: Path, database: PostgreSQL) -> None:
        self._folder = folder
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("T9KSCHED_")} | {
            "T9KSCHED_DB": database.create("takeover"),
            "T9KSCHED_KUBECONFIG": str(kubeconfig),
            "T9KSCHED_INTERNAL_SECRET": "internal-secret-of-the-benchmark",
        }
        self._count = 0
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self._count += 1
        with (self._folder / f"scheduler-{self._count}.log").open("w") as log:
            command = [sys.executable, "-m", "t9ksched", "scheduler"]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        self.running[process.pid] = process

    def end(self, pid: int) -> None:
        process = self.running.pop(pid)
        process.kill()
        process.wait()


async def holder(client: Client, name: str = LEASE) -> int:
    """The process that holds the lease; 0 for none."""
    try:
        lease = await client.get(LEASES, name, SYSTEM_NAMESPACE)
    except NotFound:
        return 0
    return int((lease["spec"].get("holderIdentity") or "_0").rpartition("_")[2])


async def bound(client: Client, name: str) -> None:
    await until(lambda: _node(client, name))


async def _node(client: Client, name: str) -> bool:
    return bool((await client.get(PODS, name, "default"))["spec"].get("nodeName"))


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        seen = await look()
        while not seen:
            await asyncio.sleep(0.02)
            seen = await look()


async def one_run(client: Client, schedulers: Schedulers, number: int, dice: Random, term: bool) -> dict[str, float]:
    await client.create(PODS, named(f"before-{number}"), "default")
    await bound(client, f"before-{number}")
    leader = await holder(client)
    (other,) = schedulers.running.keys() - {leader}

    async def reported() -> bool:
        return await holder(client, lease_of(LEASE)) == other

    async def taken() -> bool:
        return await holder(client) == other

    await until(reported)
    await asyncio.sleep(3 + dice.random())  # it follows the cluster by then; any moment of a renewal
    schedulers.running[leader].send_signal(signal.SIGTERM if term else signal.SIGSTOP)
    began = time.monotonic()
    await client.create(PODS, named(f"after-{number}"), "default")
    await until(taken)
    lease = time.monotonic() - began
    await bound(client, f"after-{number}")
    binding = time.monotonic() - began
    schedulers.end(leader)
    schedulers.start()
    return {"lease": round(lease, 2), "binding": round(binding, 2), "load": round(os.getloadavg()[0], 1)}


def named(name: str) -> dict[str, Any]:
    made = pod(0, cards=True)
    made["metadata"]["name"] = name
    return made


async def measure(kubeconfig: Path, schedulers: Schedulers, runs: int, term: bool) -> list[dict[str, float]]:
    dice = Random(1)
    async with connect(kubeconfig) as client:
        schedulers.start()
        schedulers.start()
        return [await one_run(client, schedulers, number, dice, term) for number in range(runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--term", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.nodes, options.pods)
        return
    with tempfile.TemporaryDirectory() as place, postgresql() as database:
        folder = Path(place)
        kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "tests.benchmarks.takeover", "--serve", str(kubeconfig)]
        sizes = ["--nodes", str(options.nodes), "--pods", str(options.pods)]
        cluster = subprocess.Popen([*command, *sizes], stdin=subprocess.PIPE)
        schedulers = Schedulers(folder, kubeconfig, database)
        try:
            while not kubeconfig.exists():
                assert cluster.poll() is None, "the cluster did not start"
                time.sleep(0.1)
            found = asyncio.run(measure(kubeconfig, schedulers, options.runs, options.term))
        finally:
            for pid in list(schedulers.running):
                schedulers.end(pid)
            assert cluster.stdin is not None
            cluster.stdin.close()
            cluster.wait()
    medians = {name: statistics.median(run[name] for run in found) for name in ("lease", "binding")}
    worst = {name: max(run[name] for run in found) for name in ("lease", "binding")}
    sys.stdout.write(
        json.dumps(
            {
                "signal": "SIGTERM" if options.term else "SIGSTOP",
                "leaseSeconds": DURATION,
                "nodes": options.nodes,
                "pods": options.pods,
                "median": medians,
                "worst": worst,
                "runs": found,
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
