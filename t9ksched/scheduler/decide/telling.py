"""Records after each plan why gangs wait, at a cost that follows what changed.

Of thousands that wait nearly all are told the same by one plan after the other: those are passed over many at a time.
Where nothing but numbers is another, as the most that is free on a node of a busy cluster, that is recorded every two
seconds. Until then, too, they are passed over many at a time: such numbers are soon as they were.
"""

import asyncio
from collections.abc import Iterable, Mapping, Set
from operator import is_
from typing import Final

from t9ksched.engine.plan import Waiting
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.progress import of_a_kind
from t9ksched.scheduler.state.state import ClusterState

_A_SLICE: Final = 200
"""Groups that get their reason before other tasks run."""
_SLICES_AT_ONCE: Final = 10
_MOST_KNOWN: Final = 4
"""So many of the latest tellings of a slice are known that say the same, and so many that differ by numbers alone."""
NUMBERS_SECONDS: Final = 2.0
"""Seconds from one time at which other numbers are recorded to the next."""


class _ToldTogether:
    """Some gangs that are told one after the other. What they were told lately is known by identity: to compare what it
    says costs much more.

    Attributes:
        recorded: what is recorded of them.
        same: what they were told lately that says that.
        alike: what they were told lately that differs from it by numbers alone.
        names, gangs: their UIDs, in their order and as a set.
    """

    __slots__ = ("alike", "gangs", "names", "recorded", "same")

    def __init__(self) -> None:
        self.recorded: tuple[Waiting, ...] = ()
        self.same: list[tuple[Waiting, ...]] = []
        self.alike: list[tuple[Waiting, ...]] = []
        self.names: tuple[str, ...] = ()
        self.gangs: frozenset[str] = frozenset()

    def is_recorded(self, told: tuple[Waiting, ...]) -> bool:
        """Whether that is what is recorded. If so, it is kept for the next time."""
        if told != self.recorded:
            return False
        self.same = [told, *self.same[: _MOST_KNOWN - 1]]
        return True

    def differs_by_numbers(self, told: tuple[Waiting, ...]) -> bool:
        """Whether no more than numbers of this differ from what is recorded. If so, it is kept for the next time."""
        if _among(told, self.alike):
            return True
        if not all(of_a_kind(was.reasons, one.reasons) for was, one in zip(self.recorded, told, strict=True)):
            return False
        self.alike = [told, *self.alike[: _MOST_KNOWN - 1]]
        return True

    def record(self, told: tuple[Waiting, ...]) -> list[Waiting]:
        """All of this, which differs by numbers, is recorded now; returns what was not."""
        others = [one for one, was in zip(told, self.recorded, strict=True) if one is not was and one != was]
        self.alike = [one for one in (*self.same, *self.alike) if not _among(one, (told,))][:_MOST_KNOWN]
        self.recorded, self.same = told, [told]
        return others

    def begin(self, names: tuple[str, ...], recorded: tuple[Waiting, ...], told: tuple[Waiting, ...]) -> None:
        """These were told that, of which so much is recorded: what was alike before may be so no longer."""
        self.recorded, self.same, self.alike = recorded, [recorded], [told]
        self.names, self.gangs = names, frozenset(names)


def _among(told: tuple[Waiting, ...], known: Iterable[tuple[Waiting, ...]]) -> bool:
    """Whether one of these has the same members, by identity."""
    return any(len(one) == len(told) and all(map(is_, one, told)) for one in known)


class Telling:
    """What was recorded of the latest plan.

    Attributes:
        due: the time of the event loop at which other numbers are to be recorded that were put off; None if none were.
    """

    def __init__(self, state: ClusterState, recorder: HistoryRecorder) -> None:
        self._recorder = recorder
        self.due: float | None = None
        self._numbers_at = float("-inf")
        self._slices: list[_ToldTogether] = []
        self._elsewhere = state.feed.told_elsewhere.follow()

    def forget(self) -> None:
        """Gangs were told something else."""
        self._slices.clear()
        self._elsewhere.take()
        self.due = None

    async def tell(self, told: tuple[Waiting, ...], now: int) -> None:
        """Record these, a slice at a time; `now` is in nanoseconds since the epoch."""
        time = asyncio.get_running_loop().time()
        numbers = time >= self._numbers_at + NUMBERS_SECONDS
        elsewhere = frozenset(self._elsewhere.take())
        before: dict[str, Waiting] | None = None
        self.due = None
        for at, first in enumerate(range(0, len(told), _A_SLICE)):
            some = told[first : first + _A_SLICE]
            if at == len(self._slices):
                self._slices.append(_ToldTogether())
            known = self._slices[at]
            if elsewhere.isdisjoint(known.gangs):
                if _among(some, known.same):
                    continue
                if not numbers and _among(some, known.alike):
                    self._put_off()
                    continue
                if known.is_recorded(some):
                    await asyncio.sleep(0)
                    continue
            if numbers:
                self._numbers_at = time
            names = tuple([waiting.gang for waiting in some])
            if names != known.names and before is None:
                before = await self._recorded_by_gang()
            self._record(known, names, some, before or {}, elsewhere, now, numbers=numbers)
            await asyncio.sleep(0)
        del self._slices[-(-len(told) // _A_SLICE) :]

    def _put_off(self) -> None:
        self.due = self._numbers_at + NUMBERS_SECONDS

    async def _recorded_by_gang(self) -> dict[str, Waiting]:
        """What is recorded of each gang. Where one starts, or comes before others, those behind it are told in other
        slices than before.
        """
        found: dict[str, Waiting] = {}
        for count, known in enumerate(self._slices, start=1):
            found.update(zip(known.names, known.recorded, strict=True))
            if count % _SLICES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    def _record(
        self,
        known: _ToldTogether,
        names: tuple[str, ...],
        some: tuple[Waiting, ...],
        before: Mapping[str, Waiting],
        elsewhere: Set[str],
        now: int,
        *,
        numbers: bool,
    ) -> None:
        """Record what the gangs of these names are told, unless it is recorded, or other numbers of it are put off.
        `before` is what is recorded by gang, where the slice has other gangs than before.
        """
        same = names == known.names
        if same and elsewhere.isdisjoint(known.gangs) and known.differs_by_numbers(some):
            if numbers:
                self._recorder.other_numbers(known.record(some), now)
            else:
                self._put_off()
            return
        was: Iterable[Waiting | None] = known.recorded if same else map(before.get, names)
        recorded: list[Waiting] = []
        others: list[Waiting] = []
        for waiting, one in zip(some, was, strict=True):
            if one is None or waiting.gang in elsewhere or not of_a_kind(one.reasons, waiting.reasons):
                self._recorder.waits(waiting.gang, waiting.reasons, waiting.position or None, now)
                one = waiting
            elif numbers and one != waiting:
                others.append(waiting)
                one = waiting
            recorded.append(one)
        if others:
            self._recorder.other_numbers(others, now)
        known.begin(names, tuple(recorded), some)
        if known.recorded != some:
            self._put_off()
