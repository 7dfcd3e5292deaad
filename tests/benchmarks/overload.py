"""What a replica of REST serves when it is asked for more than it can: how much, how soon, and how soon it refuses.

`python -m tests.benchmarks.overload [--seconds 15] [--times 1,3,10]`: a dev cluster, a PostgreSQL, a scheduler and a
replica, a process each, and this one, which makes the load. First as many requests as are answered with 16 at once
(`served`), then an open loop of so many times that rate: each request is sent when it is due, whatever became of those
before. The mix is one of 16 users: 15 % submit a small job, 15 % cancel one, 35 % list their jobs, 35 % look at one.
Prints JSON.
"""

import argparse
import asyncio
import gc
import itertools
import json
import random
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from t9ksched.kube.resources import PODS
from t9ksched.kube.setup.rbac import API, SCHEDULER
from t9ksched.kube.transport.config import connect
from tests.acceptance.conftest import Cluster
from tests.acceptance.load import ADMIN, USERS, WORKLOADS, pod
from tests.acceptance.test_soak import ADMIN_TOKEN, Processes, Readiness, allow_users, served, spent
from tests.postgresql import postgresql

AT_ONCE = 16
_PAUSE = 0.2
TIMEOUT_SECONDS = 10.0
_GOOD = (200, 201, 404)
"""A job that another request cancels meanwhile is not found."""
_REFUSED = (429, 503)


def milliseconds(latencies: list[float]) -> dict[str, float]:
    """Parts of the answers, and the slowest."""
    found = sorted(latencies) or [0.0]
    told = {f"p{part}": found[min(len(found) - 1, len(found) * part // 100)] for part in (50, 95, 99)}
    return {name: round(value * 1000, 1) for name, value in (told | {"worst": found[-1]}).items()}


class Phase:
    """What happened in one phase."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.good: list[float] = []
        self.refused: list[float] = []
        self.late: list[float] = []
        """How much later than due requests were sent."""
        self.without_retry_after = 0

    def report(self, seconds: float) -> dict[str, Any]:
        """As JSON."""
        return {
            "served a second": round(len(self.good) / seconds, 1),
            "refused a second": round(len(self.refused) / seconds, 1),
            "served ms": milliseconds(self.good),
            "refused ms": milliseconds(self.refused),
            "sent late ms": milliseconds(self.late),
            "answers": {str(status): count for status, count in sorted(self.answers.items())},
            "refusals without Retry-After": self.without_retry_after,
        }


class Load:
    """Requests of the mix."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self._dice = random.Random(3)
        self._numbers = itertools.count()
        self._tokens: list[str] = []
        self._jobs: defaultdict[int, list[str]] = defaultdict(list)

    async def prepare(self) -> None:
        """The users."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        for number in range(USERS):
            made = {"name": f"u{number}", "role": "user"}
            async with self._session.post(f"{self._url}{ADMIN}/tokens", json=made, headers=headers) as answer:
                self._tokens.append((await answer.json())["token"])

    async def one(self, phase: Phase) -> None:
        """One request of the mix."""
        user, draw = self._dice.randrange(USERS), self._dice.random()
        jobs = self._jobs[user]
        if draw < 0.15:
            name = f"o{next(self._numbers)}"
            if await self._ask(phase, user, "POST", WORKLOADS, pod(name, "default")) == 201:
                jobs.append(name)
        elif draw < 0.30 and jobs:
            name = jobs.pop(self._dice.randrange(len(jobs)))
            if await self._ask(phase, user, "DELETE", f"{WORKLOADS}/default/pod/{name}") not in _GOOD:
                jobs.append(name)
        elif draw < 0.65 or not jobs:
            await self._ask(phase, user, "GET", WORKLOADS)
        else:
            await self._ask(phase, user, "GET", f"{WORKLOADS}/default/pod/{self._dice.choice(jobs)}")

    async def _ask(self, phase: Phase, user: int, method: str, path: str, body: Any = None) -> int:
        clock = asyncio.get_running_loop().time
        headers = {"Authorization": f"Bearer {self._tokens[user]}", "Content-Type": "application/json"}
        data, began, retry = None if body is None else msgspec.json.encode(body), clock(), ""
        try:
            async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
                await answer.read()
                status, retry = answer.status, answer.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, OSError):
            status = 0
        phase.answers[status] += 1
        if status in _GOOD:
            phase.good.append(clock() - began)
        elif status in _REFUSED:
            phase.refused.append(clock() - began)
            phase.without_retry_after += not retry
        return status

    async def closed(self, seconds: float) -> Phase:
        """As many as are answered, so many at once."""
        phase, clock = Phase(), asyncio.get_running_loop().time
        until = clock() + seconds

        async def again() -> None:
            while clock() < until:
                refused = len(phase.refused)
                await self.one(phase)
                if len(phase.refused) > refused:
                    await asyncio.sleep(_PAUSE)

        await asyncio.gather(*(again() for _ in range(AT_ONCE)))
        return phase

    async def open(self, rate: float, seconds: float) -> Phase:
        """So many a second, each when it is due."""
        phase, clock = Phase(), asyncio.get_running_loop().time
        began = clock()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                due = began + number / rate
                if (ahead := due - clock()) > 0:
                    await asyncio.sleep(ahead)
                elif not number % 20:
                    await asyncio.sleep(0)
                phase.late.append(clock() - due)
                tasks.create_task(self.one(phase))
        return phase


async def measure(processes: Processes, seconds: float, times: list[float]) -> dict[str, Any]:
    """What was measured."""
    processes.level = "warning"
    processes.start(SCHEDULER, "scheduler")
    processes.level = "info"
    url = await served(processes.start(API, "api", "--port", "0"))
    timeout, connector = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS), aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
        connect(processes.kubeconfigs["admin"]) as kube,
    ):
        await Readiness(session, [url]).all_ready()
        await allow_users(processes)
        load = Load(session, url)
        await load.prepare()
        await load.closed(5)  # what is slow the first time only
        gc.collect()
        gc.freeze()
        before = spent(processes)
        rate = len((capacity := await load.closed(seconds)).good) / seconds
        cpu = {name: round((now - before[name]) / seconds, 2) for name, now in spent(processes).items()}
        told: dict[str, Any] = {"at once": AT_ONCE, "served": capacity.report(seconds), "cores used": cpu}
        for factor in times:
            before = spent(processes)
            phase = await load.open(rate * factor, seconds)
            cpu = {name: round((now - before[name]) / seconds, 2) for name, now in spent(processes).items()}
            told[f"{factor:g} times"] = phase.report(seconds) | {"cores used": cpu}
            await asyncio.sleep(3)
        told["pods in the end"] = len((await kube.list(PODS)).items)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--times", default="1,3,10")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgresql() as database:
        cluster = Cluster(Path(folder))
        processes = Processes(database, database.create("overload"), cluster.pid, cluster.kubeconfigs, Path(folder))
        try:
            times = [float(part) for part in given.times.split(",")]
            print(json.dumps(asyncio.run(measure(processes, given.seconds, times)), indent=2))
        finally:
            processes.stop()
            cluster.stop()


if __name__ == "__main__":
    main()
