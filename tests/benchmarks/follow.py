"""How soon an edit of a queue is effective in the scheduler: prints JSON.

    python tests/benchmarks/follow.py [--edits 100] [--record]

A scheduler runs on a dev cluster in this process, a replica of the REST service with connections of its own edits a
queue at random moments. Measured is from the answer to the edit until the scheduler plans by it. `notified`: as it
usually is (LISTEN/NOTIFY on PostgreSQL; on SQLite, where all is one process, an event). `polling`: without any of that,
as behind a pooler or when another process changes the file; what is left is asking often enough. A second is allowed.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import aiohttp
import structlog

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store import Store, changes
from tests.benchmarks.timing import report
from tests.integration.world import World, new_world
from tests.postgresql import postgresql
from tests.unit.api.world import Client, MemoryCluster, ScriptedLeader

QUEUE = "/apis/v1/admin/queues/measured"


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The address of a new one."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'store.db'}"
        return
    with postgresql() as server:
        yield server.create("bench")


async def measure(world: World, address: str, *, notified: bool, edits: int) -> dict[str, float]:
    """Milliseconds from answers to effects."""
    chance = random.Random(7)
    took = []
    async with await Store.open(address) as mine, await Store.open(address) as theirs, aiohttp.ClientSession() as http:
        # On SQLite the service shares the scheduler's store: only one that does not is a stranger to it.
        store = mine if mine.database.is_sqlite and notified else theirs
        app = create_app(Services(store, MemoryCluster(), ScriptedLeader()))  # type: ignore[arg-type]
        token = await store.tokens.create(f"t{notified}".lower(), "admin")
        async with (
            Server(app, listen("127.0.0.1", 0)) as server,
            running(SchedulerService(await world.account(SCHEDULER), mine, internal_secret="s" * 20)) as service,
        ):
            client = Client(server.url, http, token)
            await client("POST", QUEUE.rpartition("/")[0], {"name": "measured"})
            for number in range(edits):
                await asyncio.sleep(chance.random())
                priority = number % 100 + 1
                answer = await client("PATCH", QUEUE, {"spec": {"priority": priority}})
                assert answer.status == 200, answer.body
                begin = perf_counter()
                while not (found := service.state.queues.get("measured")) or found.spec.priority != priority:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                took.append((perf_counter() - begin) * 1000)
    cuts = quantiles(took, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1), "max": round(max(took), 1)}


async def run(kind: str, edits: int) -> dict[str, Any]:
    """Both ways on one kind of database."""
    found: dict[str, Any] = {}
    for notified in (True, False):
        with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as address:
            async with new_world(Path(folder)) as world:
                deaf = mock.patch.object(changes.Changes, "_listen", return_value=None)
                with nullcontext() if notified else deaf:
                    way = "notified" if notified else "polling"
                    found[way] = await measure(world, address, notified=notified, edits=edits)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    found = {kind: asyncio.run(run(kind, given.edits)) for kind in ("sqlite", "postgresql")}
    report("follow", given.record, edits=given.edits, milliseconds=found)


if __name__ == "__main__":
    main()
