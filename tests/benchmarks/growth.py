"""What jobs leave behind: rows and bytes of the database, and requests to the API server, for each 1,000 of them.

    uv run python tests/benchmarks/growth.py [--jobs 1000] [--replicas 4] [--on sqlite|postgresql]
        [--set synchronous_commit=off]...

`t9ksched up` runs on simulated nodes in a process of its own; jobs of so many pods with a card each, which run for a
second, are submitted by REST in files of 50 and waited for. What is measured is the database after the service has
stopped, less what it was before the first job, and the counters of the service's metrics page: requests to the API
server by method, all roles together. PostgreSQL runs with its defaults, durable commits among them, and what is
`--set`; its own counters say what it did. Prints one JSON object.
"""

import argparse
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import yaml
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.postgresql import PostgreSQL, postgresql

FILE = 50
NODES = {"nodes": [{"name": "node", "count": 64, "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}}]}
REQUESTS = re.compile(r"^t9ksched_kube_requests_total\{([^}]*)\} (\S+)", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


def job(index: int, replicas: int) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "registry.example/training:1", "command": ["python", "train.py"]}
    template = {
        "metadata": {"annotations": {"devcluster.tensorstack.dev/run-seconds": "1"}},
        "spec": {"containers": [container | {"resources": {"requests": amounts, "limits": amounts}}]},
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": f"job-{index}", "namespace": "default"},
        "spec": {
            "runPolicy": {"cleanUpPolicy": "None"},
            "replicaSpecs": [{"type": "worker", "replicas": replicas, "restartPolicy": "Never", "template": template}],
        },
    }


@contextmanager
def service(folder: Path, db: str) -> Iterator[tuple[str, str]]:
    """A service until the block ends; its address and token."""
    nodes = folder / "nodes.yaml"
    nodes.write_text(yaml.safe_dump(NODES))
    command = [sys.executable, "-m", "t9ksched", "up", "--port", "0", "-o", "json", "--data-dir", str(folder / "data")]
    command += ["--nodes", str(nodes), *(["--db", db] if db else [])]
    with (folder / "log").open("a") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield told["server"], told["token"]
        finally:
            process.terminate()


def requests(server: str, token: str) -> Counter[str]:
    page = httpx.get(f"{server}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).text
    counts: Counter[str] = Counter()
    for labels, count in REQUESTS.findall(page):
        told = dict(LABEL.findall(labels))
        counts[f"{told['method']} {told['code']}"] += int(float(count))
    return counts


def sizes(folder: Path, db: str) -> dict[str, tuple[int, int]]:
    """Rows and bytes by table; of SQLite the bytes of the whole file, under `file`."""
    if not db:
        path = folder / "data" / "t9ksched.db"
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
        return {name: (count, 0) for name, count in rows.items()} | {"file": (0, path.stat().st_size)}
    with psycopg.connect(db, autocommit=True) as database:
        database.execute("VACUUM")
        names = [row[0] for row in database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        return {
            name: (
                database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0],  # type: ignore[index]
                database.execute("SELECT pg_total_relation_size(%s)", [f'"{name}"']).fetchone()[0],  # type: ignore[index]
            )
            for name in names
        }


COUNTERS = """
SELECT wal_records, wal_bytes::bigint, wal_buffers_full,
    (SELECT num_requested FROM pg_stat_checkpointer), (SELECT num_timed FROM pg_stat_checkpointer),
    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
    (SELECT blks_read FROM pg_stat_database WHERE datname = current_database()),
    (SELECT blks_hit FROM pg_stat_database WHERE datname = current_database()),
    (SELECT sum(autovacuum_count) FROM pg_stat_user_tables), (SELECT sum(n_dead_tup) FROM pg_stat_user_tables)
FROM pg_stat_wal
"""
COUNTED = (
    "walRecords", "walBytes", "walBuffersFull", "checkpointsByWal", "checkpointsByTime", "commits", "blocksRead",
    "blocksHit", "autovacuums", "deadRows",
)  # fmt: skip


def counters(db: str) -> dict[str, int]:
    """What PostgreSQL counted so far."""
    with psycopg.connect(db) as database:
        row = database.execute(COUNTERS).fetchone()
    assert row is not None
    return {name: int(count or 0) for name, count in zip(COUNTED, row, strict=True)}


def configure(server: PostgreSQL, settings: Sequence[str]) -> None:
    """The defaults, which the tests' server does not have, and these settings; starts it anew."""
    with psycopg.connect(server.address(), autocommit=True) as database:
        database.execute("ALTER SYSTEM RESET ALL")
        for one in settings:
            name, _, value = one.partition("=")
            database.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    server.stop()
    server.start()


def measure(folder: Path, db: str, jobs: int, replicas: int) -> dict[str, Any]:
    with service(folder, db):
        pass  # makes the tables and the queue `default`
    before = sizes(folder, db)
    counted = counters(db) if db else {}
    began = time.perf_counter()
    with service(folder, db) as (server, token):
        asked = requests(server, token)
        for first in range(0, jobs, FILE):
            text = "---\n".join(yaml.safe_dump(job(index, replicas)) for index in range(first, min(first + FILE, jobs)))
            submit(server, token, text)
        while unfinished(server, token):
            time.sleep(2)
        time.sleep(5)
        asked = requests(server, token) - asked
    taken = time.perf_counter() - began
    counted = {name: count - counted[name] for name, count in counters(db).items()} if db else {}
    after = sizes(folder, db)
    grown = {name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in after}
    return {
        "database": "postgresql" if db else "sqlite",
        "jobs": jobs,
        "pods": jobs * replicas,
        "seconds": round(taken, 1),
        "bytesPerJob": round(sum(size for _, size in grown.values()) / jobs),
        "rows": {name: rows for name, (rows, _) in sorted(grown.items()) if rows},
        "bytes": {name: size for name, (_, size) in sorted(grown.items()) if size},
        "requests": dict(sorted(asked.items())),
        "postgresql": counted,
    }


def submit(server: str, token: str, text: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/yaml"}
    while True:
        answer = httpx.post(
            f"{server}/apis/v1/workloads", params={"queue": "default"}, headers=headers, content=text, timeout=300
        )
        if answer.status_code not in (429, 503):
            answer.raise_for_status()
            return
        time.sleep(1)


def unfinished(server: str, token: str) -> bool:
    headers = {"Authorization": f"Bearer {token}"}
    for phase in ("Pending", "Running"):
        answer = httpx.get(
            f"{server}/apis/v1/workloads", params={"phase": phase, "limit": "1"}, headers=headers, timeout=60
        )
        if answer.status_code != 200 or answer.json()["items"]:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--on", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of PostgreSQL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.on == "sqlite":
            result = measure(Path(folder), "", options.jobs, options.replicas)
        else:
            with postgresql() as database:
                configure(database, options.set)
                result = measure(Path(folder), database.create("growth"), options.jobs, options.replicas)
    print(json.dumps(result | {"set": options.set}))


if __name__ == "__main__":
    main()
