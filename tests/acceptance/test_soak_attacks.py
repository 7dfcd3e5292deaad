"""Two replicas and a scheduler on PostgreSQL under every attack at random, beside honest load, for an hour.

`T9KSCHED_SOAK_SECONDS` says for how long, `T9KSCHED_SOAK_REPORT` where the report goes (JSON; it is printed too). What
was promised to honest users is kept, nothing crosses to others, memory stays flat, logs stay small.
"""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS, ROLEBINDINGS, ROLES
from t9ksched.kube.setup.rbac import API, SCHEDULER
from t9ksched.kube.transport.config import connect
from tests.acceptance.attacks import Attacks
from tests.acceptance.cards import GPU, CardWatch, passed, queues_on_record
from tests.acceptance.conftest import TIMEOUT_SECONDS
from tests.acceptance.load import ADMIN, WORKLOADS, pod
from tests.acceptance.test_soak import ADMIN_TOKEN, Processes, Readiness, processes, served
from tests.forkserver import Process

__all__ = ["processes"]
pytestmark = [pytest.mark.postgres, pytest.mark.soak]
SECONDS = float(os.environ.get("T9KSCHED_SOAK_SECONDS", "3600"))
P99_SECONDS = float(os.environ.get("T9KSCHED_SOAK_P99", "1.0"))
REPORT = os.environ.get("T9KSCHED_SOAK_REPORT", "")
WORKERS, PAUSE = 4, 0.2
"""So many honest users go through a job's life again and again, and wait so many seconds between two requests."""
QUOTA = 8
LOG_BYTES = 10_000_000
_EXCUSED = 20.0
"""Seconds after a blow in which a role may end because of it."""
_FREEZE, _BRIEFLY, _BETWEEN = 6.0, 2.0, 25.0
"""Seconds for which a role is frozen, for which one whose memory is compared is, and on the average between two blows.
A scheduler that is frozen for a lease ends, and is started again as a Deployment does it.
"""


class Roles:
    """The processes by role; one is killed or frozen now and then, and started again with its old port."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._of: dict[str, tuple[str, tuple[str, ...], Process]] = {}
        self.frozen: set[str] = set()
        self.spared: set[str] = set()
        """Roles that are frozen only, so that their memory can be compared."""
        self.blows: Counter[str] = Counter()
        self.died: list[str] = []
        """Roles that ended by themselves."""
        self._struck: dict[str, float] = {}
        self._dice = random.Random(7)

    def start(self, name: str, account: str, *command: str) -> Path:
        """Start a role; where it logs."""
        log = self._processes.start(account, *command)
        self._of[name] = account, command, self._processes.running[-1]
        return log

    def port(self, name: str, url: str) -> None:
        """From now on a replica is started with the port that it has."""
        account, _, process = self._of[name]
        self._of[name] = account, ("api", "--port", url.rpartition(":")[2]), process

    async def supervise(self) -> None:
        """Start roles that ended again; one that was not struck lately had no reason to."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(0.5)
            for name, (account, command, process) in list(self._of.items()):
                if name in self.frozen or process.poll() is None:
                    continue
                if clock() - self._struck.get(name, -1e9) > _EXCUSED:
                    self.died.append(name)
                self.blows[f"{name} ended after a blow"] += 1
                self.start(name, account, *command)

    def memory(self) -> dict[str, int]:
        """Resident MiB of each role."""
        found = {}
        for name, (_, _, process) in self._of.items():
            text = Path(f"/proc/{process.pid}/status").read_text()
            found[name] = int(text.partition("VmRSS:")[2].split()[0]) // 1024
        return found

    async def strike(self) -> None:
        """Kill or freeze one role, again and again until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._dice.uniform(0.4, 1.6) * _BETWEEN)
                name, kills = self._dice.choice(sorted(self._of)), self._dice.random() < 0.5
                kills = kills and name not in self.spared
                account, command, process = self._of[name]
                self.blows[f"{'kill' if kills else 'freeze'} {name}"] += 1
                self.frozen.add(name)
                if kills:
                    process.kill()
                    await asyncio.to_thread(process.wait)
                    await served_again(self.start(name, account, *command), command)
                else:
                    process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(_BRIEFLY if name in self.spared else _FREEZE)
                    process.send_signal(signal.SIGCONT)
                    await asyncio.sleep(1)
                self._struck[name] = asyncio.get_running_loop().time()
                self.frozen.discard(name)
        finally:
            for _, _, process in self._of.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)


async def served_again(log: Path, command: tuple[str, ...]) -> None:
    """A replica that was started again answers."""
    if command[0] == "api":
        await served(log)
        await asyncio.sleep(1)


class Honest:
    """Users who submit a job, look at it and cancel it. What was promised to them is kept."""

    def __init__(self, session: aiohttp.ClientSession, replicas: dict[str, str], roles: Roles) -> None:
        self._session = session
        self._replicas = replicas
        self._roles = roles
        self._count = 0
        self.tokens: dict[str, str] = {}
        self.latencies: list[float] = []
        self.answers: Counter[int] = Counter()
        self.cycles = 0
        self.standing: set[str] = set()
        """Jobs that were accepted and that no user cancelled."""
        self.faults: list[str] = []

    async def ask(self, user: str, method: str, path: str, body: Any = None) -> int:
        """One request; a replica that is frozen or killed meanwhile is no measure of latency."""
        well = [name for name in sorted(self._replicas) if name not in self._roles.frozen] or sorted(self._replicas)
        self._count += 1
        name, clock = well[self._count % len(well)], asyncio.get_running_loop().time
        began, data = clock(), None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": "application/json"}
        url = self._replicas[name] + path
        try:
            async with self._session.request(method, url, data=data, headers=headers) as answer:
                await answer.read()
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            status = 0
        self.answers[status] += 1
        struck = name in self._roles.frozen
        if status and not struck:
            self.latencies.append(clock() - began)
        if status == 500 or (status in (401, 403, 404) and method != "DELETE"):
            self.faults.append(f"{method} {path}: {status}")
        return status

    async def work(self, user: str, until: float) -> None:
        """Lives of jobs, one after the other; now and then one is left standing."""
        clock, number = asyncio.get_running_loop().time, 0
        while clock() < until:
            number += 1
            name = f"{user}-{number}"
            made = pod(name, "honest")
            made["metadata"]["annotations"] = {}  # type: ignore[index]
            status = await self.ask(user, "POST", WORKLOADS, made)
            await asyncio.sleep(PAUSE)
            if status == 201:
                job = f"{WORKLOADS}/default/pod/{name}"
                self.standing.add(name)
                for path in (job, WORKLOADS, f"{job}/explanation", "/apis/v1/queues"):
                    await self.ask(user, "GET", path)
                    await asyncio.sleep(PAUSE)
                if number % 50:
                    self.standing.discard(name)
                    for _ in range(100):
                        if clock() >= until or await self.ask(user, "DELETE", job) in (200, 404):
                            break
                        await asyncio.sleep(PAUSE)
                    self.cycles += 1

    def report(self) -> dict[str, Any]:
        """What they saw."""
        ordered = sorted(self.latencies) or [0.0]
        parts = {
            f"p{part}": round(ordered[min(len(ordered) - 1, len(ordered) * part // 100)], 3) for part in (50, 95, 99)
        }
        return {
            "latency seconds": parts,
            "answers": dict(self.answers),
            "cycles": self.cycles,
            "faults": self.faults[:9],
        }


async def prepare(session: aiohttp.ClientSession, url: str, kube: ClusterPort) -> dict[str, str]:
    """Two queues and their users; a token by user."""
    users, headers = (
        ["mallory", *(f"u{number}" for number in range(WORKERS))],
        {"Authorization": f"Bearer {ADMIN_TOKEN}"},
    )
    quota = {"quota": {"requests": {GPU: str(QUOTA)}}, "namespaceSelector": {}}
    for name, members, spec in (("honest", users[1:], {}), ("attacked", users[:1], quota)):
        body = {"name": name, "labels": {}, "members": {"users": members}, "spec": spec}
        async with session.post(f"{url}{ADMIN}/queues", json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
    tokens = {}
    for name in users:
        body = {"name": name, "role": "user"}
        async with session.post(f"{url}{ADMIN}/tokens", json=body, headers=headers) as answer:
            tokens[name] = (await answer.json())["token"]
    meta, api = {"name": "submitters", "namespace": "default"}, "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    subjects = [{"apiGroup": api, "kind": "User", "name": name} for name in users]
    binding = {"subjects": subjects, "roleRef": {"apiGroup": api, "kind": "Role", "name": "submitters"}}
    for res, said in ((ROLES, {"rules": rules}), (ROLEBINDINGS, binding)):
        await kube.create(res, {"apiVersion": res.api_version, "kind": res.kind, "metadata": meta, **said}, "default")
    return tokens


async def assail(attacks: Attacks, honest: Honest, until: float) -> None:
    """Attacks at random, two at a time."""

    async def one() -> None:
        while asyncio.get_running_loop().time() < until:
            attacks.theirs = sorted(honest.standing)
            await attacks.draw()
            await asyncio.sleep(0.3)

    await asyncio.gather(one(), one())


async def test_attacks_at_random_beside_honest_load(processes: Processes) -> None:
    processes.level = "info"
    roles = Roles(processes)
    roles.start("scheduler", SCHEDULER, "scheduler")
    logs = {name: roles.start(name, API, "api", "--port", "0") for name in ("one", "two")}
    urls = {name: await served(log) for name, log in logs.items()}
    for name, url in urls.items():
        roles.port(name, url)
    clock = asyncio.get_running_loop().time
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as theirs,
        connect(processes.kubeconfigs["admin"]) as kube,
    ):
        await Readiness(session, list(urls.values())).all_ready()
        honest = Honest(session, urls, roles)
        honest.tokens = await prepare(session, urls["one"], kube)
        attacks = Attacks(theirs, list(urls.values()), honest.tokens["mallory"], kube, seed=1)
        until, early = clock() + SECONDS, {}
        cards = CardWatch(kube)
        striking, watching = asyncio.create_task(roles.strike()), asyncio.create_task(cards.follow())
        supervising = asyncio.create_task(roles.supervise())
        working = [asyncio.create_task(honest.work(f"u{number}", until)) for number in range(WORKERS)]
        assailing = asyncio.create_task(assail(attacks, honest, until))
        await asyncio.sleep(SECONDS / 3)
        roles.spared = {"scheduler", "one"}
        await asyncio.sleep(SECONDS / 6)  # one that was killed just now has begun again and has filled its caches
        early = roles.memory()
        await asyncio.gather(*working, assailing)
        striking.cancel()
        await asyncio.wait([striking])
        assert not watching.done(), watching.exception()
        watching.cancel()
        honest_end = honest.report()
        await Readiness(session, list(urls.values())).all_ready()
        assert not supervising.done(), supervising.exception()
        supervising.cancel()
        most, over = passed(
            cards.book.steps, await queues_on_record(processes.address), {"attacked": QUOTA, "honest": 0}
        )
        there = {one["metadata"]["name"] for one in (await kube.list(PODS, "default")).items}
        report = {
            "seconds": SECONDS,
            "honest": honest_end,
            "attacks": dict(attacks.counts),
            "answers to attacks": dict(attacks.answers),
            "blows": dict(roles.blows),
            "memory MiB": {"after half": early, "in the end": roles.memory()},
            "log bytes": {log.name: log.stat().st_size for log in processes.logs},
            "cards": {"changes": cards.book.changes, "audits": cards.audits, "most held by queue": dict(most)},
            "crossed": [*over, *cards.crossed, *attacks.crossed][:20],
            "lost": sorted(honest.standing - there)[:20],
            "ended by themselves": roles.died,
        }
    text = json.dumps(report, indent=2)
    print(text)  # noqa: T201
    if REPORT:
        await asyncio.to_thread(Path(REPORT).write_text, text)
    assert not report["crossed"]
    assert not report["lost"], "no accepted job is lost"
    assert not report["ended by themselves"]
    assert not honest.faults, honest.faults[:5]
    assert honest_end["latency seconds"]["p99"] < P99_SECONDS
    assert sum(report["log bytes"].values()) < LOG_BYTES
    for log in processes.logs:
        assert "Traceback" not in log.read_text(), log.name
    for name, before in report["memory MiB"]["after half"].items():
        if name in roles.spared:
            assert report["memory MiB"]["in the end"][name] < 1.1 * before + 10, name
