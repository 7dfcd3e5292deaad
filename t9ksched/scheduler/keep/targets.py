"""The jobs and arrays that other jobs wait for: which a name means, and how each is now or was when it went.

What is gone is looked for in SQL, where the last state of each job stays. With the database away it is asked again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Final

from t9ksched.scheduler.keep.waited_for import Key, Name, Part, Target, Waiter, Want, verdict
from t9ksched.scheduler.report.job_phase import phase_now, why_ended
from t9ksched.scheduler.state.dependencies import Verdict
from t9ksched.scheduler.state.records import FINISHED, job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.jobs import JobRecord as StoredJob
from t9ksched.store.jobs import Jobs
from t9ksched.workloads.dependencies import Dependency, read_after

_SECOND: Final = 1_000_000_000
_LONGEST_PAUSE_NS: Final = 300 * _SECOND
"""Between two questions to the database after a job that was deleted before it was seen."""
_MOST_DOUBLED: Final = 9
_A_SLICE: Final = 500


class Targets:
    """What is waited for. `clock` gives nanoseconds since the epoch."""

    def __init__(self, state: ClusterState, jobs: Jobs, clock: Callable[[], int]) -> None:
        self._state = state
        self._jobs = jobs
        self._clock = clock
        self._known: dict[Key, Target] = {}
        self._with: defaultdict[str, dict[Target, None]] = defaultdict(dict)
        """The targets that a job is a part of, by its UID."""
        self._asking: dict[str, None] = {}
        """Jobs of which the database has not answered how they ended."""
        self._missing: defaultdict[Name, dict[str, None]] = defaultdict(dict)
        """Names of which there is nothing, with the UIDs of those that wait for it."""
        self._asks: list[tuple[int, str]] = []
        """When the database is asked again for whom, as a heap; some wait no more."""
        self._completed: set[Target] = set()
        """Arrays of which all elements were looked for since the last call of `follow`."""

    def have(self, uid: str) -> bool:
        """Whether the job of that UID is a part of one of them."""
        return uid in self._with

    async def follow(self, changed: Iterable[str]) -> dict[str, None]:
        """Look again at the parts that changed, and at those of which the database has not answered; UIDs of the jobs
        that wait for one of them.
        """
        self._completed.clear()
        asked, self._asking = self._asking, {}
        found: dict[str, None] = {}
        for uid in (*changed, *asked):
            for target in self._with.get(uid, ()):
                await self._see(target, uid)
                found |= target.waiters
        return found

    async def come(self) -> dict[str, None]:
        """UIDs of jobs that wait for something of a name of which there is something now, or perhaps was."""
        now, found = self._clock(), dict[str, None]()
        while self._asks and self._asks[0][0] <= now:
            found[heappop(self._asks)[1]] = None
        for count, name in enumerate(list(self._missing), start=1):
            if self._is_there(*name):
                found |= self._missing.get(name, {})
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        return found

    async def find(self, waiter: Waiter, want: Want) -> bool:
        """Find out what a name means, if that is not known; whether it was found now."""
        found = await self._find(waiter, want)
        name = waiter.namespace, want.dependency.kind, want.dependency.name
        if want.target is None:
            self._missing[name][waiter.uid] = None
        else:
            self._no_longer_missing(name, waiter)
        return found

    async def _find(self, waiter: Waiter, want: Want) -> bool:
        one, here = want.dependency, waiter.namespace
        if want.target is not None:
            if want.target.array:
                await self._complete(want.target, here, one)
            return False
        found = _job_named(self._state, here, one.kind, one.name)
        if found is None or found[1] > waiter.created:
            # One that was there before may have gone while no scheduler ran, or in the last second.
            if (found is not None or self._clock() >= want.ask_at) and not await self._ask_for_gone(waiter, want):
                return False
            if want.target is not None:
                return True
        if found is not None:
            await self.mean(waiter, want, found[0])
            return True
        if self._elements(here, one):
            await self._mean_array(waiter, want)
        return want.target is not None

    async def mean(self, waiter: Waiter, want: Want, uid: str) -> None:
        """The name means the job of that UID."""
        target = self._known.get(uid)
        if target is None:
            target = self._known[uid] = Target(uid)
            self._add(target, uid, Part(want.dependency.title))
            await self._see(target, uid)
        self._attach(waiter, want, target)

    def waiting_for(self, uid: str) -> dict[str, None]:
        """UIDs of the jobs that wait for the job of that UID."""
        return {waiter: None for target in self._with.get(uid, ()) for waiter in target.waiters}

    def with_part(self, uid: str) -> Iterable[Target]:
        """The targets that the job of that UID is a part of."""
        return self._with.get(uid, ())

    def leave(self, waiter: Waiter) -> None:
        """A job waits for nothing of this any more."""
        for want in waiter.wants:
            self._no_longer_missing((waiter.namespace, want.dependency.kind, want.dependency.name), waiter)
        for target in {want.target: None for want in waiter.wants if want.target is not None}:
            target.waiters.pop(waiter.uid, None)
            if target.waiters:
                continue
            for uid in target.parts:
                self._with[uid].pop(target, None)
                if not self._with[uid]:
                    del self._with[uid]
                    self._state.dependencies.watch_no_more(uid)
            del self._known[target.key]

    def _no_longer_missing(self, name: Name, waiter: Waiter) -> None:
        if (those := self._missing.get(name)) is not None:
            those.pop(waiter.uid, None)
            if not those:
                del self._missing[name]

    def _is_there(self, namespace: str, kind: str, name: str) -> bool:
        """Whether there is a job of that name, or an element of an array of that name."""
        return _job_named(self._state, namespace, kind, name) is not None or self._state.arrays.has(namespace, name)

    def _attach(self, waiter: Waiter, want: Want, target: Target) -> None:
        want.target = target
        target.waiters[waiter.uid] = None

    def _add(self, target: Target, uid: str, part: Part) -> None:
        target.parts[uid] = part
        target.changed()
        self._with[uid][target] = None
        self._state.dependencies.watch(uid)

    def _elements(self, namespace: str, one: Dependency) -> dict[str, str]:
        return elements(self._state, namespace, one)

    async def _mean_array(self, waiter: Waiter, want: Want, gone: Iterable[StoredJob] = ()) -> None:
        """The name means an array: what there is of it, and elements that have gone."""
        one = want.dependency
        key = waiter.namespace, one.kind, one.name
        target = self._known.get(key)
        if target is None:
            target = self._known[key] = Target(key, array=True)
        for row in gone:
            if row.uid not in target.parts:
                self._add(target, row.uid, Part(f"{row.kind}/{row.name}", row.phase, gone_at=_moment(row)))
        self._attach(waiter, want, target)
        await self._complete(target, waiter.namespace, one)

    async def _complete(self, target: Target, namespace: str, one: Dependency) -> None:
        """Elements may have come since."""
        if target in self._completed:
            return
        self._completed.add(target)
        for uid, title in self._elements(namespace, one).items():
            if uid not in target.parts:
                self._add(target, uid, Part(title))
                await self._see(target, uid)

    async def _ask_for_gone(self, waiter: Waiter, want: Want) -> bool:
        """Ask the database for a job of the name, or for elements of an array, that have gone since the waiting one was
        created; False if it does not answer.
        """
        since = datetime.fromtimestamp(waiter.created // _SECOND, UTC)
        one, here = want.dependency, waiter.namespace
        try:
            row = await self._jobs.gone(here, one.kind, one.name, since)
            rows = [] if row is not None else await self._jobs.elements(here, one.kind, one.name, since)
        except StoreError:
            want.asking = True
            return False
        want.asking = False
        want.ask_at = self._clock() + min(_LONGEST_PAUSE_NS, _SECOND << min(want.questions, _MOST_DOUBLED))
        want.questions += 1
        heappush(self._asks, (want.ask_at, waiter.uid))
        if row is not None:
            target = self._known.setdefault(row.uid, Target(row.uid))
            self._add(target, row.uid, Part(one.title, row.phase, gone_at=_moment(row)))
            self._attach(waiter, want, target)
        elif rows:
            await self._mean_array(waiter, want, rows)
        return True

    async def _see(self, target: Target, uid: str) -> None:
        """How a job is now that is waited for, or how it was when it was deleted."""
        part = target.parts[uid]
        target.changed()
        if part.gone_at or looked_at(self._state, uid, part):
            return
        phase = self._state.dependencies.end_of(uid)
        if phase not in FINISHED and part.seen not in FINISHED:
            try:
                row = await self._jobs.get(uid)
            except StoreError:
                self._asking[uid] = None  # it may be written there that it succeeded
                return
            phase = row.phase if row is not None else phase
        part.seen = phase if phase in FINISHED or part.seen not in FINISHED else part.seen
        part.stopped, part.gone_at = "", self._clock()


def _moment(row: StoredJob) -> int:
    assert row.deleted_at is not None
    return int(row.deleted_at.timestamp()) * _SECOND + row.deleted_at.microsecond * 1000


def elements(state: ClusterState, namespace: str, one: Dependency) -> dict[str, str]:
    """The elements of the array of that name that are there, with their titles by UID."""
    titles = {uid: title_of(state, uid) for uid in state.arrays.elements(namespace, one.name)}
    return {uid: title for uid, title in titles.items() if title.partition("/")[0] == one.kind}


def _job_named(state: ClusterState, namespace: str, kind: str, name: str) -> tuple[str, int] | None:
    """UID of the job of that name, and when it was created; None if there is none."""
    if kind == "Pod":
        pod = state.pods.get(state._pods_by_name.get((namespace, name), ""))
        return None if pod is None else (pod.uid, pod.created)
    if kind == "PodGroup":
        gang = state.gangs.get((namespace, name))
        return None if gang is None or not gang.uid else (job_of(gang), gang.created)
    job = state.jobs.get(state.job_names.get((namespace, kind, name), ""))
    return None if job is None else (job.uid, job.created)


def title_of(state: ClusterState, uid: str) -> str:
    """The job of that UID, for people; empty if it is gone."""
    job = state.jobs.get(uid)
    if job is not None:
        return f"{job.kind}/{job.name}"
    gang = state.gangs_by_uid.get(uid)
    return "" if gang is None else f"{'Pod' if gang.virtual else 'PodGroup'}/{gang.name}"


def looked_at(state: ClusterState, uid: str, part: Part) -> bool:
    """Note how a job is now that is waited for; False if it is gone."""
    pod = state.pods.get(uid)
    phase = pod.phase if pod is not None else phase_now(state, uid)
    if phase is None:
        return False
    stopped = why_ended(state, uid)
    part.seen, part.stopped = phase, "" if stopped is None or phase in FINISHED else stopped.message
    return True


def foreseen(state: ClusterState, namespace: str, text: str, now: int) -> Verdict:
    """What would hold for a job that were submitted now with this annotation; `now` is in nanoseconds since the epoch.

    Raises:
        ValueError: the text names no jobs.
    """
    waiter = Waiter("", namespace, now, text, tuple(map(Want, read_after(text))))
    for want in waiter.wants:
        found = _job_named(state, namespace, want.dependency.kind, want.dependency.name)
        known = {found[0]: want.dependency.title} if found else elements(state, namespace, want.dependency)
        if known:
            parts = {uid: Part(title) for uid, title in known.items()}
            for uid, part in parts.items():
                looked_at(state, uid, part)
            want.target = Target("", found is None, parts)
        want.met_at = now if want.met(now) else 0
    return verdict(waiter)
