"""Gangs that have only a part of their minimum: completed, refilled, or evicted whole. A gang that never ran and has
some members bound, but not its minimum, is first completed by the next cycles: its members come first in their queue
and refused places are reserved for it. When that takes longer than the bind timeout, its bound members are evicted, so
that another gang can use the room. A gang that ran and lost members is refilled before anything new of its queue; below
its minimum for the recovery timeout, with members that wait for a place, it is evicted whole and queued again as one,
with the age it had.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.engine.policy import Preemption
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.write.eviction import NotEvicted, TryLater, Victim, evict
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refill import GANG_RECOVERY_TIMEOUT_SECONDS
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

GANG_BIND_TIMEOUT_SECONDS: Final = 60
_SECOND: Final = 1_000_000_000


class GangTimeouts:
    """Looks for incomplete gangs; called by housekeeping. Timeouts in seconds; `most_grace` gives the longest
    time, in seconds, that a pod gets to end.
    """

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        executor: Executor,
        recorder: HistoryRecorder,
        clock: Callable[[], int],
        *,
        timeout: int = GANG_BIND_TIMEOUT_SECONDS,
        recovery: int = GANG_RECOVERY_TIMEOUT_SECONDS,
        most_grace: Callable[[], int] = lambda: Preemption().max_grace_seconds,
    ) -> None:
        self._client = client
        self._state = state
        self._executor = executor
        self._recorder = recorder
        self._clock = clock
        self._timeout = timeout * _SECOND
        self._recovery = state.refills.recovery = recovery * _SECOND
        self._most_grace = most_grace

    def overdue(self) -> list[GangRecord]:
        """Gangs that have been incomplete for too long and have no binding under way. After a restart the time of an
        incomplete gang counts from when this scheduler first saw it.
        """
        if self._state.outage.unread:
            return []  # which pods may join the gang is not known yet: no gang is evicted because the database was away
        now = self._clock()
        self._state.follow_losses(now)
        found = []
        for gang in self._state.partial:
            if any(pod.assumed for pod in gang.members.values()) or not _own(gang):
                continue
            if not gang.ran:
                late = now - self._state.progress.starting(gang, now) > self._timeout
            elif any(pod.waiting and not pod.unpermitted for pod in gang.members.values()) and not gang.unpermitted:
                late = now - self._state.progress.recovering(gang, now) > self._recovery
            else:
                late = False  # members ended for good, or may not come: what runs is not evicted for that
            if late:
                found.append(gang)
        return found

    async def sweep(self) -> int:
        """Evict every overdue gang; returns how many."""
        gangs = self.overdue()
        await asyncio.gather(*(self._take_back(gang) for gang in gangs))
        return len(gangs)

    async def _take_back(self, gang: GangRecord) -> None:
        bound = _own(gang)
        least, ran = gang.minimum.members, gang.ran
        if ran:
            message = (
                f"{len(bound)} of {least} members were left and the rest did not come back within"
                f" {self._recovery // _SECOND} s: the group is evicted whole and queued again"
            )
        else:
            message = (
                f"{len(bound)} of {least} members were bound and the rest did not follow within"
                f" {self._timeout // _SECOND} s: the bound ones are taken back, the group starts again as a whole"
            )
        log.warning("gang taken back", gang=gang.key, bound=len(bound), minimum=least, ran=ran)
        reason = "GangRecoveryTimeout" if ran else "GangBindTimeout"
        self._state.meters.taken_back.add(reason)
        self._state.start_again(gang, reason, message)
        self._recorder.taken_back(gang, message, self._clock())
        done = await asyncio.gather(*(self._evict(pod, reason, message) for pod in bound))
        if not all(done):
            self._state.progress.starting_since(gang, self._clock() - self._timeout)  # checked in the next sweep

    async def _evict(self, pod: PodRecord, reason: str, message: str) -> bool:
        """Evict one pod; whether it is going. A refused or unknown result is tried again."""
        now = datetime.fromtimestamp(self._clock() / _SECOND, UTC)
        victim = Victim(pod.namespace, pod.name, pod.uid)
        most = self._most_grace()
        result = await evict(self._client, victim, message=message, now=now, reason=reason, most_grace=most)
        if isinstance(result, NotEvicted | TryLater):
            log.warning("pod not taken back, trying again", pod=pod.key, error=result.message)
            return False
        return True


def _own(gang: GangRecord) -> list[PodRecord]:
    """Members that hold places and got them in this very group: only those are evicted for its minimum."""
    return [pod for pod in gang.members.values() if pod.holds and not gang.inherited(pod)]
