"""Jobs by name, submitter, queue and namespace, so that a request about a few jobs does not walk over all. The state's
change feed names the jobs that changed; the index is updated for these when a request comes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from t9ksched.scheduler.report.observed_job import (
    ObservedJob,
    former_submitters,
    observed_job,
    submitted_by,
    submitter,
)
from t9ksched.scheduler.report.single_pod import to_start
from t9ksched.scheduler.state.state import ClusterState

_PERIOD_SECONDS: Final = 5.0
_A_SLICE: Final = 200


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """What a job is found by."""

    namespace: str
    kind: str
    """In lower case."""
    name: str
    queue: str | None
    submitters: tuple[str | None, ...]
    """The submitter, and other users whose pods run on in the job."""

    @property
    def owners(self) -> tuple[tuple[str, str | None], ...]:
        """Whose it is."""
        other = (("queue", self.queue), ("namespace", self.namespace))
        if len(self.submitters) == 1:
            return ("submitter", self.submitters[0]), *other
        return *(("submitter", name) for name in self.submitters), *other


class JobIndex:
    """An index of the jobs of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._changed = state.feed.jobs.follow()
        self._nameless = state.feed.nameless.follow()
        self._entries: dict[str, _Entry] = {}
        self._named: defaultdict[tuple[str, str], dict[str, str | tuple[str, ...]]] = defaultdict(dict)
        """By namespace and kind, the job of each name. One follows another of the same; for a moment there are both."""
        self._owned: defaultdict[tuple[str, str | None], dict[str, None]] = defaultdict(dict)

    async def run(self) -> None:
        """Update the index every few seconds, until cancelled, so that a request finds little left to do. At a start
        placing what waits comes first, and what was placed meanwhile is looked at once.
        """
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Take in what changed, a slice at a time."""
        for changed in (self._changed, self._nameless):
            for some in changed.pieces(_A_SLICE):
                for uid in some:
                    self._look(uid)
                if changed:
                    await asyncio.sleep(0)

    async def find(self, namespace: str, kind: str, name: str) -> ObservedJob | None:
        """The job of that name, the kind in any case; of two the one whose object is still there."""
        await self.refresh()
        found = _all(self._named.get((namespace, kind.lower()), {}).get(name, ()))
        uid = next((uid for uid in found if uid in self._state.jobs), None) or next(iter(found), None)
        return None if uid is None else observed_job(self._state, uid)

    async def all(self) -> list[str]:
        """UIDs of every job the scheduler has to do with."""
        await self.refresh()
        return list(self._entries)

    async def of(
        self, submitters: Iterable[str] = (), queues: Iterable[str] = (), namespaces: Iterable[str] = ()
    ) -> Collection[str]:
        """UIDs of jobs that one of these people submitted, or has pods in from an earlier PodGroup of the name, or that
        lie in one of these queues or namespaces.
        """
        await self.refresh()
        found: dict[str, None] = {}
        for what, names in (("submitter", submitters), ("queue", queues), ("namespace", namespaces)):
            for name in names:
                found |= self._owned.get((what, name), {})
        return found

    def _look(self, uid: str) -> None:
        entry, before = self._entry(uid), self._entries.get(uid)
        if entry is None:
            if before is not None:
                del self._entries[uid]
                self._drop(uid, before)
            return
        if entry == before:
            return
        if before is not None:
            self._drop(uid, before)
        self._entries[uid] = entry
        named = self._named[entry.namespace, entry.kind]
        named[entry.name] = uid if entry.name not in named else (*_all(named[entry.name]), uid)
        for owner in entry.owners:
            self._owned[owner][uid] = None

    def _entry(self, uid: str) -> _Entry | None:
        state = self._state
        single = to_start(state, uid)
        if single is not None and (gang := single.gang) is not None:
            return _Entry(gang.namespace, "pod", gang.name, gang.queue, (submitted_by(gang, state),))
        view = observed_job(state, uid)
        if view is None:
            return None
        whose = submitter(view, state), *former_submitters(view, state)
        return _Entry(view.namespace, view.kind.lower(), view.name, view.queue, whose)

    def _drop(self, uid: str, entry: _Entry) -> None:
        named = self._named[entry.namespace, entry.kind]
        left = [other for other in _all(named[entry.name]) if other != uid]
        if left:
            named[entry.name] = left[0] if len(left) == 1 else tuple(left)
        else:
            del named[entry.name]
            if not named:
                del self._named[entry.namespace, entry.kind]
        for owner in entry.owners:
            del self._owned[owner][uid]
            if not self._owned[owner]:
                del self._owned[owner]


def _all(jobs: str | tuple[str, ...]) -> tuple[str, ...]:
    """The UIDs of all jobs of a name: most have one."""
    return (jobs,) if isinstance(jobs, str) else jobs
