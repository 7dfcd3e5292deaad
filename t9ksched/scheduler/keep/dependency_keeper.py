"""Says of jobs that wait for others whether they may start, and keeps in SQL what was found out.

A name means the job of that name that is there when the waiting job is created, else the next one that comes; where
there is none, all elements of the array of that name. Which job it was, and that all ended as was wanted, is written
down once and holds from then on, whatever becomes of it later. That a job can never start is found anew as long as it
waits, for its annotation may be edited. With the database away this goes on in memory.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from t9ksched.scheduler.keep.dependency_end import DependencyEnd
from t9ksched.scheduler.keep.targets import Targets, title_of
from t9ksched.scheduler.keep.waited_for import Target, Waiter, Want, verdict
from t9ksched.scheduler.state.dependencies import root_asks, unreadable
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.dependencies import Waited
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store
from t9ksched.workloads.dependencies import read_after

log = structlog.get_logger(__name__)

_A_SLICE: Final = 200
_MANY: Final = 1000
"""Jobs that changed, of which most are none that another one waits for."""


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
        self._targets = Targets(state, store.jobs, clock)
        self._waiters: dict[str, Waiter] = {}
        self._again: dict[str, None] = {}
        """Jobs that are looked at in the next sweep though nothing of them changed."""
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
        changed: list[str] = []
        for some in self._changed.pieces(_MANY):
            changed += [uid for uid in some if uid in self._waiters or self._targets.have(uid)]
            await asyncio.sleep(0)
        affected = await self._targets.follow(changed)
        affected |= {uid: None for uid in changed if uid in self._waiters}
        affected |= state.dependencies.take_unread() | self._again | await self._targets.come()
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
        asks = root_asks(self._state, gangs[0]) if gangs else None
        if asks is None or not asks.after:
            if gangs or not self._state.knows(uid):
                self._forget(uid)
            return
        waiter = self._waiters.get(uid)
        if waiter is None or waiter.text != asks.after:
            try:
                waiter = await self._begin(uid, asks.after)
            except ValueError as error:
                self._forget(uid)
                self._state.dependencies.tell(uid, unreadable(asks.after, str(error)))
                return
        for want in waiter.open:
            await self._find(waiter, want)
        if not waiter.checked:
            waiter.checked = True
            self._look_for_circle(waiter)
        told = verdict(waiter)
        self._state.dependencies.tell(uid, told)
        again = any(want.asking for want in waiter.open)
        wants_end = asks.cancel.strip().lower() == "true"
        if self._end is not None:
            again = await self._end.settle(uid, told, ask=wants_end, now=self._clock()) or again
        if again:
            self._again[uid] = None
        else:
            self._again.pop(uid, None)

    async def _begin(self, uid: str, text: str) -> Waiter:
        """A job waits, or waits for something else than before.

        Raises:
            ValueError: the text names no jobs.
        """
        dependencies = read_after(text)
        self._leave(uid)
        gang = self._state.groups_of(uid)[0]
        job = self._state.jobs.get(uid)
        created = job.created if job is not None else gang.created
        waiter = self._waiters[uid] = Waiter(uid, gang.namespace, created, text, tuple(map(Want, dependencies)))
        for want in waiter.wants:
            if (row := self._kept.get(uid, {}).get(want.dependency.title)) is not None:
                want.met_at = row.met_at
                if row.target_uid and not row.met_at:
                    await self._targets.mean(waiter, want, row.target_uid)
        return waiter

    async def _find(self, waiter: Waiter, want: Want) -> None:
        """Bring what is known of one name up to date."""
        if await self._targets.find(waiter, want):
            waiter.checked = False
            self._keep(waiter, want)
        if want.met(waiter.created):
            want.met_at = self._clock()
            self._keep(waiter, want)

    def _look_for_circle(self, waiter: Waiter) -> None:
        """Jobs that wait for one another are all told so."""
        if not self._may_wait_for_itself(waiter.uid):
            return
        way = self._way_back(waiter.uid)
        titles = {uid: title_of(self._state, uid) for uid in way}
        ring = tuple(titles.values())
        for at, uid in enumerate(way):
            self._waiters[uid].ring, self._waiters[uid].at = ring, at
            if uid != waiter.uid:
                self._state.dependencies.look_again(uid)
            for other in self._targets.waiting_for(uid):  # they may be in a circle with it, too
                if not self._waiters[other].ring and other not in titles:
                    self._waiters[other].checked = False
                    self._state.dependencies.look_again(other)

    def _may_wait_for_itself(self, start: str) -> bool:
        """False if a job does not wait for itself: either it is not among what it waits for in the end, or it is not
        among those that wait for it in the end. Both are followed in step: in a long chain that is submitted in order,
        one of them is short.
        """
        return any(start in both for both in zip(self._ahead(start), self._behind(start), strict=False))

    def _ahead(self, start: str) -> Iterator[str]:
        """What a job waits for, directly or by way of others; one may come twice."""
        left, known, seen = [start], {start}, set[Target]()
        while left:
            waiter = self._waiters.get(left.pop())
            for want in waiter.open if waiter is not None else ():
                if want.target is None or want.target in seen:
                    continue
                seen.add(want.target)
                for uid in want.target.parts:
                    yield uid
                    if uid not in known:
                        known.add(uid)
                        left.append(uid)

    def _behind(self, start: str) -> Iterator[str]:
        """Those that wait, or waited, for a job, directly or by way of others; one may come twice."""
        left, known, seen = [start], {start}, set[Target]()
        while left:
            for target in self._targets.with_part(left.pop()):
                if target in seen:
                    continue
                seen.add(target)
                for uid in target.waiters:
                    yield uid
                    if uid not in known:
                        known.add(uid)
                        left.append(uid)

    def _way_back(self, start: str) -> tuple[str, ...]:
        """The jobs by way of which a job waits for itself, itself first; none if it does not. What many wait for is
        looked at once.
        """
        came: dict[str, str] = {}
        ahead, seen = [start], set[Target]()
        while ahead:
            at = ahead.pop()
            for target in [want.target for want in self._waiters[at].open]:
                if target is None or target in seen:
                    continue
                if start in target.parts:
                    way = [at]
                    while way[-1] != start:
                        way.append(came[way[-1]])
                    return tuple(reversed(way))
                seen.add(target)
                for uid in target.parts:
                    if uid in self._waiters and uid not in came:
                        came[uid] = at
                        ahead.append(uid)
        return ()

    def _keep(self, waiter: Waiter, want: Want) -> None:
        target = want.target
        uid = next(iter(target.parts)) if target is not None and not target.array else ""
        row = Waited(uid=waiter.uid, target=want.dependency.title, target_uid=uid, met_at=want.met_at)
        if self._kept[waiter.uid].get(row.target) != row:
            self._kept[waiter.uid][row.target] = row
            self._unwritten[row.uid, row.target] = row

    def _forget(self, uid: str) -> None:
        """A job waits for nothing any more, or is gone."""
        self._leave(uid)
        self._state.dependencies.forget(uid)
        self._again.pop(uid, None)
        if self._kept.pop(uid, None):
            self._gone[uid] = None
            self._unwritten = {key: row for key, row in self._unwritten.items() if key[0] != uid}

    def _leave(self, uid: str) -> None:
        """Wait for nothing of what the job waited for; those that waited in a circle with it are looked at again."""
        waiter = self._waiters.pop(uid, None)
        if waiter is None:
            return
        self._targets.leave(waiter)
        if waiter.ring:
            rings = {id(other.ring): other.ring for other in self._waiters.values()}
            alike = {key for key, ring in rings.items() if set(ring) == set(waiter.ring)} | {id(waiter.ring)}
            for other in self._waiters.values():
                if id(other.ring) in alike:
                    other.ring, other.checked = (), False
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
