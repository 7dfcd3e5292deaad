"""Records the first and the last forecast of each waiting job, and when it started.

Rows of new and of settled jobs are written every few seconds, those whose forecast only changed once a minute. With the
database away they wait here.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from msgspec import structs

from t9ksched.model.forecast import UNKNOWN, Basis, Outcome
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.forecasts import Forecasted, Forecasts

log = structlog.get_logger(__name__)

_ANSWER_SECONDS: Final = 10.0
_CHANGES_NS: Final = 60 * 1_000_000_000
_A_SLICE: Final = 200
"""Groups or jobs that are looked at before other tasks run."""
_REST_NS: Final = 2_000_000
"""Nanoseconds between two looks for each job that waits: a look at thousands takes tens of milliseconds."""


class ForecastKeeper:
    """`sweep` is called by housekeeping; `clock` gives nanoseconds since the epoch. Without `forecasts` nothing is
    recorded.
    """

    def __init__(self, forecasts: Forecasts | None, state: ClusterState, clock: Callable[[], int]) -> None:
        self._forecasts = forecasts
        self._state = state
        self._clock = clock
        self._waiting: dict[str, Forecasted] = {}
        """Jobs that have not started, by UID."""
        self._unwritten: dict[str, Forecasted] = {}
        self._changed: set[str] = set()
        """Waiting jobs whose last forecast is not written yet."""
        self._early: set[str] = set()
        """Waiting jobs that came since the last walk, which may find their first forecast."""
        self._changes_due = 0
        self._rests_until = 0
        self._restored = forecasts is None

    async def sweep(self) -> None:
        """Look at all waiting jobs, and write what is new; less often where thousands wait."""
        self._state.forecasts.now = now = self._clock()
        if now < self._rests_until <= now + len(self._waiting) * _REST_NS:
            return
        if not self._restored and not await self._restore():
            return
        counts: Counter[Basis] = Counter()
        waiting = await self._groups()
        for count, (uid, gangs) in enumerate(waiting.items(), start=1):
            self._look(uid, gangs, counts)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        self._state.forecasts.waiting = counts
        self._rests_until = now + len(waiting) * _REST_NS
        await self._settle(waiting, now)
        await self._write(now)

    async def _restore(self) -> bool:
        """Read the jobs that were waiting when an earlier scheduler stopped; whether the database answered."""
        assert self._forecasts is not None
        if self._state.outage.unread:
            return False
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                async for piece in self._forecasts.waiting():
                    self._waiting.update((one.uid, one) for one in piece)
        except (StoreError, TimeoutError) as error:
            log.warning("forecasts wait for the database", error=str(error) or "no answer")
            return False
        self._restored = True
        return True

    async def _groups(self) -> dict[str, list[GangRecord]]:
        """The groups that wait for a place and were told why, by UID of their jobs."""
        found: defaultdict[str, list[GangRecord]] = defaultdict(list)
        for _ in self._state.changes.settling():
            await asyncio.sleep(0)
        for count, gang in enumerate(list(self._state.pending), start=1):
            # Every job lacks members while its pods are being created: that is not waiting yet.
            if gang.uid and any(reason.code is not Code.GANG_INCOMPLETE for reason in gang.reasons):
                found[job_of(gang)].append(gang)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        return found

    def _look(self, uid: str, gangs: Sequence[GangRecord], counts: Counter[Basis]) -> None:
        book = self._state.forecasts
        found = book.of(gangs, self._state.resolution)
        counts[found.basis] += 1
        known = self._waiting.get(uid)
        if known is None:
            if not self._began(uid, gangs[0]):
                self._waiting[uid] = new = Forecasted(uid=uid, queue=gangs[0].queue, first=found, last=found)
                if self._final(new):
                    self._unwritten[uid] = new
                else:
                    self._early.add(uid)
        elif uid in self._early:
            first = found if found.basis != UNKNOWN else known.first
            self._waiting[uid] = new = structs.replace(known, first=first, last=first)
            if self._final(new):
                self._early.discard(uid)
                self._unwritten[uid] = new
        elif not known.last.says_as(found) or known.queue != gangs[0].queue:
            self._waiting[uid] = structs.replace(known, queue=gangs[0].queue, last=found)
            self._changed.add(uid)

    def _final(self, job: Forecasted) -> bool:
        """Whether its first forecast stays: it has a moment, or the walk that was to find one has been made since."""
        book = self._state.forecasts
        return job.first.basis != UNKNOWN or not book.walks or book.walked_at > job.first.at

    def _began(self, uid: str, gang: GangRecord) -> bool:
        """Whether the job had its places before: it waits again."""
        root = self._state.owners.root(gang) if gang.owner else None
        accepted = self._state.acceptances.get(root.uid if root is not None else uid)
        if accepted is not None and accepted.started_at is not None:
            return True
        return any(one.admitted or one.scheduled for one in self._state.groups_of(uid))

    async def _settle(self, waiting: Mapping[str, Sequence[GangRecord]], now: int) -> None:
        """Record the jobs that have started since the last look, and those that are gone."""
        for count, uid in enumerate(list(self._waiting), start=1):
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
            waits = waiting.get(uid, ())
            if len(waits) == 1 and waits[0].owner is None and not (waits[0].admitted or waits[0].scheduled):
                continue  # it is all of its job
            gangs = self._state.groups_of(uid)
            started = min((at for gang in gangs if (at := _start(gang, now))), default=0)
            if not started and (waits or self._state.knows(uid)):
                continue
            done = structs.replace(self._waiting.pop(uid), started_at=started, settled_at=now)
            self._changed.discard(uid)
            self._early.discard(uid)
            self._unwritten[uid] = done
            if started:
                self._state.forecasts.judge(Outcome(done.first, started))

    async def _write(self, now: int) -> None:
        if self._forecasts is None:
            self._unwritten.clear()
            return
        if now >= self._changes_due:
            self._changes_due = now + _CHANGES_NS
            self._unwritten |= {uid: self._waiting[uid] for uid in self._changed}
            self._changed.clear()
        if not self._unwritten or self._state.outage.unread:
            return
        written = dict(self._unwritten)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._forecasts.put(list(written.values()))
        except (StoreError, TimeoutError) as error:
            log.warning("forecasts wait for the database", error=str(error) or "no answer")
            return
        for uid, one in written.items():
            if self._unwritten.get(uid) is one:
                del self._unwritten[uid]


def _start(gang: GangRecord, now: int) -> int:
    """When the group first had its minimum; 0 if it never had."""
    if not (gang.admitted or gang.scheduled):
        return 0
    times = [gang.admitted, *(pod.started for pod in gang.members.values())]
    return min((at for at in times if at), default=now)
