"""Finds out what became of the jobs that others wait for, and keeps that in SQL.

A name means the job of that name that is there when the waiting job is created, else the next one that comes. Which one
it was, and that it ended as was wanted, is written down once and holds from then on, whatever becomes of it later. That
a job can never start is found anew as long as it waits, for its annotation may be edited.

With the database away this goes on in memory, except for jobs of which only the database knows the end: they are asked
for again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.scheduler.keep.dependency_end import DependencyEnd
from t9ksched.scheduler.keep.waited_for import Waiter, Want, looked_at, named, verdict
from t9ksched.scheduler.state.dependencies import root_asks, unreadable
from t9ksched.scheduler.state.records import FINISHED
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.dependencies import Waited
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store
from t9ksched.workloads.dependencies import circle, read_after

log = structlog.get_logger(__name__)

_A_SLICE: Final = 200
_SECOND: Final = 1_000_000_000
_LONGEST_PAUSE_NS: Final = 60 * _SECOND
"""Between two questions to the database after a job that was deleted before it was seen."""
_MOST_DOUBLED: Final = 6


class DependencyKeeper:
    """`sweep` is called by housekeeping once a second. `end` ends jobs that can never start; None where nothing is
    written. `clock` gives nanoseconds since the epoch.
    """

    def __init__(self, state: ClusterState, store: Store, end: DependencyEnd | None, clock: Callable[[], int]) -> None:
        self._state = state
        self._store = store
        self._end = end
        self._clock = clock
        self._changed = state.feed.jobs.follow()
        self._waiters: dict[str, Waiter] = {}
        self._waited_by: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Jobs that wait, by UID of what they wait for."""
        self._unresolved: dict[str, None] = {}
        """Jobs that wait for one that is not there, or of which the database was to be asked."""
        self._kept: defaultdict[str, dict[str, Waited]] = defaultdict(dict)
        """What SQL has, by UID of the job that waits and the name that it gives."""
        self._unwritten: dict[tuple[str, str], Waited] = {}
        self._gone: dict[str, None] = {}
        self._fresh = True

    async def restore(self) -> None:
        """Load what was found before.

        Raises:
            StoreError: the database does not answer.
        """
        for row in await self._store.dependencies.all():
            self._kept[row.uid].setdefault(row.target, row)

    async def sweep(self) -> None:
        """Look at jobs that have come to wait, and at those of which something that they wait for changed."""
        state = self._state
        if state.outage.unread:
            return  # what was found before is in the database
        look = dict.fromkeys(self._changed.take())
        affected = {uid: None for changed in look for uid in self._waited_by.get(changed, ())}
        affected |= {uid: None for uid in look if uid in self._waiters}
        affected |= state.dependencies.take_unread() | self._unresolved
        if self._fresh:
            self._fresh = False
            affected |= dict.fromkeys(self._kept)
        for count, uid in enumerate(affected, start=1):
            await self._look(uid)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        await self._write()

    async def _look(self, uid: str) -> None:
        """Find out what one job waits for, and tell the state."""
        gangs = self._state.groups_of(uid)
        if not gangs:
            if not self._state.knows(uid):
                self._forget(uid)
            return
        asks = root_asks(self._state, gangs[0])
        waiter = self._waiters.get(uid)
        if not asks.after:
            self._forget(uid)
            return
        if waiter is None or waiter.text != asks.after:
            try:
                waiter = self._begin(uid, asks.after)
            except ValueError as error:
                self._forget(uid)
                self._state.dependencies.tell(uid, unreadable(asks.after, str(error)))
                return
        for want in waiter.wants:
            await self._find(waiter, want)
        self._unresolved.pop(uid, None)
        if any(not want.target_uid or want.asking for want in waiter.wants if not want.met_at):
            self._unresolved[uid] = None
        if not waiter.checked:
            waiter.checked = True
            self._look_for_circle(waiter)
        told = verdict(waiter)
        self._state.dependencies.tell(uid, told)
        wants_end = asks.cancel.strip().lower() == "true"
        if self._end is not None and await self._end.settle(uid, told, ask=wants_end, now=self._clock()):
            self._unresolved[uid] = None  # tried again

    def _begin(self, uid: str, text: str) -> Waiter:
        """A job waits, or waits for something else than before.

        Raises:
            ValueError: the text names no jobs.
        """
        dependencies = read_after(text)
        self._leave(uid)
        gang = self._state.groups_of(uid)[0]
        job = self._state.jobs.get(uid)
        created = job.created if job is not None else gang.created
        waiter = Waiter(uid, gang.namespace, created, text, tuple(map(Want, dependencies)))
        for want in waiter.wants:
            if (row := self._kept.get(uid, {}).get(want.dependency.title)) is not None:
                want.target_uid, want.met_at = row.target_uid, row.met_at
                self._follow(waiter, want)
        self._waiters[uid] = waiter
        return waiter

    async def _find(self, waiter: Waiter, want: Want) -> None:
        """Bring what is known of one job that is waited for up to date."""
        if want.met_at:
            return
        if not want.target_uid:
            await self._resolve(waiter, want)
        if want.target_uid and not want.gone:
            await self._see(want)
        if want.met:
            want.met_at = self._clock()
            self._keep(waiter, want)

    async def _resolve(self, waiter: Waiter, want: Want) -> None:
        """Find which job is meant."""
        found = named(self._state, waiter.namespace, want.dependency)
        if found is None or found[1] > waiter.created:
            # One that was there before may have gone while no scheduler ran, or in the last second.
            if (found is not None or self._clock() >= want.ask_at) and not await self._ask_for_gone(waiter, want):
                return
            if want.target_uid:
                return
        if found is not None:
            want.target_uid = found[0]
            self._follow(waiter, want)
            self._keep(waiter, want)
            waiter.checked = False

    def _near(self, waiter: Waiter) -> Iterable[Waiter]:
        """Every job that waits and on which this one waits, directly or by way of others."""
        found = {waiter.uid: waiter}
        ahead = [waiter]
        while ahead:
            for want in ahead.pop().open:
                other = self._waiters.get(want.target_uid)
                if other is not None and other.uid not in found:
                    found[other.uid] = other
                    ahead.append(other)
        return found.values()

    def _look_for_circle(self, waiter: Waiter) -> None:
        """Jobs that wait for one another are all told so."""
        way = circle({one.uid: [each.target_uid for each in one.open] for one in self._near(waiter)}, waiter.uid)
        titles = {uid: self._title(uid) for uid in way}
        for at, uid in enumerate(way):
            self._waiters[uid].circle = tuple(titles[other] for other in (*way[at:], *way[: at + 1]))
            if uid != waiter.uid:
                self._state.dependencies.look_again(uid)

    def _title(self, uid: str) -> str:
        job = self._state.jobs.get(uid)
        if job is not None:
            return f"{job.kind}/{job.name}"
        gang = self._state.gangs_by_uid.get(uid)
        return "" if gang is None else f"{'Pod' if gang.virtual else 'PodGroup'}/{gang.name}"

    async def _ask_for_gone(self, waiter: Waiter, want: Want) -> bool:
        """Ask the database for a job of the name that has gone since the waiting one was created; False if it does not
        answer.
        """
        since = datetime.fromtimestamp(waiter.created // _SECOND, UTC)
        one = want.dependency
        try:
            row = await self._store.jobs.gone(waiter.namespace, one.kind, one.name, since)
        except StoreError:
            want.asking = True
            return False
        want.asking = False
        want.ask_at = self._clock() + min(_LONGEST_PAUSE_NS, _SECOND << min(want.questions, _MOST_DOUBLED))
        want.questions += 1
        if row is not None:
            want.target_uid, want.seen, want.gone = row.uid, row.phase, True
            self._keep(waiter, want)
        return True

    async def _see(self, want: Want) -> None:
        """How the job is now that is waited for, or how it was when it was deleted."""
        if looked_at(self._state, want):
            return
        phase = self._state.dependencies.end_of(want.target_uid)
        if phase in FINISHED or want.seen in FINISHED:
            want.seen, want.gone, want.asking = phase if phase in FINISHED else want.seen, True, False
            return
        try:
            row = await self._store.jobs.get(want.target_uid)
        except StoreError:
            want.asking = True  # it may be written there that it succeeded
            return
        want.seen, want.gone, want.asking = row.phase if row is not None else phase or "", True, False

    def _follow(self, waiter: Waiter, want: Want) -> None:
        if not want.met_at and want.target_uid:
            self._waited_by[want.target_uid][waiter.uid] = None
            self._state.dependencies.watch(want.target_uid)

    def _keep(self, waiter: Waiter, want: Want) -> None:
        row = Waited(uid=waiter.uid, target=want.dependency.title, target_uid=want.target_uid, met_at=want.met_at)
        if self._kept[waiter.uid].get(row.target) != row:
            self._kept[waiter.uid][row.target] = row
            self._unwritten[row.uid, row.target] = row

    def _forget(self, uid: str) -> None:
        """A job waits for nothing any more, or is gone."""
        self._leave(uid)
        self._state.dependencies.forget(uid)
        self._unresolved.pop(uid, None)
        if self._kept.pop(uid, None):
            self._gone[uid] = None
            self._unwritten = {key: row for key, row in self._unwritten.items() if key[0] != uid}

    def _leave(self, uid: str) -> None:
        """Wait for nothing of what the job waited for; those that waited in a circle with it are looked at again."""
        waiter = self._waiters.pop(uid, None)
        if waiter is None:
            return
        for want in waiter.wants:
            waiting = self._waited_by.get(want.target_uid)
            if waiting is not None:
                waiting.pop(uid, None)
                if not waiting:
                    del self._waited_by[want.target_uid]
                    self._state.dependencies.watch_no_more(want.target_uid)
        if waiter.circle:
            for other in self._waiters.values():
                if set(other.circle) == set(waiter.circle):
                    other.circle, other.checked = (), False
                    self._state.dependencies.look_again(other.uid)

    async def _write(self) -> None:
        """Write what was found; with the database away it waits for the next sweep."""
        if not (self._unwritten or self._gone) or self._end is None:
            return
        rows, gone = self._unwritten, self._gone
        self._unwritten, self._gone = {}, {}
        try:
            await self._store.dependencies.forget(gone)
            await self._store.dependencies.put(list(rows.values()))
        except StoreError as error:
            self._unwritten, self._gone = rows | self._unwritten, gone | self._gone
            log.warning("what jobs wait for is not written down before the database answers", error=str(error))
