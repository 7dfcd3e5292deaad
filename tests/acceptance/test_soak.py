"""Two replicas of the REST service and a scheduler, a process each, on one PostgreSQL that goes away under load.

Nothing that was accepted is lost or done twice, readiness tells the truth all the while, and no log has a secret.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from t9ksched.kube.resources import PODS, ROLEBINDINGS, ROLES
from t9ksched.kube.setup.rbac import API, SCHEDULER
from t9ksched.kube.transport.config import connect
from t9ksched.store import Store, history
from t9ksched.store.history import Event
from tests import forkserver
from tests.acceptance.conftest import TIMEOUT_SECONDS, Cluster, environment
from tests.acceptance.load import QUEUES, USERS, Ledger, Load
from tests.forkserver import Process
from tests.postgresql import PASSWORD, PostgreSQL, postgresql

pytestmark = pytest.mark.postgres
ADMIN_TOKEN, INTERNAL = "administrator-of-the-soak", "internal-secret-of-the-soak"


@dataclass
class Processes:
    """What runs, and where each logs."""

    database: PostgreSQL
    address: str
    cluster: int
    kubeconfigs: dict[str, Path]
    folder: Path
    level: str = "debug"
    """Of what is logged."""
    running: list[Process] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    also: dict[str, str] = field(default_factory=dict)
    """Further settings."""

    def start(self, account: str, *command: str) -> Path:
        """Start a role; where it logs."""
        log = self.folder / f"{len(self.logs)}-{command[0]}.log"
        given = {
            "T9KSCHED_DB": self.address,
            "T9KSCHED_KUBECONFIG": str(self.kubeconfigs[account]),
            "T9KSCHED_INTERNAL_SECRET": INTERNAL,
            "T9KSCHED_ADMIN_TOKEN": ADMIN_TOKEN,
            "T9KSCHED_LOG_FORMAT": "json",
            "T9KSCHED_LOG_LEVEL": self.level,
            **self.also,
        }
        with log.open("w") as lines:
            process = forkserver.start("t9ksched", command, environment() | given, stdout=lines, stderr=lines)
        self.running.append(process)
        self.logs.append(log)
        return log

    def stop(self) -> None:
        """End all of them."""
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(TIMEOUT_SECONDS)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    cluster = Cluster(tmp_path)
    try:
        with postgresql() as database:
            made = Processes(database, database.create("soak"), cluster.pid, cluster.kubeconfigs, tmp_path)
            try:
                yield made
            finally:
                made.stop()
    finally:
        cluster.stop()


async def served(log: Path) -> str:
    """The address that a replica's log tells, once it does."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            for line in (await asyncio.to_thread(log.read_text)).splitlines():
                if '"serving"' in line:
                    return str(json.loads(line)["url"])
            await asyncio.sleep(0.05)


class Readiness:
    """What replicas say of themselves, beside what is true. `down` is None while that is just changing."""

    def __init__(self, session: aiohttp.ClientSession, replicas: list[str]) -> None:
        self._session, self._replicas = session, replicas
        self.down: bool | None = None
        self.lies: list[str] = []
        self.seen: Counter[tuple[bool | None, int]] = Counter()

    async def all_ready(self) -> None:
        """Wait until every replica says so."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for replica in self._replicas:
                while (await self._ask(replica, "readyz"))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    async def watch(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            for replica in self._replicas:
                before = self.down
                status, told = await self._ask(replica, "readyz")
                if before is not self.down:
                    continue
                self.seen[before, status] += 1
                down = [fault["path"] for fault in json.loads(told).get("errors", ())]
                if before and (status != 503 or "database" not in down):
                    self.lies.append(f"without a database: {status} {told}")
                if status not in (200, 503):
                    self.lies.append(f"{status} {told}")
                if (await self._ask(replica, "healthz"))[0] != 200:
                    self.lies.append(f"{replica} is not alive")
            await asyncio.sleep(0.1)

    async def _ask(self, replica: str, path: str) -> tuple[int, str]:
        async with self._session.get(f"{replica}/{path}") as answer:
            return answer.status, await answer.text()


async def allow_users(processes: Processes) -> None:
    """Let the users create pods, as the owner of a namespace does."""
    meta, api = {"name": "submitters", "namespace": "default"}, "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    subjects = [{"apiGroup": api, "kind": "User", "name": f"u{number}"} for number in range(USERS)]
    binding = {"subjects": subjects, "roleRef": {"apiGroup": api, "kind": "Role", "name": "submitters"}}
    async with connect(processes.kubeconfigs["admin"]) as kube:
        for res, said in ((ROLES, {"rules": rules}), (ROLEBINDINGS, binding)):
            await kube.create(
                res, {"apiVersion": res.api_version, "kind": res.kind, "metadata": meta, **said}, "default"
            )


@asynccontextmanager
async def replicas(processes: Processes) -> AsyncIterator[tuple[Load, Readiness]]:
    """Everything runs and is ready."""
    processes.start(SCHEDULER, "scheduler")
    logs = [processes.start(API, "api", "--port", "0") for _ in range(2)]
    urls = [await served(log) for log in logs]
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        readiness = Readiness(session, urls)
        await readiness.all_ready()
        await allow_users(processes)
        load = Load(session, urls, ADMIN_TOKEN, seed=5)
        await load.prepare()
        yield load, readiness


def spent(processes: Processes) -> dict[str, float]:
    """Seconds of CPU that each process has used so far; `load` is this one."""
    pids = {log.stem: process.pid for process, log in zip(processes.running, processes.logs, strict=True)}
    pids |= {"cluster": processes.cluster, "load": os.getpid()}
    fields = {name: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for name, pid in pids.items()}
    return {name: (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK") for name, found in fields.items()}


async def outage(processes: Processes, readiness: Readiness, after: float, seconds: float) -> None:
    """The database goes away for a while."""
    await asyncio.sleep(after)
    readiness.down = None
    await asyncio.to_thread(processes.database.stop)
    readiness.down = True
    await asyncio.sleep(seconds)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not readiness.seen[True, 503]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    readiness.down = None
    await asyncio.to_thread(processes.database.start)
    await readiness.all_ready()
    readiness.down = False


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [pytest.param(100, 9, id="seconds"), pytest.param(200, 900, id="long", marks=pytest.mark.soak)],
)
async def test_a_database_restarted_under_load(processes: Processes, rate: float, seconds: float) -> None:
    async with replicas(processes) as (load, readiness):
        watching = asyncio.create_task(readiness.watch())
        breaking = asyncio.create_task(outage(processes, readiness, seconds / 3, min(5.0, seconds / 4)))
        began = spent(processes)
        reached = await load.run(rate, seconds)
        cpu = {
            name: round((now - began[name]) * 1000 / load.ledger.served, 2) for name, now in spent(processes).items()
        }
        await breaking
        await readiness.all_ready()
        await load.run(rate, 1)
        watching.cancel()
        ledger = load.ledger
        print(f"{reached:.0f} of {rate} requests a second answered, CPU ms a request served {cpu}")  # noqa: T201
        print(f"answers {dict(ledger.answers)}, readiness {dict(readiness.seen)}")  # noqa: T201
        assert not ledger.faults, ledger.faults[:5]
        assert not readiness.lies, readiness.lies[:5]
        assert readiness.seen[True, 503], "it was seen to be down"
        assert ledger.answers[503], "the load met the outage"
        await everything_stands(processes, load)
    assert all(process.poll() is None for process in processes.running), "all of them live on"
    no_secret(processes, load)


async def everything_stands(processes: Processes, load: Load) -> None:
    """Each promise was kept, once; what is open was done once or not at all."""
    ledger = load.ledger
    async with (
        await Store.open(processes.address, migrate=False) as store,
        connect(processes.kubeconfigs["admin"]) as kube,
    ):
        await jobs_stand(ledger, store, {pod["metadata"]["name"] for pod in (await kube.list(PODS, "default")).items})
        await queues_stand(ledger, store)
        known = {token.name for token in await store.tokens.list()}
        users = {"admin", *(f"u{number}" for number in range(USERS))}
        assert ledger.tokens.keys() | users <= known <= ledger.tokens.keys() | users | ledger.unknown_tokens
        assert not ledger.revoked.keys() & known
        for secrets, good in ((ledger.tokens, True), (ledger.revoked, False)):
            for secret in list(secrets.values())[:20]:
                assert (await store.tokens.authenticate(secret) is not None) is good


async def jobs_stand(ledger: Ledger, store: Store, pods: set[str]) -> None:
    """Accepted jobs were submitted once, start, and are bound once, whatever happened to the database."""
    assert ledger.jobs
    kept = ledger.jobs.keys() - ledger.cancelled
    assert kept <= pods | ledger.unknown_cancelled, "no accepted job is lost"
    kept &= pods
    assert not ledger.cancelled & pods, "no cancelled job is back"
    async with asyncio.timeout(5 * TIMEOUT_SECONDS):
        while True:
            told = await happened(store)
            waiting = [name for name in kept if not told[ledger.jobs[name], history.BOUND]]
            if not waiting:
                break
            await asyncio.sleep(0.5)
    for name, uid in ledger.jobs.items():
        assert told[uid, history.SUBMITTED] == 1, name
        assert told[uid, history.BOUND] <= 1, name
    submitted = {uid for (uid, event), _ in told.items() if event == history.SUBMITTED}
    assert len(submitted) <= len(ledger.jobs) + len(ledger.unknown_jobs)
    accepted = await store.acceptances.of([ledger.jobs[name] for name in kept])
    assert {one.name: one.submitter for one in accepted.values()}.items() <= ledger.owners.items()


async def happened(store: Store) -> Counter[tuple[str | None, str]]:
    """How often each thing happened to each job."""
    found: Counter[tuple[str | None, str]] = Counter()
    async for event in pages(store, events={history.SUBMITTED, history.BOUND}):
        found[event.uid, event.event] += 1
    return found


async def pages(store: Store, events: set[str]) -> AsyncIterator[Event]:
    """All events of these kinds."""
    after = 0
    while page := await store.history.list(events=events, after=after, limit=5000):
        for event in page:
            yield event
        after = page[-1].id


async def queues_stand(ledger: Ledger, store: Store) -> None:
    """Each change of a queue is there, and was written to history once, from the state that it found."""
    records = {record.name: record for record in await store.queues.list()}
    assert ledger.made <= records.keys()
    assert not ledger.gone & records.keys()
    expected = {f"q{number}" for number in range(QUEUES)} | {"default"} | ledger.made
    assert records.keys() <= expected | ledger.unknown_queues
    changed = [event async for event in pages(store, events={history.QUEUE_CHANGED})]
    for name in (f"q{number}" for number in range(QUEUES)):
        labels = records[name].labels
        step = int(labels["step"])
        sure, perhaps = ledger.labels[name], ledger.unknown_labels[name]
        assert sure <= labels.keys() - {"step"} <= sure | perhaps, "no edit was lost"
        assert ledger.steps[name] <= step <= ledger.steps[name] + ledger.unknown_steps[name], "nor made on old sight"
        lives = [event.detail for event in changed if event.queue == name]
        assert len(lives) == len(labels) - 1 + step, "each edit is on record once"
        assert all(one["after"] == two["before"] for one, two in pairwise(lives))
        assert not lives or lives[-1]["after"]["labels"] == labels


def no_secret(processes: Processes, load: Load) -> None:
    """None of the tokens and passwords of this run stands in any log, that of PostgreSQL included."""
    made = [*load.ledger.tokens.values(), *load.ledger.revoked.values()]
    secrets = [PASSWORD, INTERNAL, *load.secrets, *made]
    assert len(secrets) > USERS
    for name, text in [(str(log), log.read_text()) for log in processes.logs] + [("postgres", processes.database.log)]:
        assert text
        assert not [secret for secret in secrets if secret in text], name
        assert "t9k_" not in text, name
        assert "Traceback" not in text, name
