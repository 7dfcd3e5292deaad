"""Keeps asking workloads of one pod whether anybody uses them, and remembers the answers for their controller."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from t9ksched.controller.asking import Asker
from t9ksched.controller.picture import Key
from t9ksched.workloads.answers import Activity, Question

INTERVAL: Final = 300.0
"""Seconds between two questions to a workload that is used."""
SOON: Final = 60.0
"""Seconds between two questions to one that is idle: it may be used again, and must not be suspended then."""
_AT_ONCE: Final = 16
_A_SLICE: Final = 50


class Asked(NamedTuple):
    """A workload that can be asked: its key and UID, where, and whether it is known to be idle."""

    key: Key
    uid: str
    question: Question
    idle: bool


@dataclass(slots=True)
class _Known:
    question: Question
    due: float
    activity: Activity | None = None


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
    ) -> None:
        self._ask = ask
        self._targets = targets
        self._changed = changed
        self._interval = interval
        self._clock = clock
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
        for count, target in enumerate(self._targets(), start=1):
            known = self._known.get(target.uid)
            if known is None or known.question != target.question:
                known = _Known(target.question, now)
            there[target.uid] = known
            if now >= known.due:
                known.due = now + (min(SOON, self._interval) if target.idle else self._interval)
                due.append(target)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        self._known = there
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(target: Asked) -> None:
            async with places:
                there[target.uid].activity = await self._ask(target.question)
            self._changed(target.key)

        await asyncio.gather(*(one(target) for target in due))
