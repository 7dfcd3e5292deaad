"""What large YAML that users send in a loop does to everybody else: latency of `/healthz` and of an honest user.

`python -m tests.benchmarks.parsing [--seconds 20] [--callers 2] [--kib 1200]`: a dev cluster, a PostgreSQL, a
scheduler and a replica of REST, a process each; the load comes from this one. Prints JSON: milliseconds
without and with the attack.
"""

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from t9ksched.kube.setup.rbac import API, SCHEDULER
from tests.acceptance.conftest import TIMEOUT_SECONDS, Cluster
from tests.acceptance.load import ADMIN, WORKLOADS
from tests.acceptance.test_soak import ADMIN_TOKEN, Processes, Readiness, served
from tests.postgresql import postgresql

_PAUSE = 0.02
_OBJECT = """- apiVersion: v1
  kind: Pod
  metadata: {name: p%d, namespace: default, labels: {a: b, c: d}}
  spec: {schedulerName: t9k-scheduler, containers: [{name: main, image: "example/app:1"}]}
"""


def large(kib: int) -> bytes:
    """A list of pods as YAML, of at least so many KiB."""
    one = len(_OBJECT)
    return ("apiVersion: v1\nkind: List\nitems:\n" + "".join(_OBJECT % n for n in range(kib * 1024 // one))).encode()


def parts(latencies: list[float]) -> dict[str, float]:
    """Milliseconds."""
    found = sorted(latencies)
    at = {f"p{part}": found[min(len(found) - 1, len(found) * part // 100)] * 1000 for part in (50, 95, 99)}
    return {
        "requests": len(found),
        **{name: round(value, 1) for name, value in (at | {"worst": found[-1] * 1000}).items()},
    }


class Probe:
    """One session that asks again and again."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def ask(self, method: str, path: str, token: str, data: Any = None, kind: str = "application/json") -> int:
        """The status."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
            await answer.read()
            return answer.status

    async def look(self, path: str, token: str, until: float) -> list[float]:
        """How long each answer took, one after the other with pauses."""
        clock, found = asyncio.get_running_loop().time, []
        while clock() < until:
            began = clock()
            await self.ask("GET", path, token)
            found.append(clock() - began)
            await asyncio.sleep(_PAUSE)
        return found

    async def attack(self, token: str, body: bytes, until: float, answers: Counter[int]) -> None:
        """Large bodies, one after the other."""
        while asyncio.get_running_loop().time() < until:
            answers[await self.ask("POST", f"{WORKLOADS}?dryRun=true", token, body, "application/yaml")] += 1


@asynccontextmanager
async def probe(processes: Processes) -> AsyncIterator[Probe]:
    """Everything runs and is ready."""
    processes.level = "warning"
    processes.start(SCHEDULER, "scheduler")
    processes.level = "info"
    url = await served(processes.start(API, "api", "--port", "0"))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as session:
        await Readiness(session, [url]).all_ready()
        yield Probe(session, url)


async def measure(processes: Processes, seconds: float, callers: int, kib: int) -> dict[str, Any]:
    """What was measured."""
    clock, body = asyncio.get_running_loop().time, large(kib)
    async with probe(processes) as one:
        tokens = []
        for number in range(callers + 1):
            made = {"name": f"u{number}", "role": "user"}
            async with one._session.post(
                f"{one._url}{ADMIN}/tokens", json=made, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
            ) as answer:
                tokens.append((await answer.json())["token"])
        told: dict[str, Any] = {"KiB": len(body) // 1024, "callers": callers}
        for name, attacked in (("quiet", False), ("attacked", True)):
            until, answers = clock() + seconds, Counter[int]()
            attacks = [one.attack(token, body, until, answers) for token in tokens[1:]] if attacked else []
            health, lists, *_ = await asyncio.gather(
                one.look("/healthz", tokens[0], until), one.look(WORKLOADS, tokens[0], until), *attacks
            )
            told[name] = {"/healthz": parts(health), "lists": parts(lists), "bodies": dict(answers)}
        return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--callers", type=int, default=2)
    parser.add_argument("--kib", type=int, default=1200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgresql() as database:
        cluster = Cluster(Path(folder))
        processes = Processes(database, database.create("parsing"), cluster.pid, cluster.kubeconfigs, Path(folder))
        try:
            print(json.dumps(asyncio.run(measure(processes, given.seconds, given.callers, given.kib)), indent=2))
        finally:
            processes.stop()
            cluster.stop()


if __name__ == "__main__":
    main()
