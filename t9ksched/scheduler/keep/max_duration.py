"""The limit a queue sets on how long its pods may run (`maxDuration`), and how it is enforced.

A pod over its time is ended through its highest owner that can be told to stop: a Deployment is scaled to 0, a Job
suspended, a training job paused. Only a pod without such an owner is deleted. Pods of DaemonSets and of system
priority are exempt.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.model.names import EVENT_MAX_DURATION_EXCEEDED
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reasons import Code
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.end_rules import pod_deadline
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.history import MAX_DURATION_EXCEEDED

log = structlog.get_logger(__name__)

_GANGS_A_SLICE: Final = 500
_LOOK_NS: Final = 200_000
"""Nanoseconds between two looks at a group for each group there is: ten seconds at 50,000, a look a second at 5,000."""


class MaxDurationKeeper:
    """Ends what runs too long; called by housekeeping."""

    def __init__(
        self,
        state: ClusterState,
        stopper: Stopper,
        events: EventWriter,
        recorder: HistoryRecorder,
        clock: Callable[[], int],
    ) -> None:
        self._stopper = stopper
        self._state = state
        self._events = events
        self._recorder = recorder
        self._clock = clock
        self._next = 0

    def overdue(self, gangs: Iterable[GangRecord]) -> Iterator[tuple[PodRecord, QueueSpec]]:
        """Pods of these groups over their queue's limit, each with the queue that sets it."""
        now = self._clock()
        limits = {name: queue.spec for name, queue in self._state.queues.items() if queue.spec.duration is not None}
        if not limits:
            return
        for gang in gangs:
            spec = limits.get(gang.queue)
            if spec is None:
                continue
            for pod in gang.members.values():
                end = pod_deadline(pod, spec)
                if end is not None and now > end and not (pod.finished or pod.deleting):
                    yield pod, spec

    async def sweep(self) -> int:
        """End every overdue pod; how many objects were told to stop. Looks less often where there are many groups."""
        now = self._clock()
        if now < self._next or all(queue.spec.duration is None for queue in self._state.queues.values()):
            return 0
        gangs = list(self._state.gangs.values())
        self._next = now + len(gangs) * _LOOK_NS
        found: list[tuple[PodRecord, QueueSpec]] = []
        for start in range(0, len(gangs), _GANGS_A_SLICE):
            found += self.overdue(gangs[start : start + _GANGS_A_SLICE])
            await asyncio.sleep(0)
        return await self._end(found)

    async def _end(self, overdue: list[tuple[PodRecord, QueueSpec]]) -> int:
        told: set[str] = set()
        for pod, spec in overdue:
            message = _why(pod, spec)
            try:
                resource, target = await self._stopper.highest(pod)
                uid = target["metadata"]["uid"]
                if uid in told:
                    continue
                told.add(uid)
                await self._stopper.stop(resource, target, EVENT_MAX_DURATION_EXCEEDED, message)
            except (NotFound, Conflict):
                continue  # gone already, or changed: the next sweep looks again
            except ApiError as error:
                log.warning("pod over its time not ended, trying again", pod=pod.key, error=str(error))
                continue
            self._events.event(target, EVENT_MAX_DURATION_EXCEEDED, message, warning=True)
            log.info("over maxDuration", pod=pod.key, limit=spec.max_duration, stopped=target["kind"])
            self._remember(pod, message)
        return len(told)

    def _remember(self, pod: PodRecord, message: str) -> None:
        """Record why the job does not run any more: in history, in its PodGroup's conditions and in explanations."""
        gang = pod.gang
        if gang is None or not gang.uid:
            return
        before = self._state.clocks.of(gang)
        if before is not None and before.run.ended_code == Code.MAX_DURATION_EXCEEDED:
            return  # recorded with the first of its pods
        self._state.note_end(gang, Code.MAX_DURATION_EXCEEDED, message, self._clock())
        self._recorder.ended(gang, MAX_DURATION_EXCEEDED, message, self._clock())


def _why(pod: PodRecord, spec: QueueSpec) -> str:
    since, what = (pod.created, "creation") if spec.max_duration_from == "Creation" else (pod.started, "start")
    limit = f"its queue's maxDuration of {spec.max_duration}"
    return f"pod {pod.name} reached {limit}, counted from its {what} at {timestamp(since)}"
