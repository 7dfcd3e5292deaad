"""Lives of the scheduler and the controllers that end at any moment, as a killed process does.

A life acts through a `Mortal` port and a `MortalDatabase`. When it ends, its tasks are cancelled and whatever its last
words are, neither the cluster nor the database hears them. What was under way is done or not done, by where it ended.
Everything runs on the loop of the test: the database without threads, timers on virtual time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import aiosqlite.core
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.kube.events import EventRecorder
from t9ksched.kube.port import WatchEvent
from t9ksched.store.database import Database
from t9ksched.store.errors import StoreError

WRITES = ("create", "replace", "replace_status", "patch", "delete", "bind", "evict")


class Mortal:
    """A `ClusterPort` of one life. `last` counts writes down to the one at which `end` is called."""

    def __init__(self, port: Any, end: Callable[[], None]) -> None:
        self._port = port
        self._end = end
        self.alive = True
        self.last = 0
        self.after = False
        """Whether the last write still happens."""
        self.counted = WRITES

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
            await asyncio.get_running_loop().create_future()  # the dead wait for ever


class MortalDatabase(Database):
    """A database of one life; `away` says whether it is out of reach for everybody."""

    def __init__(self, address: str, away: Callable[[], bool]) -> None:
        super().__init__(address)
        self.alive = True
        self._away = away

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        async with super().read() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        async with super().write() as connection:
            yield connection
            self._check()  # a transaction of the dead is never committed

    def _check(self) -> None:
        if not self.alive or self._away():
            raise StoreError("the database does not answer")


class Life:
    """One run of a service, from its start to its end. `failed` is the error by which it ended itself.

    `way` is what lies between it and the cluster. What is still on the way when it ends does not arrive: a successor
    begins only when its predecessor's requests are over, by the lease, or because their connections broke.
    """

    def __init__(self, port: Any, way: Callable[[Any], Any], database: MortalDatabase | None = None) -> None:
        self._gate = Mortal(port, lambda: None)
        self.port = Mortal(way(self._gate), self.end)
        self.database = database
        self.task: asyncio.Task[None] | None = None
        self.failed: BaseException | None = None
        self.ended = asyncio.Event()

    @property
    def alive(self) -> bool:
        return self.port.alive

    def begin(self, run: Awaitable[None]) -> None:
        self.task = asyncio.ensure_future(self._run(run))

    async def _run(self, run: Awaitable[None]) -> None:
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
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()


class _InlineQueue:
    """Where aiosqlite puts work for its thread: done at once, told at the next step of the loop."""

    def put_nowait(self, item: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
        future, function = item
        try:
            result = function()
        except BaseException as error:
            if future is not None:
                future.get_loop().call_soon(aiosqlite.core.set_exception, future, error)
        else:
            if future is not None:
                future.get_loop().call_soon(aiosqlite.core.set_result, future, result)


class _NoThread:
    daemon = True

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass


class _Timers:
    """The part of APScheduler that housekeeping uses, on the loop's time."""

    def __init__(self, **_: Any) -> None:
        self._jobs: list[tuple[float, Callable[[], Any]]] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def running(self) -> bool:
        return bool(self._tasks)

    def add_job(self, function: Callable[[], Any], _: str, seconds: float = 0, hours: float = 0, **__: Any) -> None:
        self._jobs.append((seconds + 3600 * hours, function))

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._every(*job)) for job in self._jobs]

    def shutdown(self, wait: bool) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _every(self, seconds: float, function: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(seconds)
            result = function()
            if asyncio.iscoroutine(result):
                await result


class _Deaf:
    """In place of the internal server: nobody asks."""

    address = "http://127.0.0.1:1"

    def __init__(self, *_: Any) -> None:
        pass

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


@contextlib.contextmanager
def repeatable(seed: int, now: Callable[[], str]) -> Iterator[None]:
    """What is random or by the machine's clock comes from the seed and the loop's time."""
    dice = Random(seed)
    count = iter(range(1, 1 << 30))
    replacements: dict[str, Any] = {
        "aiosqlite.core.SimpleQueue": _InlineQueue,
        "aiosqlite.core.Thread": _NoThread,
        "t9ksched.scheduler.housekeeping.AsyncIOScheduler": _Timers,
        "t9ksched.scheduler.service.InternalServer": _Deaf,
        "t9ksched.store.changes.POLL_SECONDS": 5.0,
        "t9ksched.scheduler.service.HEARTBEAT_SECONDS": 30.0,
        "t9ksched.devcluster.metadata.new_uid": lambda: f"{next(count):08x}-0000-4000-8000-000000000000",
        "t9ksched.devcluster.metadata.generated_name": lambda prefix: f"{prefix[:58]}{next(count):05d}",
        "t9ksched.devcluster.metadata.now": now,
        "t9ksched.controller.service._LONGEST_REST": 0.0,
        "t9ksched.kube.reflector.Random": lambda: Random(dice.random()),
    }
    with contextlib.ExitStack() as stack:
        for target, new in replacements.items():
            stack.enter_context(patch(target, new))
        seconds = {"clock": lambda: asyncio.get_running_loop().time()}
        stack.enter_context(patch.dict(EventRecorder.__init__.__kwdefaults__, seconds))
        yield
