"""Writes the latest state of each job to SQL, as users see it.

A job is written when its phase changes; while only its counts change, less often. What was written last is remembered
as a digest, so that nothing is written twice, and so that the end of a job can be told after its objects are gone.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from sys import intern
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.model import names
from t9ksched.model.job import JobView
from t9ksched.scheduler.report.departed import TIME, Departed, on_record
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.job_phase import lived_by_pods, on_its_way, phase_now
from t9ksched.scheduler.report.job_shape import Json, job_view
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.report.single_pod import to_start, view_of
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.state.edits import ignored
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.store.jobs import PENDING, TERMINATING, Gone, JobRow, Written

FIRST_PERIOD: Final = 2.0
"""Seconds that a job may wait before it is written when it is new, or being bound: most have their places by then."""
COUNTS_PERIOD: Final = 4.0
"""Seconds between two writes of one job when only its counts changed: they come by the second while it starts."""
COUNTS_A_SECOND: Final = 250
"""Jobs written a second whose counts, places in the queue or reasons changed alone: of thousands that wait each has
another place in each cycle. Lists of a service whose leader is there do not come from SQL."""
BURST_PERIOD: Final = 10.0
"""Seconds that a job may wait before it is written while its pods are being bound: thousands may be before them."""
SLICE: Final = 50
"""Jobs examined before other tasks run."""
_MOST_WAITING: Final = 2000
_A_WHILE: Final = timedelta(seconds=5)
_BEGAN: Final = ("Running", *FINISHED)
_encode: Final = msgspec.json.Encoder().encode


class _Written(msgspec.Struct, frozen=True, gc=False):
    """What was last written of a job: enough to see that it changed and to record its end. Copies of everything, as
    dicts, would be the largest thing in memory.
    """

    digest: int
    """Of its whole JSON."""
    kind: str
    namespace: str
    name: str
    queue: str | None
    phase: str
    finished: str | None
    lived: str
    """Its phase, of one that is being deleted that before."""


class JobRecorder:
    """Writes to SQL what changed of jobs. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self, state: ClusterState, sql_writer: SqlWriter, events: EventWriter, clock: Callable[[], int]
    ) -> None:
        self._state = state
        self._sql_writer = sql_writer
        self._events = events
        self._clock = clock
        self._began = moment(clock())
        self._changed = state.feed.jobs.follow()
        self._edits: dict[str, frozenset[str]] = {}
        """Messages already sent about edits that do not count, by UID of the group."""
        self._written: dict[str, _Written] = {}
        self._departed = Departed(state, self._written)
        self._wrote: dict[str, float] = {}
        """When jobs were written that were a short while ago, the first of them first."""
        self._later: dict[str, float] = {}
        """When jobs that are new, or were written a short while ago, are examined again."""
        self._next: dict[float, list[str]] = {}
        """The same by tenths of seconds; those that `_later` has not at that time count no more."""
        self._at_latest: dict[str, float] = {}
        """When jobs that are put off again because they are being bound are written all the same."""

    def restore(self, stored: Iterable[Written]) -> None:
        """Load what was written before a restart, so that it is not written twice and ends since then are recorded."""
        for job in stored:
            if job.uid in self._written:
                continue  # read late: what was written since is newer
            finished = job.finished_at.strftime(TIME) if job.finished_at else None
            name = (intern(job.kind), intern(job.namespace), job.name)
            lived = job.phase if job.phase != TERMINATING else _lived(job.shape)
            self._written[job.uid] = _Written(hash(job.shape.encode()), *name, job.queue, job.phase, finished, lived)
            self._state.feed.jobs.note(job.uid)

    def follows(self, since: datetime) -> None:
        """A former scheduler wrote history until about then: of what began later it may have told nothing."""
        self._began = min(self._began, since)

    def due(self) -> float | None:
        """The time of the event loop at which the first job that was put off is due; None if there is none."""
        return min(self._next) if self._next else None

    def _take_due(self, now: float) -> dict[str, None]:
        """The jobs that were put off until now."""
        found: dict[str, None] = {}
        for at in sorted(at for at in self._next if at <= now):
            found |= {uid: None for uid in self._next.pop(at) if self._later.get(uid) == at}
        return found

    async def write(self) -> None:
        """Write the jobs that changed, and postponed ones that are due."""
        now = asyncio.get_running_loop().time()
        self._forget_writes(now - self._period())
        for _ in self._departed.note():
            await asyncio.sleep(0)
        later, first = self._take_due(now), now + FIRST_PERIOD
        for changed in self._changed.pieces(SLICE):
            at = moment(self._clock())
            for uid in changed:
                single = to_start(self._state, uid)
                if single is not None and uid not in self._written and uid not in later:
                    if uid not in self._later:
                        self._look_again(uid, first)
                    continue  # most of a burst: what changes until then is told with it
                due = uid in later and not self._put_off_again(uid, single, now)
                later.pop(uid, None)
                if due or not self._put_off(uid, single, now):
                    self._tell(uid, single, now, at)
            await self._rest()
        at = moment(self._clock())
        for count, uid in enumerate(later, start=1):
            single = to_start(self._state, uid)
            if not self._put_off_again(uid, single, now):
                self._tell(uid, single, now, at)
            if count % SLICE == 0:
                await self._rest()
                at = moment(self._clock())
        if len(self._edits) > 1000:
            self._edits = {uid: texts for uid, texts in self._edits.items() if uid in self._state.gangs_by_uid}

    async def _rest(self) -> None:
        """Let other tasks run, and the database take rows: a UID waits here at less cost than a row does there."""
        await asyncio.sleep(0)
        if self._sql_writer.jobs_waiting >= _MOST_WAITING:
            await self._sql_writer.flushed()

    def tell(self, uid: str, *, due: bool = False) -> None:
        """Write the job of that UID as it is now, if it changed; with `due`, even if it was written a moment ago."""
        single, now = to_start(self._state, uid), asyncio.get_running_loop().time()
        if due or not self._put_off(uid, single, now):
            self._tell(uid, single, now, moment(self._clock()))

    def started(self, uid: str) -> bool:
        """Tell that the job of that UID started, if it did and nobody told: one of its pods gave its cards back. False
        if the job is gone by now, and that was never told.
        """
        before = self._written.get(uid)
        if before is not None and before.lived in _BEGAN:
            return True
        phase = phase_now(self._state, uid)
        if phase == "Running":
            self.tell(uid)
        elif phase in FINISHED and (found := self._seen(uid, None)) is not None:
            job = found[0]
            written = _Written(0, job.kind, job.namespace, job.name, job.queue, "Running", None, "Running")
            self._started_unseen(uid, written, job.started_at, new=before is None)
            self._written[uid] = written  # its end follows
        return phase is not None

    def _tell(self, uid: str, single: PodRecord | None, now: float, at: datetime) -> None:
        """The same, without delay; `single` is its pod where it is a single one that is to start. The time is `now` on
        the event loop's clock, and `at` for people.
        """
        before = self._written.get(uid)
        self._at_latest.pop(uid, None)
        self._later.pop(uid, None)
        found = self._seen(uid, single)
        gone = found is None
        if found is None and before is None and uid not in self._state.pods and self._sql_writer.tells_of(uid):
            found = self._departed.job(uid)
        if found is None:
            self._end(uid, before, at)
            return
        job, gangs, created = found
        self._tell_edits(gangs)
        current, earlier = job.phase, before.phase if before else "Pending"
        if not job.finished_at and ((before and before.finished) or current in FINISHED):
            finished = (before and before.finished) or at.strftime(TIME)
            job = structs.replace(job, finished_at=finished)
        digest, text = _digest(job)
        if before is not None and digest == before.digest:
            return
        lived = current if current != TERMINATING else before.lived if before else lived_by_pods(gangs)
        written = _Written(digest, job.kind, job.namespace, job.name, job.queue, current, job.finished_at, lived)
        if current in FINISHED and earlier not in _BEGAN:
            self._started_unseen(uid, written, job.started_at, new=before is None)
        if current != earlier and current in _BEGAN:
            event = history.STARTED if current == "Running" else history.FINISHED
            when = min(at, _ended(job, at)) if event == history.FINISHED else at
            why = structs.asdict(job.reason) if current == "Failed" and job.reason is not None else None
            self._job_event(event, uid, written, when, why)
        self._written[uid] = written
        self._wrote.pop(uid, None)
        self._wrote[uid] = now
        self._sql_writer.job(_row(job, created, at, text))
        if gone:
            self._end(uid, written, at)

    def _end(self, uid: str, before: _Written | None, at: datetime) -> None:
        """The job of that UID is not there any more. REST may have recorded one that came and went before anything of
        it was told.
        """
        self._written.pop(uid, None)
        self._wrote.pop(uid, None)
        joined = uid in self._state.pods  # the pod joined the group that it names
        if before is not None and not joined:
            self._gone(uid, before, at)
        self._departed.forget(uid)
        phase = before.lived if before is not None else PENDING
        self._sql_writer.gone(uid, Gone(at, phase, told=joined or before is not None))

    def went_unseen(self, told: Event, agreed: Acceptance | None) -> None:
        """History tells of a job, this event first, and what became of it nobody wrote: if it is not there, tell that,
        and write what is known of it.
        """
        uid = str(told.uid)
        if uid in self._written or uid in self._state.pods or observed_job(self._state, uid) is not None:
            return
        job, at = on_record(told, agreed), moment(self._clock())
        digest, text = _digest(job)
        self._sql_writer.job(_row(job, int(told.at.timestamp() * 1e9), at, text))
        self._end(uid, _Written(digest, job.kind, job.namespace, job.name, job.queue, PENDING, None, PENDING), at)

    def _seen(self, uid: str, single: PodRecord | None) -> tuple[JobView, Sequence[GangRecord], int] | None:
        """The job of that UID as it is now, with its groups, and when it was created; None if it is gone."""
        if single is not None and (gang := single.gang) is not None:
            return view_of(gang, single, self._state), (gang,), gang.created
        view = observed_job(self._state, uid)
        return None if view is None else (job_view(view, self._state), view.gangs, view.created)

    def _started_unseen(self, uid: str, job: _Written, started: str | None, *, new: bool) -> None:
        """A job that is over was never seen to run: it was quick, or ran while no scheduler did. That it started is
        written all the same, unless it is new here and began before this process, and the one that it follows, wrote
        history.
        """
        if started is None:
            return
        at = datetime.fromisoformat(started)
        if not new or at >= self._began:
            self._job_event(history.STARTED, uid, structs.replace(job, phase="Running"), at)

    def _gone(self, uid: str, before: _Written, at: datetime) -> None:
        """A job is gone. Pods that were placed in it and are still there hold their cards until each has ended."""
        group = self._state.gangs.get((before.namespace, before.name))
        left = [pod for pod in group.members.values() if pod.placed_in == uid and pod.node] if group else []
        left = [pod for pod in left if not pod.finished]
        before = structs.replace(before, phase=before.lived)
        if before.phase != "Running" and any(pod.phase == "Running" for pod in left):
            self._job_event(history.STARTED, uid, before, at)
        self._job_event(history.DELETED, uid, before, at, {"podsLeft": len(left)} if left else None)

    def _tell_edits(self, gangs: Iterable[GangRecord]) -> None:
        """Write an event, once, about an edit that does not count."""
        for gang in gangs:
            found = ignored(gang)
            if not found and gang.uid not in self._edits:
                continue
            if fresh := [text for text in found if text not in self._edits.get(gang.uid, ())]:
                self._events.gang(gang, names.EVENT_EDIT_IGNORED, "; ".join(fresh), warning=True)
            self._edits[gang.uid] = frozenset(found)

    def _put_off(self, uid: str, single: PodRecord | None, now: float) -> bool:
        """Whether what changed of the job may be written later, together with what comes until then."""
        before = self._written.get(uid)
        phase = "Pending" if single is not None else phase_now(self._state, uid)
        if phase != (before.phase if before else "Pending"):
            return False
        if uid in self._later:
            return True
        wrote = self._wrote.get(uid)
        # A job that is being bound is written once that has ended: until then it has no reason to wait, and no place.
        if wrote is None and before is not None and not self._on_its_way(uid, single):
            return False
        self._look_again(uid, now + FIRST_PERIOD if wrote is None else wrote + self._period())
        return True

    def _period(self) -> float:
        """Seconds between two writes of one job when only its counts changed, with as many as wait for theirs now."""
        return max(COUNTS_PERIOD, len(self._later) / COUNTS_A_SECOND)

    def _on_its_way(self, uid: str, single: PodRecord | None) -> bool:
        """Whether pods of the job are being bound."""
        return bool(single.assumed) if single is not None else on_its_way(self._state, uid)

    def _put_off_again(self, uid: str, single: PodRecord | None, now: float) -> bool:
        """Whether a job that is due is still being bound: it is written with its places, once, when it has them."""
        if not self._on_its_way(uid, single):
            return False
        if now >= self._at_latest.setdefault(uid, now + BURST_PERIOD - FIRST_PERIOD):
            return False
        self._look_again(uid, now + FIRST_PERIOD)
        return True

    def _look_again(self, uid: str, at: float) -> None:
        at = ceil(at * 10) / 10
        self._later[uid] = at
        self._next.setdefault(at, []).append(uid)

    def _forget_writes(self, before: float) -> None:
        """What was written until then may be written again."""
        over: list[str] = []
        for uid, at in self._wrote.items():
            if at > before:
                break
            over.append(uid)
        for uid in over:
            del self._wrote[uid]

    def _job_event(self, event: str, uid: str, job: _Written, at: datetime, why: Json | None = None) -> None:
        self._sql_writer.event(
            Event(
                event=event,
                at=at,
                kind=job.kind,
                namespace=job.namespace,
                name=job.name,
                uid=uid,
                queue=job.queue,
                actor="scheduler",
                detail={"phase": job.phase, **(why or {})},
            )
        )


def _ended(job: JobView, now: datetime) -> datetime:
    """When a job ended, which may have been before this process began; now if that was a moment ago, as whole seconds
    are told.
    """
    ended = _parsed(job.finished_at) or now
    return ended if now - ended > _A_WHILE else now


def _lived(shape: str) -> str:
    """The phase before it was deleted of a job that is being deleted."""
    job = msgspec.json.decode(shape)
    phase = str(job.get("phase", PENDING))
    return phase if phase != TERMINATING else "Running" if job.get("startedAt") else PENDING


def _parsed(time: str | None) -> datetime | None:
    return datetime.fromisoformat(time) if time else None


def moment(ns: int) -> datetime:
    """The time to the millisecond: rows of the same millisecond share one converted value for SQL."""
    return _millisecond(ns // 1_000_000)


@lru_cache(maxsize=64)
def _millisecond(number: int) -> datetime:
    return datetime.fromtimestamp(number / 1e3, UTC)


def _digest(job: JobView) -> tuple[int, bytes]:
    """What a write depends on, and the JSON: all but how early the job may start, which is the present for most that
    wait.
    """
    text = _encode(job)
    if (expected := job.expected_start) is None:
        return hash(text), text
    rest = _encode(structs.replace(job, expected_start=None))
    return hash((rest, expected.latest, expected.basis)), text


def _row(job: JobView, created: int, at: datetime, text: bytes) -> JobRow:
    return JobRow(
        uid=job.uid,
        kind=job.kind,
        namespace=job.namespace,
        name=job.name,
        queue=job.queue,
        phase=job.phase,
        submitter=job.submitter,
        submitted_at=moment(created),
        updated_at=at,
        finished_at=_parsed(job.finished_at),
        shape=msgspec.Raw(text),
    )
