"""Enforces time limits of jobs, and sees which jobs do not start in time (`late_starts.py`).

A job that reaches its limit is ended through its owner.
The clocks are stored in SQL, so that a restart neither shortens nor extends a limit; with the database away they go on
in memory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import limit_seconds, written
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.keep.clock_rests import ClockRests
from t9ksched.scheduler.keep.late_starts import LateStarts, Timeouts
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.clocks import (
    NEAR_SECONDS,
    SECOND,
    SLOW_START_NS,
    Clock,
)
from t9ksched.scheduler.state.earliest_end import End, earliest_end, ended_elsewhere, own_end
from t9ksched.scheduler.state.limits import control_of, limit_warning, never_limited, own_limit
from t9ksched.scheduler.state.objects import ran_since, timestamp
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of
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

_Deed = Callable[[], Awaitable[None]]
"""What is due. It is called, and so begins, only once all jobs were looked at: a sweep may be cancelled in between."""


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
        self._late = LateStarts(client, state, recorder, clock, timeouts)
        self._recovery = timeouts.recovery * SECOND
        self._gone: dict[str, None] = {}
        """Jobs of which rows are to be removed."""
        self._told: dict[str, tuple[str, str]] = {}
        """By job, the messages already sent about its time limit and its start time."""
        self._changed = state.feed.gangs.follow()
        self._rests = ClockRests(state, timeouts)

    async def sweep(self) -> None:
        """Check every job that changed or whose clock may be due, act on what is due, and store the clocks."""
        state = self._state
        if state.outage.unread:
            return  # the acceptances are in the database and not read yet
        for _ in state.changes.settling():
            await asyncio.sleep(0)
        for _ in self._rests.hearing():
            await asyncio.sleep(0)
        plain, gangs = self._rests.plain, state.gangs_by_uid
        jobs = self._rests.due(self._clock())
        looked: set[str] = set()
        due: list[_Deed] = []
        for changed in self._changed.pieces(_A_SLICE):
            now = self._clock()
            for gang in changed:
                if plain.needs_no_clock(gang, now):  # it asks for no limit, either
                    looked.add(gang.uid)
                    continue
                self._tell_of_annotation(gang)
                if (uid := job_of(gang)) not in looked:
                    looked.add(uid)
                    due += self._look(uid, now)
            await asyncio.sleep(0)
        for count, uid in enumerate(jobs, start=1):
            now = self._clock()
            if uid not in looked and not ((one := gangs.get(uid)) is not None and plain.needs_no_clock(one, now)):
                due += self._look(uid, now)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*(deed() for deed in due))
        await self._write()

    def _look(self, uid: str, now: int) -> list[_Deed]:
        """Bring one job's clock up to date; returns what is due."""
        state, clocks = self._state, self._state.clocks.by_job
        gangs = state.groups_of(uid)
        clock = clocks.get(uid)
        before = clock.run if clock is not None else None
        evicted = clock.evicted if clock is not None else frozenset()
        # Pods of an earlier group of this name are not ended by this job's limit, however long they run.
        holding = [pod for gang in gangs for pod in gang.members.values() if pod.holds and not gang.inherited(pod)]
        holds = [pod for pod in holding if pod.uid not in evicted] if evicted else holding
        if clock is None and not holds:  # as thousands that wait, and are told another position in each cycle
            state.clocks.without_place(uid)
            return []
        runs = any(gang.runs(evicted) for gang in gangs)
        limit = own_limit(state, gangs[0]) if gangs else None
        ended = limit is not None or ended_elsewhere(state, gangs)
        if clock is None:
            if runs and not ended and uid not in state.clocks.again:
                state.clocks.runs_untimed(uid)
                return []
            refills = not runs and self._ran_before(uid, gangs, holds)
            if refills and limit is None:
                state.clocks.runs_untimed(uid)
                return []
            control = control_of(state, gangs[0]) if gangs else state.controls.get(uid)
            given = control is not None and control.time_limit_seconds is not None
            # What this process did not place began before it was started, and no clock of it was written.
            found = limit is not None and not any(gang.first_bound for gang in gangs)
            clock = state.clocks.begin(Clock(Run(uid=uid), unsure=runs and (given or found), refills=refills))
        if evicted:
            clock.evicted = frozenset(pod.uid for gang in gangs for pod in gang.members.values()) & evicted
        if holds:
            self._runs_on(clock, gangs, now, runs=runs, limited=limit is not None)
        else:
            self._lost(clock, now)
        if clock.run is not before:
            state.clock_changed(uid)
        if self._is_over(clock, now, known=bool(gangs) or uid in state.jobs, timeless=runs and not ended):
            self._forget(uid)
            if runs:
                state.clocks.runs_untimed(uid)
            return []
        if runs and clock.unsure:
            return [partial(self._learn, clock, gangs)]
        clock.unsure = False
        if clock.run.ended_code == Code.TIME_LIMIT_EXCEEDED:
            job = state.jobs.get(uid)
            clock.look_at(job.asks.limit if job is not None else gangs[0].asks.limit if gangs else "", now)
        due, end = self._due(clock, gangs, holding, holds, limit, now)
        if not due and not clock.refills and gangs and not gangs[0].reservation:
            self._rests.note(clock, end, now)
        return due

    def _lost(self, clock: Clock, now: int) -> None:
        """The job has no place: a pause, or long enough without one, ends its run."""
        clock.lost_at = clock.lost_at or now
        job = self._state.jobs.get(clock.run.uid)
        paused = job is not None and job.phase == "Paused"
        if paused or now - clock.lost_at > self._recovery:
            clock.start_anew(())
            self._state.clocks.lost(clock.run.uid)

    def _ran_before(self, uid: str, gangs: list[GangRecord], holds: list[PodRecord]) -> bool:
        """Whether a job whose minimum does not run has lost members, and is not starting. Of what was placed before
        this process began its controller tells, or that members run which began before others were made.
        """
        if uid in self._state.clocks.ran:
            return True
        job = self._state.jobs.get(uid)
        if job is not None and job.kind != "Job" and job.started:
            return True
        first = min((pod.started for pod in holds if pod.phase == "Running" and pod.started), default=0)
        return bool(first) and any(pod.created > first for pod in holds if pod.phase != "Running")

    def _runs_on(self, clock: Clock, gangs: list[GangRecord], now: int, *, runs: bool, limited: bool) -> None:
        """The job has places: note when it was bound and since when it runs."""
        clock.lost_at = 0
        if clock.run.ended_code == Code.MAX_DURATION_EXCEEDED:
            clock.set(ended_at=0, ended_code="", message="")  # it was resumed
            clock.stop_at = 0
        if not clock.run.bound_at and any(gang.complete(bound=True) for gang in gangs):
            since = min([gang.first_bound for gang in gangs if gang.first_bound], default=0)
            clock.timed = bool(since)
            if not since:  # it was bound before this scheduler started: at the latest when its nodes took it in
                pods = [pod for gang in gangs for pod in gang.members.values() if pod.holds]
                since = min(now, max([pod.started for pod in pods if pod.started], default=now))
            clock.note(keep=limited, bound_at=since)
        clock.refills = clock.refills and not runs
        if runs and not clock.run.ran_at and not clock.unsure:
            clock.note(keep=limited or bool(clock.run.missed), ran_at=now, missed=0, missed_at=0, retry_at=0, why="")
            if limited or clock.run.uid in self._state.clocks.again:
                self._begun(clock, gangs[0])
        elif not runs and not clock.run.ran_at and not clock.written:
            clock.unwritten = clock.unwritten or now - clock.run.bound_at > SLOW_START_NS

    def _begun(self, clock: Clock, gang: GangRecord) -> None:
        """Since when a job runs is known, by the clock that its limit counts on: its present run began then."""
        self._state.clocks.run_began(clock.run.uid)
        self._state.gate.note_run(gang, clock.run.ran_at)

    def _is_over(self, clock: Clock, now: int, *, known: bool, timeless: bool) -> bool:
        """Whether no part of a job's clock must be kept."""
        run = clock.run
        kept = max(run.missed_at, run.ended_at, run.limit_at)
        if not kept:
            return timeless or (not run.bound_at and run == Run(uid=run.uid))
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
            began.append(gang.minimum.since(times))
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
    ) -> tuple[list[_Deed], End | None]:
        """What is due, and the end of the job where that is known."""
        run = clock.run
        if run.ended_code == Code.TIME_LIMIT_EXCEEDED or (run.ended_code and clock.stop_at):
            if holding and now >= clock.stop_at:
                clock.stop_at = now + _STOP_AGAIN_NS
                return [partial(self._stop, gangs[0], holding, run.message, Code(run.ended_code))], None
            return [], None
        if not holds or not run.bound_at:
            return [], None
        timeout = self._start_timeout() * SECOND
        late = bool(timeout) and not run.ran_at and now - run.bound_at >= timeout
        if late and not clock.refills:
            return [partial(self._late.evict, clock, gangs, holds, now)], None
        since = run.ran_at or (run.bound_at + timeout if late else 0)
        own = own_end(since, limit) if limit is not None and since else None
        end = earliest_end(self._state, gangs[0], holds, own)
        if end is None:
            return [], None
        if clock.signal is None and now < end.at:
            return [partial(self._ask_for_signal, clock, gangs[0], holds[0])], end
        if own is not None and now >= own.at:
            message = f"it reached its {own.limit}: it has been running since {timestamp(since)}"
            return [self._end(clock, gangs[0], holds, own, message, now)], own
        early = self._signal(clock, gangs[0], end)
        if early and end.at - early * SECOND <= now < end.at:
            message = (
                f"it reaches its {end.limit} at {timestamp(end.at)}: it is told to stop"
                f" {written(early)} before, as {names.SIGNAL_BEFORE_ANNOTATION} asks"
            )
            return [self._end(clock, gangs[0], holds, end, message, now)], end
        if own is not None and own.seconds > NEAR_SECONDS and not run.near and now >= own.at - NEAR_SECONDS * SECOND:
            clock.set(near=True)
            text = f"it reaches its {own.limit} at {timestamp(own.at)} and is ended then"
            self._recorder.ends_soon(gangs[0], text, now)
        return [], end

    def _end(self, clock: Clock, gang: GangRecord, pods: list[PodRecord], end: End, message: str, now: int) -> _Deed:
        """End a job at its limit, or before it as the job asks."""
        own = end.code is Code.TIME_LIMIT_EXCEEDED
        self._state.note_end(gang, end.code, message, now, end.seconds if own else None, end.at)
        clock.stop_at = now + _STOP_AGAIN_NS
        event = history.TIME_LIMIT_EXCEEDED if own else history.MAX_DURATION_EXCEEDED
        self._recorder.ended(gang, event, message, now, notice=str(end.code))
        log.info("time limit reached", job=gang.key, limit=end.limit)
        return partial(self._stop, gang, pods, message, end.code)

    def _signal(self, clock: Clock, gang: GangRecord, end: End) -> int:
        """How many seconds before that end the job is told to stop; 0 for not at all. What is not shorter than the
        limit is told once.
        """
        asked = clock.signal or 0
        if asked < end.seconds:
            return asked
        if clock.vain != end.seconds:
            clock.vain = end.seconds
            fault = (
                f"the annotation {names.SIGNAL_BEFORE_ANNOTATION} is ignored: {written(asked)} is not shorter than the"
                f" {end.limit}"
            )
            self._events.gang(gang, names.EVENT_TIME_LIMIT_IGNORED, fault, warning=True)
        return 0

    async def _ask_for_signal(self, clock: Clock, gang: GangRecord, pod: PodRecord) -> None:
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
        clock.signal = seconds

    async def _stop(self, gang: GangRecord, pods: list[PodRecord], message: str, code: Code) -> None:
        """End a job through its owners, each stopped once; pods without one are deleted. Failures are tried again."""
        told: set[str] = set()
        for pod in pods:
            try:
                resource, target = await self._stopper.highest(pod)
                if target["metadata"]["uid"] not in told:
                    told.add(target["metadata"]["uid"])
                    await self._stopper.stop(resource, target, str(code), message)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                log.warning("job over its time limit not ended, trying again", job=gang.key, error=str(error))

    def _tell_of_annotation(self, gang: GangRecord) -> None:
        """Say once that a limit or a start time cannot be read, or that a limit was edited after it was agreed on."""
        if never_limited(gang):
            return
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
        self._rests.forget((uid,))
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
