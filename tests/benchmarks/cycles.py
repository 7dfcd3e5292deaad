"""Memory of a scheduler and a replica of REST over many lives of jobs: submit, look, cancel; nothing stays.

`python -m tests.benchmarks.cycles [--cycles 10000] [--every 1000] [--at-once 8]`: a dev cluster, a PostgreSQL, a
scheduler and a replica, a process each. Prints JSON: resident MiB of each after every so many cycles, at rest.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from t9ksched.kube.resources import PODS
from t9ksched.kube.setup.rbac import API, SCHEDULER
from t9ksched.kube.transport.config import connect
from tests.acceptance.conftest import TIMEOUT_SECONDS, Cluster
from tests.acceptance.load import WORKLOADS, pod
from tests.acceptance.test_soak import ADMIN_TOKEN, Processes, Readiness, served
from tests.postgresql import postgresql

REST_SECONDS = 12.0
"""What is written and told later is so after this time."""


def resident(pid: int) -> float:
    """MiB of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


async def cycles(processes: Processes, count: int, every: int, at_once: int) -> dict[str, Any]:
    """What was measured."""
    processes.level = "warning"
    processes.start(SCHEDULER, "scheduler")
    processes.level = "info"
    url = await served(processes.start(API, "api", "--port", "0"))
    pids = {"scheduler": processes.running[0].pid, "replica": processes.running[1].pid}
    numbers, headers = itertools.count(), {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
    seen, refused = [], 0
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, connect(processes.kubeconfigs["admin"]) as kube:
        await Readiness(session, [url]).all_ready()

        async def ask(method: str, path: str, body: Any = None) -> int:
            data = None if body is None else msgspec.json.encode(body)
            async with session.request(method, url + path, data=data, headers=headers) as answer:
                await answer.read()
                return answer.status

        async def lives(until: int) -> None:
            nonlocal refused
            while (number := next(numbers)) < until:
                name = f"c{number}"
                job = f"{WORKLOADS}/default/pod/{name}"
                while await ask("POST", WORKLOADS, pod(name, "default")) != 201:
                    refused += 1
                    await asyncio.sleep(0.1)
                await ask("GET", job)
                while await ask("DELETE", job) not in (200, 404):
                    refused += 1
                    await asyncio.sleep(0.1)

        for done in range(0, count + 1, every):
            began = time.monotonic()
            if done:
                numbers = itertools.count(done - every)
                await asyncio.gather(*(lives(done) for _ in range(at_once)))
            took = time.monotonic() - began
            while (await kube.list(PODS)).items:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            await asyncio.sleep(REST_SECONDS)
            mib = {name: round(resident(pid), 1) for name, pid in pids.items()}
            seen.append({"cycles": done, "seconds": round(took, 1), **mib})
            print(json.dumps(seen[-1]), file=sys.stderr, flush=True)
    logs = {log.name: log.stat().st_size for log in processes.logs}
    return {"at once": at_once, "asked again": refused, "log bytes": logs, "MiB": seen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgresql() as database:
        cluster = Cluster(Path(folder))
        processes = Processes(database, database.create("cycles"), cluster.pid, cluster.kubeconfigs, Path(folder))
        try:
            print(json.dumps(asyncio.run(cycles(processes, given.cycles, given.every, given.at_once)), indent=2))
        finally:
            processes.stop()
            cluster.stop()


if __name__ == "__main__":
    main()
