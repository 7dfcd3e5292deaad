"""Enforces time limits of jobs, and that jobs start in time.

A job that reaches its limit is ended through its owner; one whose minimum does not run within `startTimeout` after it
was bound is evicted whole and queued again with a pause that doubles, and after three times waits until it is released.
The clocks are stored in SQL, so that a restart neither shortens nor extends a limit; with the database away they go on
in memory.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.kube.write.eviction import NotEvicted, TryLater, Victim, evict
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import limit_seconds, written
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.clocks import (
    FIRST_PAUSE_SECONDS,
    MOST_MISSED,
    NEAR_SECONDS,
    SECOND,
    SLOW_START_NS,
    Clock,
)
from t9ksched.scheduler.state.limits import control_of, limit_warning, own_limit
from t9ksched.scheduler.state.objects import ran_since, timestamp
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of
from t9ksched.scheduler.state.refill import GANG_RECOVERY_TIMEOUT_SECONDS
from t9ksched.scheduler.state.start_times import start_asked
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history
from t9ksched.store.errors import StoreError
from t9ksched.store.runs import Run, Runs

log = structlog.get_logger(__name__)

_A_SLICE: Final = 200
_STOP_AGAIN_NS: Final = 5 * SECOND
_REMEMBERED_NS: Final = 24 * 3600 * SECOND
"""How long the reason is kept why a job ended that has no object here, such as a ReplicaSet without pods."""


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


class TimeKeeper:
    """Looks at clocks; called by housekeeping once a second. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        stopper: Stopper,
        recorder: HistoryRecorder,
        events: EventWriter,
        runs: Runs,
        clock: Callable[[], int],
        timeouts: Timeouts,
    ) -> None:
        self._client = client
        self._state = state
        self._stopper = stopper
        self._recorder = recorder
        self._events = events
        self._runs = runs
        self._clock = clock
        self._start_timeout = timeouts.start
        self._most_grace = timeouts.most_grace
        self._recovery = timeouts.recovery * SECOND
        self._gone: dict[str, None] = {}
        """Jobs of which rows are to be removed."""
        self._told: dict[str, tuple[str, str]] = {}
        """By job, the messages already sent about its time limit and its start time."""
        self._changed = state.feed.gangs.follow()

    async def sweep(self) -> None:
        """Check every job that changed or that has a clock, act on what is due, and store the clocks."""
        state = self._state
        if state.outage.unread:
            return  # the acceptances are in the database and not read yet
        state.settle()
        changed = self._changed.take()
        for count, gang in enumerate(changed, start=1):
            self._tell_of_annotation(gang)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        jobs = dict.fromkeys(job_of(gang) for gang in changed)
        jobs |= dict.fromkeys(state.clocks.by_job)
        due = []
        for count, uid in enumerate(jobs, start=1):
            due += self._look(uid, self._clock())
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*due)
        await self._write()

    def _look(self, uid: str, now: int) -> list[Any]:
        """Bring one job's clock up to date; returns what is due."""
        state, clocks = self._state, self._state.clocks.by_job
        gangs = state.groups_of(uid)
        clock = clocks.get(uid)
        before = clock.run if clock is not None else None
        evicted = clock.evicted if clock is not None else frozenset()
        # Pods of an earlier group of this name are not ended by this job's limit, however long they run.
        holding = [pod for gang in gangs for pod in gang.members.values() if pod.holds and not gang.inherited(pod)]
        holds = [pod for pod in holding if pod.uid not in evicted] if evicted else holding
        runs = any(gang.runs(evicted) for gang in gangs)
        limit = own_limit(state, gangs[0]) if gangs else None
        if clock is None:
            if not holds or (runs and limit is None and uid not in state.clocks.again):
                return []
            control = control_of(state, gangs[0]) if gangs else state.controls.get(uid)
            given = control is not None and control.time_limit_seconds is not None
            # What this process did not place began before it was started, and no clock of it was written.
            found = limit is not None and not any(gang.first_bound for gang in gangs)
            clock = clocks[uid] = Clock(Run(uid=uid), unsure=runs and (given or found))
        if evicted:
            clock.evicted = frozenset(pod.uid for gang in gangs for pod in gang.members.values()) & evicted
        if holds:
            self._runs_on(clock, gangs, now, runs=runs, limited=limit is not None)
        else:
            self._lost(clock, now)
        if clock.run is not before:
            state.clock_changed(uid)
        if self._is_over(clock, now, known=bool(gangs) or uid in state.jobs, timeless=runs and limit is None):
            self._forget(uid)
            return []
        if runs and clock.unsure:
            return [self._learn(clock, gangs)]
        clock.unsure = False
        if clock.run.ended_code == Code.TIME_LIMIT_EXCEEDED:
            job = state.jobs.get(uid)
            clock.look_at(job.limit_text if job is not None else gangs[0].limit_text if gangs else "", now)
        return self._due(clock, gangs, holding, holds, limit, now)

    def _lost(self, clock: Clock, now: int) -> None:
        """The job has no place: a pause, or long enough without one, ends its run."""
        clock.lost_at = clock.lost_at or now
        job = self._state.jobs.get(clock.run.uid)
        paused = job is not None and job.phase == "Paused"
        if paused or now - clock.lost_at > self._recovery:
            clock.start_anew(())
            self._state.clocks.again.add(clock.run.uid)

    def _runs_on(self, clock: Clock, gangs: list[GangRecord], now: int, *, runs: bool, limited: bool) -> None:
        """The job has places: note when it was bound and since when it runs."""
        clock.lost_at = 0
        if clock.run.ended_code == Code.MAX_DURATION_EXCEEDED:
            clock.set(ended_at=0, ended_code="", message="")  # it was resumed
        if not clock.run.bound_at and any(gang.complete(bound=True) for gang in gangs):
            since = [gang.first_bound for gang in gangs if gang.first_bound]
            clock.timed = bool(since)  # a job that was bound before this scheduler started may have been bound for long
            clock.note(keep=limited, bound_at=min(since, default=now))
        if runs and not clock.run.ran_at and not clock.unsure:
            clock.note(keep=limited or bool(clock.run.missed), ran_at=now, missed=0, missed_at=0, retry_at=0, why="")
            self._begun(clock, gangs[0])
        elif not runs and clock.timed and not clock.run.ran_at and not clock.written:
            clock.unwritten = clock.unwritten or now - clock.run.bound_at > SLOW_START_NS

    def _begun(self, clock: Clock, gang: GangRecord) -> None:
        """Since when a job runs is known, by the clock that its limit counts on: its present run began then."""
        self._state.clocks.again.discard(clock.run.uid)
        self._state.gate.note_run(gang, clock.run.ran_at)

    def _is_over(self, clock: Clock, now: int, *, known: bool, timeless: bool) -> bool:
        """Whether no part of a job's clock must be kept."""
        run = clock.run
        kept = max(run.missed_at, run.ended_at, run.limit_at)
        if not kept:
            return timeless or run == Run(uid=run.uid)
        return not known and now - kept > _REMEMBERED_NS

    async def _learn(self, clock: Clock, gangs: list[GangRecord]) -> None:
        """Find out since when the minimum of a job runs if no scheduler saw it begin. The nodes report it, and their
        clocks may be wrong: the time is limited to the interval that is known.
        """
        began: list[int] = []
        for gang in gangs:
            times: list[tuple[int, str]] = []
            for pod in gang.members.values():
                if pod.phase in ("Running", "Succeeded") and not (pod.deleting or pod.uid in clock.evicted):
                    try:
                        item = await self._client.get(PODS, pod.name, pod.namespace)
                    except ApiError:
                        return  # asked again at the next check
                    times.append((ran_since(item.get("status") or {}), pod.role))
            began.append(_minimum_since(gang, times))
        now = self._clock()
        said = min((since for since in began if since), default=0)
        earliest = clock.run.bound_at if clock.timed else min(gang.created for gang in gangs)
        clock.unsure = False
        clock.set(ran_at=min(now, max(said, earliest)) if said else now, missed=0, missed_at=0, retry_at=0, why="")
        self._begun(clock, gangs[0])
        self._state.clock_changed(clock.run.uid)

    def _due(
        self,
        clock: Clock,
        gangs: list[GangRecord],
        holding: list[PodRecord],
        holds: list[PodRecord],
        limit: int | None,
        now: int,
    ) -> list[Any]:
        run = clock.run
        if run.ended_code == Code.TIME_LIMIT_EXCEEDED:
            if holding and now >= clock.stop_at:
                clock.stop_at = now + _STOP_AGAIN_NS
                return [self._stop(gangs[0], holding, run.message)]
            return []
        if not holds or not run.bound_at:
            return []
        timeout = self._start_timeout() * SECOND
        late = bool(timeout) and not run.ran_at and now - run.bound_at >= timeout
        if late and clock.timed:
            return [self._start_timed_out(clock, gangs, holds, now)]
        if limit is None:
            return []
        since = run.ran_at or (run.bound_at + timeout if late else 0)
        if not since:
            return []
        end = since + limit * SECOND
        if clock.signal is None and now < end:
            return [self._ask_for_signal(clock, gangs[0], holds[0], limit)]
        if now >= end - (clock.signal or 0) * SECOND:
            message = f"it reached its time limit of {written(limit)}: it has been running since {timestamp(since)}"
            if now < end:
                message = (
                    f"it reaches its time limit of {written(limit)} at {timestamp(end)}: it is told to stop"
                    f" {written(clock.signal)} before, as {names.SIGNAL_BEFORE_ANNOTATION} asks"
                )
            self._state.note_end(gangs[0], Code.TIME_LIMIT_EXCEEDED, message, now, limit)
            clock.stop_at = now + _STOP_AGAIN_NS
            notice = names.EVENT_TIME_LIMIT_EXCEEDED
            self._recorder.ended(gangs[0], history.TIME_LIMIT_EXCEEDED, message, now, notice=notice)
            log.info("time limit reached", job=gangs[0].key, seconds=limit)
            return [self._stop(gangs[0], holds, message)]
        if limit > NEAR_SECONDS and not run.near and now >= end - NEAR_SECONDS * SECOND:
            clock.set(near=True)
            text = f"it reaches its time limit of {written(limit)} at {timestamp(end)} and is ended then"
            self._events.gang(gangs[0], names.EVENT_TIME_LIMIT_NEAR, text)
        return []

    async def _ask_for_signal(self, clock: Clock, gang: GangRecord, pod: PodRecord, limit: int) -> None:
        """Read how long before its limit a job asks to be stopped, once a run: a later edit has no effect. This applies
        to kinds that can be stopped; a single pod gets SIGTERM when it is deleted, at the limit.
        """
        try:
            text = await self._stopper.annotation(pod, names.SIGNAL_BEFORE_ANNOTATION)
            seconds = limit_seconds(text) or 0
        except ApiError:
            return  # asked again at the next check
        except ValueError as error:
            seconds = 0
            fault = f"the annotation {names.SIGNAL_BEFORE_ANNOTATION} is ignored: {error}"
            self._events.gang(gang, names.EVENT_TIME_LIMIT_IGNORED, fault, warning=True)
        if seconds >= limit:
            fault = (
                f"the annotation {names.SIGNAL_BEFORE_ANNOTATION} is ignored: {written(seconds)} is not shorter than"
                f" the time limit, {written(limit)}"
            )
            self._events.gang(gang, names.EVENT_TIME_LIMIT_IGNORED, fault, warning=True)
            seconds = 0
        clock.signal = seconds

    async def _stop(self, gang: GangRecord, pods: list[PodRecord], message: str) -> None:
        """End a job through its owners, each stopped once; pods without one are deleted. Failures are tried again."""
        told: set[str] = set()
        for pod in pods:
            try:
                resource, target = await self._stopper.highest(pod)
                if target["metadata"]["uid"] not in told:
                    told.add(target["metadata"]["uid"])
                    await self._stopper.stop(resource, target, names.EVENT_TIME_LIMIT_EXCEEDED, message)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                log.warning("job over its time limit not ended, trying again", job=gang.key, error=str(error))

    async def _start_timed_out(self, clock: Clock, gangs: list[GangRecord], pods: list[PodRecord], now: int) -> None:
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

    def _tell_of_annotation(self, gang: GangRecord) -> None:
        """Say once that a limit or a start time cannot be read, or that a limit was edited after it was agreed on."""
        limit, start = limit_warning(self._state, gang), start_asked(self._state, gang).fault
        known = self._told.get(job_of(gang), ("", ""))
        if (limit or start) and known != (limit, start):
            self._told[job_of(gang)] = limit, start
            if limit and limit != known[0]:
                self._events.gang(gang, names.EVENT_TIME_LIMIT_IGNORED, limit, warning=True)
            if start and start != known[1]:
                self._events.gang(gang, names.EVENT_START_AFTER_IGNORED, start, warning=True)

    def _forget(self, uid: str) -> None:
        self._told.pop(uid, None)
        clock = self._state.clocks.by_job.pop(uid, None)
        if clock is not None and clock.written:
            self._gone[uid] = None

    async def _write(self) -> None:
        """Write what changed; with the database away it waits for the next look."""
        changed = [clock for clock in self._state.clocks.by_job.values() if clock.unwritten]
        written_down = [(clock, clock.run) for clock in changed]
        gone = [uid for uid in self._gone if uid not in self._state.clocks.by_job]
        self._gone = {}
        try:
            if gone:
                await self._runs.forget(gone)
            await self._runs.put([run for _, run in written_down])
        except StoreError as error:
            self._gone |= dict.fromkeys(gone)
            log.warning("clocks of jobs wait for the database", error=str(error))
            return
        for clock, run in written_down:
            clock.written, clock.unwritten = True, clock.run is not run


def _minimum_since(gang: GangRecord, times: Iterable[tuple[int, str]]) -> int:
    """Since when the minimum of a group runs, roles included, by when each of its members began and their roles, in
    nanoseconds since the epoch; 0 where fewer say so.
    """
    known = sorted(entry for entry in times if entry[0])
    least = gang.minimum
    for count, (since, _) in enumerate(known, start=1):
        roles = Counter(role for _, role in known[:count])
        if count >= least.members and all(roles[role] >= needed for role, needed in least.roles):
            return since
    return 0
