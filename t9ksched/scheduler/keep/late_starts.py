"""What happens to a job whose minimum does not run within `startTimeout` after it was bound: it is evicted whole and
queued again with a pause that doubles, and after three times waits until it is released.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.kube.write.eviction import NotEvicted, TryLater, Victim, evict
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import written
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.clocks import FIRST_PAUSE_SECONDS, MOST_MISSED, SECOND, Clock
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refill import GANG_RECOVERY_TIMEOUT_SECONDS
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Times in seconds, as the policy has them now.

    Attributes:
        start: within which a job's minimum must run after it was bound; 0 for no such limit.
        most_grace: the longest time that an evicted pod gets to end.
        recovery: how long a job may be without any place before its clock starts anew.
    """

    start: Callable[[], int]
    most_grace: Callable[[], int]
    recovery: int = GANG_RECOVERY_TIMEOUT_SECONDS


class LateStarts:
    """Evicts jobs that do not start in time. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        recorder: HistoryRecorder,
        clock: Callable[[], int],
        timeouts: Timeouts,
    ) -> None:
        self._client = client
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._start_timeout = timeouts.start
        self._most_grace = timeouts.most_grace

    async def evict(self, clock: Clock, gangs: list[GangRecord], pods: list[PodRecord], now: int) -> None:
        """Evict a job that was bound and does not run."""
        stuck = next((pod for pod in pods if pod.phase != "Running"), pods[0])
        why = await self._why_stuck(stuck)
        missed = clock.run.missed + 1
        pause = FIRST_PAUSE_SECONDS * 2 ** (missed - 1) * SECOND
        again = (
            f"it is tried again at {timestamp(now + pause)}"
            if missed < MOST_MISSED
            else f"that was the {missed}rd time: it waits until it is released"
        )
        timeout = written(self._start_timeout())
        message = f"its minimum did not run within {timeout} after it was bound ({why}): it is evicted whole, {again}"
        clock.set(missed=missed, missed_at=now, retry_at=now + pause, why=why)
        for gang in gangs:
            self._state.start_again(gang, Code.START_TIMED_OUT, message)
        self._recorder.ended(gangs[0], history.START_TIMED_OUT, message, now, notice=names.EVENT_START_TIMED_OUT)
        log.warning("start timed out", job=gangs[0].key, missed=missed, why=why)
        await asyncio.gather(*(self._evict(pod, message) for pod in pods))

    async def _evict(self, pod: PodRecord, message: str) -> None:
        victim, now = Victim(pod.namespace, pod.name, pod.uid), datetime.fromtimestamp(self._clock() / SECOND, UTC)
        most = self._most_grace()
        result = await evict(
            self._client, victim, message=message, now=now, reason=names.EVENT_START_TIMED_OUT, most_grace=most
        )
        if isinstance(result, NotEvicted | TryLater):
            clock = self._state.clocks.of(pod.gang) if pod.gang is not None else None
            if clock is not None:
                clock.evicted -= {pod.uid}  # it counts as placed again, and times out again
            log.warning("pod that did not start not evicted, trying again", pod=pod.key, error=result.message)

    async def _why_stuck(self, pod: PodRecord) -> str:
        """What a pod's kubelet says about a container that does not run."""
        try:
            status = (await self._client.get(PODS, pod.name, pod.namespace)).get("status") or {}
        except ApiError as error:
            return f"pod {pod.name} could not be asked why: {error}"
        for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") and waiting["reason"] != "PodInitializing":
                message = f": {waiting['message']}" if waiting.get("message") else ""
                return f"container {each.get('name')} of pod {pod.name}: {waiting['reason']}{message}"
        return f"pod {pod.name} is {status.get('phase') or 'Pending'} and says no more"
