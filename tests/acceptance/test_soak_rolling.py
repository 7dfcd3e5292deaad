"""A rolling upgrade under load: replicas of the earlier program are replaced one by one, as Deployments do it.

REST goes on behind a balancer that knows which replicas are ready; processes that do not serve a request at that moment
are killed or frozen meanwhile. Nothing is evicted, no card is given twice, no accepted job is lost.
"""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.client.operations import Retries
from t9ksched.devcluster.audit.auditor import audit
from t9ksched.kube.resources import LEASES, NODES, PODGROUPS, PODS
from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.store import Store, history
from tests.acceptance import previous
from tests.acceptance.conftest import EXAMPLES, TIMEOUT_SECONDS, environment, queue, request, run
from tests.acceptance.load import UNKNOWN, Load
from tests.acceptance.test_soak import (
    ADMIN_TOKEN,
    INTERNAL,
    Processes,
    allow_users,
    everything_stands,
    pages,
    processes,
    served,
)

__all__ = ["processes"]
pytestmark = [pytest.mark.postgres, pytest.mark.soak]
SHED = "more requests"
"""What a replica says that has more to do than its machine can: not for the upgrade."""
DRAIN_SECONDS = 2.0
"""Between the moment that a replica of the earlier program gets no new requests and its end."""
LEAVE_SECONDS = 5
"""How long a replica of this program serves after it was told to stop."""
LEARN_SECONDS = 2.0
"""How long the balancer goes on sending requests to a replica that was told to stop."""


class Balancer:
    """The replicas that get requests, in turn."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self._next = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._next += 1
        return self.urls[self._next % len(self.urls)]


class Told(Load):
    """Keeps what was answered with "not now", or not at all, and at which step."""

    step = "before"

    def __init__(self, session: aiohttp.ClientSession, balancer: Balancer) -> None:
        super().__init__(session, balancer, ADMIN_TOKEN, seed=5)  # type: ignore[arg-type]
        self.refused: Counter[tuple[str, str, int, str]] = Counter()
        """By step, request, status and what was said: of first answers alone."""
        self.by_step: Counter[str] = Counter()
        self.asked = self.given_up = 0
        """Requests, and those that had no answer after they were repeated as `t9ksched.client` does it."""

    async def ask(
        self, method: str, path: str, body: Any = None, user: str = "admin", **headers: str
    ) -> tuple[int, Any, str]:
        self.asked += 1
        self.by_step[self.step] += 1
        answer = await super().ask(method, path, body, user, **headers)
        if answer[0] not in UNKNOWN:
            return answer
        kind = path.rpartition("/")[2].partition("?")[0] if "explanation" in path else path.split("/")[3]
        said = answer[1].get("detail", "") if isinstance(answer[1], dict) else str(answer[1])
        self.refused[self.step, f"{method} {kind}", answer[0], said[:90]] += 1
        retries = Retries()
        for attempt in range(retries.times):
            if answer[0] != 429 and method != "GET":
                break
            await asyncio.sleep(max(1.0, retries.pause(attempt)))  # as `Retry-After` says
            answer = await super().ask(method, path, body, user, **headers)
            if answer[0] not in UNKNOWN:
                return answer
        self.given_up += 1
        return answer

    def report(self) -> str:
        """How many were served, at once and after they were repeated."""
        at_once, later = (100 - 100 * count / self.asked for count in (self.refused.total(), self.given_up))
        return f"{at_once:.3f} % of {self.asked} served at once, {later:.3f} % with repeats; {dict(self.by_step)}"


class Roles:
    """Processes of both programs."""

    def __init__(self, made: Processes, tree: Path) -> None:
        self.made, self.tree = made, tree
        self.old: list[subprocess.Popen[bytes]] = []

    def start_old(self, account: str, *command: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = self.made.folder / f"old-{len(self.old)}-{command[0]}.log"
        given = {
            "T9KSCHED_DB": self.made.address,
            "T9KSCHED_KUBECONFIG": str(self.made.kubeconfigs[account]),
            "T9KSCHED_INTERNAL_SECRET": INTERNAL,
            "T9KSCHED_ADMIN_TOKEN": ADMIN_TOKEN,
            "T9KSCHED_LOG_FORMAT": "json",
        }
        self.old.append(previous.start(self.tree, environment() | given, log, *command))
        return self.old[-1], log

    def kill_old(self) -> None:
        for process in self.old:
            process.kill()
            process.wait()


async def ready(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.2)


async def ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert await asyncio.to_thread(process.wait, 60) == 0


async def watched(kube: Client, findings: list[str], moved: dict[str, tuple[str, str]]) -> None:
    """Audit the cluster again and again; pods of the job that runs all the while must stay as they are."""
    while True:
        nodes, pods, groups = [(await kube.list(one)).items for one in (NODES, PODS, PODGROUPS)]
        report = audit(nodes, pods, groups)
        if not report.ok:
            findings.append(str(report))
        here = {
            pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
            for pod in pods
            if pod["metadata"]["name"].startswith("resnet-")
        }
        if moved and here != moved:
            findings.append(f"{here} in place of {moved}")
        moved.update(here)
        await asyncio.sleep(0.5)


async def leader(kube: Client) -> int:
    spec = (await kube.get(LEASES, "t9k-scheduler", SYSTEM_NAMESPACE))["spec"]
    return int((spec.get("holderIdentity") or "_0").rpartition("_")[2])


async def again(made: Processes, balancer: Balancer, session: aiohttp.ClientSession) -> None:
    """Replace each replica of REST once more, now that it is of this program: it is told to stop while it still gets
    requests, as a cluster does it, and the balancer learns of it later.
    """
    here = [
        (process, await served(log)) for process, log in zip(made.running, made.logs, strict=True) if "api" in log.name
    ]
    for process, url in here:
        fresh = await served(await asyncio.to_thread(made.start, API, "api", "--port", "0"))
        await ready(session, fresh)
        balancer.urls.append(fresh)
        process.terminate()
        await asyncio.sleep(LEARN_SECONDS)
        balancer.urls.remove(url)
        assert await asyncio.to_thread(process.wait, 60) == 0


async def rolled(
    made: Processes, roles: Roles, balancer: Balancer, session: aiohttp.ClientSession, old: Any, load: Told
) -> None:
    """Replace every replica, as Deployments do; kill and freeze what stands by."""
    load.step = "REST"
    for process, url in old["api"]:
        log = await asyncio.to_thread(made.start, API, "api", "--port", "0")
        fresh = await served(log)
        await ready(session, fresh)
        balancer.urls = [one for one in balancer.urls if one != url] + [fresh]
        await asyncio.sleep(DRAIN_SECONDS)
        await ended(process)
    load.step = "REST again"
    await again(made, balancer, session)
    async with connect(made.kubeconfigs["admin"]) as kube:
        first, second = old["scheduler"]
        leads = await leader(kube)
        standing, leading = (first, second) if second.pid == leads else (second, first)
        load.step = "a waiting scheduler is killed, another frozen"
        standing.kill()
        await asyncio.to_thread(made.start, SCHEDULER, "scheduler")
        await asyncio.to_thread(made.start, SCHEDULER, "scheduler")
        await asyncio.sleep(10)
        frozen = made.running[-1].pid
        os.kill(frozen, signal.SIGSTOP)
        await asyncio.sleep(8)
        os.kill(frozen, signal.SIGCONT)
        load.step = "the leader ends"
        await ended(leading)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while await leader(kube) not in {process.pid for process in made.running}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    load.step = "controller"
    await asyncio.to_thread(made.start, CONTROLLER, "controller")
    old["controller"].kill()
    load.step = "after"


@pytest.mark.parametrize("rate", [8, 25, 50])
async def test_every_replica_is_replaced_under_load(processes: Processes, tmp_path: Path, rate: int) -> None:
    """At so many requests a second."""
    made = processes
    made.also["T9KSCHED_LEAVE_SECONDS"] = str(LEAVE_SECONDS)
    roles = Roles(made, previous.previous(tmp_path))
    try:
        schedulers = [roles.start_old(SCHEDULER, "scheduler")[0] for _ in range(2)]
        controller = roles.start_old(CONTROLLER, "controller")[0]
        apis = [roles.start_old(API, "api", "--port", "0") for _ in range(2)]
        urls = [await served(log) for _, log in apis]
        balancer, findings, moved = Balancer(), list[str](), dict[str, tuple[str, str]]()
        balancer.urls = list(urls)
        old = {
            "api": [(process, url) for (process, _), url in zip(apis, urls, strict=True)],
            "scheduler": schedulers,
            "controller": controller,
        }
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, connect(made.kubeconfigs["admin"]) as kube:
            for url in urls:
                await ready(session, url)
            await allow_users(made)
            load = Told(session, balancer)
            await load.prepare()
            await asyncio.to_thread(_long_job, urls[0])
            load.ledger.unknown_jobs.add("resnet")
            load.ledger.unknown_queues.add("a100")
            watching = asyncio.create_task(watched(kube, findings, moved))
            rolling = asyncio.create_task(rolled(made, roles, balancer, session, old, load))
            while not rolling.done():
                await load.run(rate, 5)
            await rolling
            await load.run(rate, 10)
            total, during = load.asked, Counter(load.refused)
            print(load.report(), *(f"{count} x {what}" for what, count in during.items()), sep="\n")  # noqa: T201
            # The leader dies without a word: what only it knows is away for the time of a lease.
            os.kill(await leader(kube), signal.SIGKILL)
            await load.run(rate, 20)
            killed = load.refused.total() - during.total()
            print(f"after kill -9 of the leader, in 20 s: {killed} of {load.asked - total} not at once")  # noqa: T201
            watching.cancel()
            assert not load.ledger.faults, load.ledger.faults[:5]
            assert not findings, findings[:3]
            assert len(moved) == 4
            failed = sum(count for (*_, said), count in during.items() if SHED not in said)
            assert failed / total <= 0.001, during
            await everything_stands(made, load)
        async with await Store.open(made.address, migrate=False) as store:
            evicted = [event async for event in pages(store, events={history.PREEMPTED, history.TAKEN_BACK})]
            assert not evicted
    finally:
        roles.kill_old()


def _long_job(url: str) -> None:
    body = queue("a100", 16, "NVIDIA-A100-PCIE-80GB")
    assert request("POST", f"{url}/apis/v1/admin/queues", ADMIN_TOKEN, body)[0] == 201
    where = ("--server", url, "--token", ADMIN_TOKEN)
    assert run("submit", "-f", str(EXAMPLES / "pytorch.yaml"), *where).code == 0
    assert run("wait", "pj/resnet", "--for", "running", "--timeout", "100s", *where).code == 0
