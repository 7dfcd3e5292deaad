"""What clients cost that listen to events while little changes: prints JSON.

    python tests/benchmarks/events.py [--listeners 1000] [--users 20] [--seconds 45] [--every 10] [--on URL] [--record]

The service runs in a child process on an empty SQLite database (or the PostgreSQL of `--on`, whose own CPU is not
counted) without a cluster or a leader; this process holds the connections. Listeners are users with a token each of
`--users`; one in twenty is the administrator, who sees everything. Every `--every` seconds one event is written of
which each listener of one user, and each administrator's, is told. `core_percent` is the CPU of the child in that time
by the clock: the heartbeats of all listeners (one in 15 seconds) are in it. `idle` is without events, `busy` with ten
events a second that everybody sees.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import structlog

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.serving import ConnectionLimits
from t9ksched.store import Store
from t9ksched.store.history import Event
from tests.benchmarks.timing import report
from tests.unit.api.world import MemoryCluster, ScriptedLeader

_TICKS = os.sysconf("SC_CLK_TCK")


def serve(address: str, users: int, pipe: Connection) -> None:
    """The child: serve, and write events as the parent says `(user, number)`."""

    async def run() -> None:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
        async with await Store.open(address) as store:
            tokens = [await store.tokens.ensure_admin() or ""]
            tokens += [await store.tokens.create(f"user-{number}", "user") for number in range(users)]
            app = create_app(Services(store, MemoryCluster(), ScriptedLeader()))  # type: ignore[arg-type]
            limits = ConnectionLimits(connections=20_000, per_address=20_000)
            async with Server(app, listen("127.0.0.1", 0), limits) as server:
                pipe.send((server.url, tokens))
                while (order := await asyncio.to_thread(pipe.recv)) is not None:
                    event, actor = order
                    await store.history.append(Event(event=event, kind="Pod", name="p", actor=actor))

    asyncio.run(run())


class Listening:
    """One connection that reads all that comes."""

    def __init__(self) -> None:
        self.bytes = 0
        self.events = 0
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, port: int, token: str, ready: asyncio.Semaphore) -> None:
        reader = await self._joined(port, token)
        while reader is None:  # so many come at once that some are told to come later
            await asyncio.sleep(0.2)
            reader = await self._joined(port, token)
        ready.release()
        while data := await reader.read(65536):
            self.bytes += len(data)
            self.events += data.count(b"data: ")

    async def _joined(self, port: int, token: str) -> asyncio.StreamReader | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        head = f"GET /apis/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        if b" 200 " not in await reader.readline():
            writer.close()
            return None
        await reader.readuntil(b"event: ready\n")
        await reader.readuntil(b"\n\n")
        self._writer = writer  # without it the connection would be closed
        return reader


def cpu(pid: int) -> float:
    """Seconds of CPU of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def measure(options: argparse.Namespace, pid: int, pipe: Connection) -> dict[str, Any]:
    url, (admin, *users) = pipe.recv()
    ready = asyncio.Semaphore(0)
    clients = [Listening() for _ in range(options.listeners)]
    started, before = time.monotonic(), cpu(pid)
    tasks = []
    for number, client in enumerate(clients):
        token = admin if number % 20 == 0 else users[number % len(users)]
        tasks.append(asyncio.create_task(client.run(int(url.rpartition(":")[2]), token, ready)))
        if number % 50 == 49:
            for _ in range(50):
                await ready.acquire()
    joined = {"ms_each": round((cpu(pid) - before) * 1000 / options.listeners, 2)}
    joined["seconds"] = round(time.monotonic() - started, 1)
    found: dict[str, Any] = {"join": joined}
    for name, every, event, actor in (
        ("idle", 0.0, "", ""),
        ("little", options.every, "started", "user-1"),
        ("busy", 0.1, "card-cordoned", "admin"),
    ):
        seconds = options.seconds if name != "busy" else min(10.0, options.seconds)
        events = sum(client.events for client in clients)
        started, before, written = time.monotonic(), cpu(pid), 0
        while (left := started + seconds - time.monotonic()) > 0:
            if every:
                pipe.send((event, actor))
                written += 1
            await asyncio.sleep(min(every or left, left))
        spent, wall = cpu(pid) - before, time.monotonic() - started
        told = sum(client.events for client in clients) - events
        found[name] = {"core_percent": round(100 * spent / wall, 2), "seconds": round(wall, 1)}
        found[name] |= {"events": written, "told": told}
    for task in tasks:
        task.cancel()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--on", default="")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pipe, theirs = multiprocessing.Pipe()
        address = options.on or f"sqlite:///{folder}/store.db"
        child = multiprocessing.get_context("spawn").Process(target=serve, args=(address, options.users, theirs))
        child.start()
        try:
            found = asyncio.run(measure(options, child.pid or 0, pipe))
        finally:
            child.terminate()
            child.join()
    report("events", options.record, listeners=options.listeners, on=options.on.partition(":")[0] or "sqlite", **found)


if __name__ == "__main__":
    main()
