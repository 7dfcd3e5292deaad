"""Simulated processes of the scheduler and the controllers: each can be killed, or stopped for a while, at any await.

A process acts through a `ProcessPort` and a `ProcessDatabase`. When it ends, its tasks are cancelled, and requests that
it sends while they end reach neither the cluster nor the database. Work under way is done or not, by where the process
ended. Every await of a process is a step: `stepping` counts them, so that a process can end at any await, those within
a transaction too, and so that a process that is stopped (as by SIGSTOP) takes no step until it goes on.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar, copy_context
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import Executable

from t9ksched.kube.port import WatchEvent
from t9ksched.model.api_resource import Resource
from t9ksched.store.bulk import Prepared
from t9ksched.store.database import Database
from t9ksched.store.errors import DatabaseBusy, DatabaseUnreachable, StoreError

BUSY_SECONDS = 5.0
WRITES = ("create", "replace", "replace_status", "patch", "delete", "bind", "evict")
CURRENT_PROCESS: ContextVar["SimulatedProcess | None"] = ContextVar("process", default=None)
"""The process of the running task; None for tasks of no simulated process."""
OnWrite = Callable[["SimulatedProcess", str, tuple[Any, ...], dict[str, Any]], None]


class ProcessPort:
    """A `ClusterPort` of one process. `last` counts writes down to the one at which `end` is called.

    `on_write(method, args, options)` is told of each write before it is done.
    """

    def __init__(self, port: Any, end: Callable[[], None], on_write: Callable[..., None] | None = None) -> None:
        self._port = port
        self._end = end
        self._on_write = on_write
        self.alive = True
        self.last = 0
        self.after = False
        """Whether the last write still happens."""
        self.counted: tuple[str, ...] = WRITES

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, name)

        async def act(*args: Any, **kwargs: Any) -> Any:
            await self._go_on()
            final = False
            if self.last and name in self.counted:
                self.last -= 1
                final = not self.last
            if final and not self.after:
                self._end()
                await self._go_on()
            if self._on_write is not None and name in WRITES:
                self._on_write(name, args, kwargs)
            result = await method(*args, **kwargs)
            if final:
                self._end()
            await self._go_on()
            return result

        return act

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        await self._go_on()
        async for event in self._port.watch(*args, **kwargs):
            await self._go_on()
            yield event

    async def _go_on(self) -> None:
        if not self.alive:
            await asyncio.get_running_loop().create_future()  # a dead process waits for ever


class Stalling:
    """A port whose watches of some kinds say nothing for a while, and then everything at once."""

    def __init__(self, port: Any, until: dict[str, float]) -> None:
        self._port = port
        self._until = until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def watch(self, res: Resource, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._port.watch(res, *args, **kwargs):
            until = max(self._until.get(res.plural, 0.0), self._until.get("*", 0.0))
            if (left := until - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(left)
            yield event


class Network:
    """What was sent is on its way, whatever becomes of the sender: requests are no steps of a process."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, name)

        async def act(*args: Any, **kwargs: Any) -> Any:
            context = copy_context()
            context.run(CURRENT_PROCESS.set, None)
            return await asyncio.get_running_loop().create_task(method(*args, **kwargs), context=context)

        return act

    def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        found: AsyncIterator[WatchEvent] = self._port.watch(*args, **kwargs)
        return found


_COMPILED: dict[type, tuple[Dialect, Any]] = {}


def _share(engine: Any) -> None:
    """Statements are compiled once for all simulated processes: they are the same in all of them."""
    engine.dialect, engine._compiled_cache = _COMPILED.setdefault(
        type(engine.dialect), (engine.dialect, engine._compiled_cache)
    )


class ProcessDatabase(Database):
    """A database of one process; `away` says whether no process can reach it, `lock` is held by the writer of the file,
    `meet` does a piece of work unless the connection breaks.

    SQLite waits in its own thread for a while when another process writes; here that is on the loop's time.
    """

    def __init__(
        self, address: str, away: Callable[[], bool], lock: asyncio.Lock, meet: Callable[[Callable[[], Any]], Any]
    ) -> None:
        super().__init__(address)
        several = (self._engine.sync_engine, self._reader.sync_engine, self._writer.sync_engine)
        for engine in (*several, self._aside, self._acting):
            _share(engine)
        self.alive = True
        self._away = away
        self._lock = lock
        self._meet = meet

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        async with super().read() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            raise DatabaseBusy("the database is locked by another process") from None
        try:
            async with super().write() as connection:
                yield connection
                self._check()  # a dead process commits no transaction
        finally:
            self._lock.release()

    async def fetch(self, query: Executable) -> Sequence[Any]:
        """In this thread; what is awaited before and after is where a process may end."""
        self._check()
        await asyncio.sleep(0)
        self._check()

        def execute() -> Sequence[Any]:
            return self._fetch(query)

        try:
            found: Sequence[Any] = self._meet(execute)
        except sqlite3.OperationalError as error:
            raise DatabaseUnreachable(str(error)) from None
        await asyncio.sleep(0)
        return found

    async def transact(self, act: Callable[[Connection], Any]) -> Any:
        async with self.write() as connection:
            return await connection.run_sync(act)

    async def write_all(self, steps: Sequence[Prepared]) -> None:
        async with self.write() as connection:
            for text, parameters in steps:
                await connection.exec_driver_sql(text, parameters)

    def _check(self) -> None:
        if not self.alive or self._away():
            raise StoreError("the database does not answer")


class SimulatedProcess:
    """One run of a service, from its start to its end. `failed` is the error by which it ended itself.

    `way` is what lies between it and the cluster. What is still on the way when it ends does not arrive: a successor
    begins only when its predecessor's requests are over, by the lease, or because their connections broke.
    """

    def __init__(
        self,
        port: Any,
        way: Callable[[Any], Any],
        database: ProcessDatabase | None = None,
        on_write: OnWrite | None = None,
    ) -> None:
        told = None if on_write is None else lambda name, args, kwargs: on_write(self, name, args, kwargs)
        self._gate = ProcessPort(port, lambda: None, told)
        self.port = ProcessPort(Network(way(self._gate)), self.end)
        self.database = database
        self.task: asyncio.Task[None] | None = None
        self.failed: BaseException | None = None
        self.ended = asyncio.Event()
        self.steps_left = 0
        """Counts down to the await at which it ends; 0 for none."""
        self.identity = ""
        """By which it stands for election."""
        self._resumed: asyncio.Future[None] | None = None

    @property
    def alive(self) -> bool:
        return self.port.alive

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
        return self._resumed is not None

    def begin(self, run: Coroutine[Any, Any, None]) -> None:
        context = copy_context()
        context.run(CURRENT_PROCESS.set, self)
        self.task = asyncio.get_running_loop().create_task(self._run(run), context=context)

    async def _run(self, run: Coroutine[Any, Any, None]) -> None:
        try:
            await run
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if self.alive:
                self.failed = error
        self.end()

    def end(self) -> None:
        """Now, at whatever await it stands."""
        self.port.alive = self._gate.alive = False
        if self.database is not None:
            self.database.alive = False
        self.ended.set()
        self.resume()
        if self.task is not None and not self.task.done():
            self.task.get_loop().call_soon(self.task.cancel)

    def pause(self) -> None:
        """Stand still."""
        if self.alive and self._resumed is None:
            self._resumed = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """Go on."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    def step(self) -> None:
        """One await is over."""
        if self.steps_left:
            self.steps_left -= 1
            if not self.steps_left:
                self.end()

    def wait(self) -> asyncio.Future[None]:
        """Done when it goes on."""
        assert self._resumed is not None
        source, mine = self._resumed, asyncio.get_running_loop().create_future()
        source.add_done_callback(lambda _: mine.done() or mine.set_result(None))
        return mine


class _Stepping(Coroutine[Any, Any, Any]):
    """A coroutine of a process: each time it goes on, the process takes a step, or has it wait."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], process: SimulatedProcess) -> None:
        self._coroutine = coroutine
        self._process = process
        self._kept: Callable[[], Any] | None = None

    def send(self, value: Any) -> Any:
        kept, self._kept = self._kept, None
        return self._go(kept or (lambda: self._coroutine.send(value)))

    def throw(self, *error: Any) -> Any:
        self._kept = None  # what it was woken for is overtaken
        return self._go(lambda: self._coroutine.throw(*error))

    def _go(self, action: Callable[[], Any]) -> Any:
        if self._process.paused and self._process.alive:
            self._kept = action
            future = self._process.wait()
            future._asyncio_future_blocking = True
            return future
        self._process.step()
        return action()

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise RuntimeError("only for tasks")


def stepping(loop: asyncio.AbstractEventLoop, coroutine: Any, context: Any = None) -> "asyncio.Task[Any]":
    """A task factory by which the tasks of a process take its steps."""
    process = CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)
    if process is not None:
        coroutine = _Stepping(coroutine, process)
    return asyncio.Task(coroutine, loop=loop, context=context)
