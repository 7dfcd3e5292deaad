"""What makes a history repeat to the byte: clocks, random numbers and names that come from its seed and its loop.

Wherever the project reads a clock or draws a number, it gets the loop's time and the seed's dice instead, for as long
as `repeatable` lasts. The database works without threads, timers of housekeeping run on the loop.
"""

import asyncio
import contextlib
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from random import Random
from typing import Any
from unittest.mock import patch

import aiosqlite.core

import t9ksched.cli.leading  # noqa: F401 (parts of it are replaced by name)
from t9ksched.kube.write.clock import Clock
from t9ksched.kube.write.events import EventRecorder
from t9ksched.kube.write.lease import LeaderElection
from t9ksched.kube.write.volumes import VolumeBinding
from tests.chaos.process_faults import CURRENT_PROCESS

START = 1_790_000_000.0
"""Seconds since the epoch at which every history begins."""


def seconds() -> float:
    """Since the history began; 0 before there is a loop."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def wall() -> float:
    """Seconds since the epoch."""
    return START + seconds()


class _Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)

    def __getattr__(cls, name: str) -> Any:
        return getattr(datetime, name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return datetime(*args, **kwargs)  # noqa: DTZ001


class _DateTime(metaclass=_Meta):
    """`datetime` whose present is the history's."""

    @staticmethod
    def now(zone: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(wall(), zone or UTC)


class _Time:
    """The module `time` with the history's clocks."""

    time = staticmethod(wall)
    monotonic = perf_counter = staticmethod(seconds)

    @staticmethod
    def time_ns() -> int:
        return int(wall() * 1e9)

    @staticmethod
    def clock_gettime(_: int) -> float:
        return seconds()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Uuid:
    """The module `uuid` with the seed's dice."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._dice.getrandbits(128), version=4)

    def __getattr__(self, name: str) -> Any:
        return getattr(uuid, name)


class _Os:
    """The part of `os` that a candidate for leadership uses: every candidate is a process of its own."""

    def __init__(self, pids: Iterator[int]) -> None:
        self._pids = pids

    def getpid(self) -> int:
        pid, process = next(self._pids), CURRENT_PROCESS.get()
        if process is not None:
            process.identity = f"_{pid}"
        return pid


class Sql:
    """What happens to statements of processes: a connection that breaks at a statement, or once a commit was done."""

    def __init__(self) -> None:
        self.breaks_in = 0
        """Counts statements down to the one at which the connection breaks; 0 for none."""
        self.done_first = False
        """Whether that statement is done, and only its answer is lost."""
        self.changed: Callable[[], None] = lambda: None
        """Called after each commit that wrote the table of queues."""
        self._touched = False
        self.broke = -1e9
        """When a connection broke last, in seconds of the history."""

    def meet(self, function: Callable[[], Any]) -> Any:
        """Do one piece of work on a connection."""
        broken = False
        what = getattr(getattr(function, "func", function), "__name__", "")
        if self.breaks_in and CURRENT_PROCESS.get() is not None and what in ("execute", "executemany", "commit"):
            self.breaks_in -= 1
            broken = not self.breaks_in
        if broken:
            self.broke = seconds()
        if broken and not self.done_first:
            raise sqlite3.OperationalError("disk I/O error: the connection broke")
        result = function()
        if what in ("execute", "executemany"):
            statement = str(getattr(function, "args", ("",))[0])
            self._touched |= statement.startswith(("INSERT INTO queue ", "UPDATE queue ", "DELETE FROM queue "))
        elif what == "commit" and self._touched:
            self._touched = False
            self.changed()
        if broken:
            raise sqlite3.OperationalError("disk I/O error: the answer was lost")
        return result


SQL = Sql()
"""Of the history that is being played."""


class _InlineQueue:
    """Where aiosqlite puts work for its thread: done at once, told at the next step of the loop."""

    def put_nowait(self, item: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
        future, function = item
        try:
            result = SQL.meet(function)
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
        await asyncio.sleep(seconds)
        while self.running:  # what is cancelled in the middle returns, and no other begins
            await function()
            await asyncio.sleep(seconds)


class _Deaf:
    """In place of the internal server: no request comes."""

    address = "http://127.0.0.1:1"

    def __init__(self, *_: Any) -> None:
        pass

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


async def _nothing(_: object) -> None: ...


def _clocks(dice: Random) -> Iterator[tuple[Any, str, Any]]:
    """Every place in the project that holds a clock or a source of chance: module, name, what it is instead."""
    shims = {id(datetime): _DateTime, id(time): _Time(), id(uuid): _Uuid(dice)}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("t9ksched."):
            for attribute in ("datetime", "time", "uuid"):
                shim = shims.get(id(vars(module).get(attribute)))
                if shim is not None:
                    yield module, attribute, shim


@contextlib.contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """What is random or by the machine's clock comes from the seed and the loop's time."""
    dice = Random(seed)
    count = iter(range(1, 1 << 30))
    replacements: dict[str, Any] = {
        "aiosqlite.core.SimpleQueue": _InlineQueue,
        "aiosqlite.core.Thread": _NoThread,
        "t9ksched.scheduler.keep.housekeeping.AsyncIOScheduler": _Timers,
        "t9ksched.scheduler.service.InternalServer": _Deaf,
        # Forecasts are walked in another process; nothing is decided by them.
        "t9ksched.scheduler.service.Forecaster.run": _nothing,
        # No machine loses power here: nothing need reach the disk.
        "t9ksched.store.sqlite_file.PRAGMAS": ("journal_mode=WAL", "synchronous=OFF", "foreign_keys=ON"),
        "t9ksched.store.changes.POLL_SECONDS": 20.0,
        "t9ksched.scheduler.report.sql_writer._PAUSE": 1.0,
        "t9ksched.scheduler.keep.leadership.HEARTBEAT_SECONDS": 30.0,
        "t9ksched.devcluster.apiserver.metadata.new_uid": lambda: f"{next(count):08x}-0000-4000-8000-000000000000",
        "t9ksched.devcluster.apiserver.metadata.generated_name": lambda prefix: f"{prefix[:58]}{next(count):05d}",
        "t9ksched.kube.watch.reflector.Random": lambda: Random(dice.random()),
        "t9ksched.kube.write.lease.Random": lambda: Random(dice.random()),
        "t9ksched.cli.leading.os": _Os(count),
    }
    SQL.__init__()  # type: ignore[misc]
    with contextlib.ExitStack() as stack:
        for module, attribute, shim in list(_clocks(dice)):
            stack.enter_context(patch.object(module, attribute, shim))
        for target, new in replacements.items():
            stack.enter_context(patch(target, new))
        stack.enter_context(patch.dict(EventRecorder.__init__.__kwdefaults__, {"clock": Clock(seconds)}))
        stack.enter_context(patch.dict(LeaderElection.__init__.__kwdefaults__, {"clock": Clock(seconds)}))
        stack.enter_context(patch.object(VolumeBinding.__init__, "__defaults__", (45.0, seconds, asyncio.sleep)))
        yield


__all__ = ["SQL", "START", "repeatable", "seconds", "wall"]
