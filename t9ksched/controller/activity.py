"""Keeps asking workloads of one pod whether anybody uses them, and remembers the answers for their controller."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
import structlog

from t9ksched.controller.asking import Asker
from t9ksched.controller.picture import Key
from t9ksched.workloads.actions import IDLE_AFTER
from t9ksched.workloads.answers import NOT_REACHABLE, Activity, Question

log = structlog.get_logger(__name__)

INTERVAL: Final = 300.0
"""Seconds between two questions to a workload that is used."""
SOON: Final = 60.0
"""Seconds between two questions to one that is idle: it may be used again, and must not be suspended then."""
_AT_ONCE: Final = 64
"""Questions in flight: servers that do not answer must not keep those behind them waiting for long."""
_A_SLICE: Final = 50


class Asking(msgspec.Struct, frozen=True):
    """How the use of workloads is found out.

    Attributes:
        ask: asks one; None to ask none.
        seconds: between two questions to one.
        idle_after: without use for so long one is idle.
    """

    ask: Asker | None = None
    seconds: float = INTERVAL
    idle_after: timedelta = IDLE_AFTER


class Asked(NamedTuple):
    """A workload that can be asked: its key and UID, where, and whether it is known to be idle."""

    key: Key
    uid: str
    question: Question
    idle: bool


class _Known(msgspec.Struct):
    question: Question
    asked: float = float("-inf")
    activity: Activity | None = None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Watcher:
    """Asks by `ask` what `targets` names; `changed` is told the key of each that answered."""

    def __init__(
        self,
        ask: Asker,
        targets: Callable[[], Iterable[Asked]],
        changed: Callable[[Key], None],
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._ask = ask
        self._targets = targets
        self._changed = changed
        self._interval = interval
        self._clock = clock
        self._wall = wall
        self._known: dict[str, _Known] = {}

    def of(self, uid: str) -> Activity | None:
        """The last answer of a workload; None if it was not asked yet."""
        known = self._known.get(uid)
        return known.activity if known is not None else None

    async def run(self) -> None:
        """Ask until cancelled."""
        pause = min(SOON, self._interval)
        while True:
            await self.round()
            await asyncio.sleep(pause)

    async def round(self) -> None:
        """Ask everything that is due, some at a time, and forget what is gone."""
        now = self._clock()
        due: list[Asked] = []
        there: dict[str, _Known] = {}
        soon = min(SOON, self._interval)
        for count, target in enumerate(self._targets(), start=1):
            known = self._known.get(target.uid)
            if known is None or known.question != target.question:
                known = _Known(target.question)
            there[target.uid] = known
            if now >= known.asked + (soon if target.idle else self._interval):
                known.asked = now
                due.append(target)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        self._known = there
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(target: Asked) -> None:
            async with places:
                there[target.uid].activity = await self._answer(target)
            self._changed(target.key)

        await asyncio.gather(*(one(target) for target in due))

    async def _answer(self, target: Asked) -> Activity:
        """The answer, and when it was asked for. Whatever goes wrong with one must not stop the others."""
        at = self._wall()
        try:
            return replace(await self._ask(target.question), at=at)
        except Exception:
            log.exception("asking a workload failed", kind=target.key.kind, name=target.key.name)
            message = "it could not be asked: the log of the controllers says why"
            return Activity(reason=NOT_REACHABLE, message=message, at=at)
