"""The clock of each job that has a time limit, or that was bound and does not run yet.

A clock counts from the moment the job's whole minimum ran. It outlives members that are replaced; an eviction or pause
of the whole job starts it anew. `Clocks` decides by the time that is passed in; `TimeKeeper` acts on it and writes
it down. A job is known by the UID of its owner, else of its group.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from t9ksched.model.names import TIME_LIMIT_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.timelimit import limit_seconds, shortest, written
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.store.job_overrides import JobControl
from t9ksched.store.runs import Run

SECOND: Final = 1_000_000_000
NEAR_SECONDS: Final = 600
"""How long before its end a job gets an event; jobs with shorter limits get none."""
FIRST_PAUSE_SECONDS: Final = 60
"""The pause after a group did not start in time; twice as long after the second time."""
MOST_MISSED: Final = 3
"""After so many missed starts in a row a job waits until it is released."""
SLOW_START_NS: Final = 60 * SECOND
"""The clock of a job without a limit is stored once its start takes longer, so that a restart keeps its beginning."""


class Clock(msgspec.Struct, eq=False):
    """The clock of one job.

    Attributes:
        run: the part that is kept across a restart.
        timed: whether this process, or one before, saw when it was bound.
        refills: whether its minimum ran before this process began to keep it: it does not start, it lacks lost members.
        lost_at: since when it has no place; 0 while it has one.
        evicted: UIDs of pods that were evicted or paused, and still look as if they ran.
        stop_at: when it is asked to stop again.
        due: when the limit was reached that ended its last run, which is told a moment later; 0 where this process did
            not see it.
        text: the annotation on the object of a job that its limit ended, as last seen; None before the first look.
        asked_at: when that annotation was last seen to change; 0 for never.
        signal: how many seconds before its limit its owner is stopped; None until its annotation was read.
        vain: the limit, in seconds, for which it was told that this is not shorter.
        unsure: whether it may have begun to run while no scheduler was watching.
        unwritten: whether `run` changed since it was written.
        written: whether there is a row of it.
    """

    run: Run
    timed: bool = False
    refills: bool = False
    lost_at: int = 0
    evicted: frozenset[str] = frozenset()
    stop_at: int = 0
    due: int = 0
    text: str | None = None
    asked_at: int = 0
    signal: int | None = None
    vain: int = 0
    unsure: bool = False
    unwritten: bool = False
    written: bool = False

    def set(self, **change: object) -> None:
        """Change the part that is kept across a restart."""
        self.run = msgspec.structs.replace(self.run, **change)
        self.unwritten = True

    def note(self, *, keep: bool, **change: object) -> None:
        """As `set`; stored only if `keep`, or if it was stored before."""
        before = self.unwritten
        self.set(**change)
        self.unwritten = before or keep or self.written

    def look_at(self, text: str, now: int) -> None:
        """What the annotation on the object of a job asks for that its limit ended."""
        if self.text is not None and text != self.text:
            self.asked_at = now
        self.text = text

    def start_anew(self, pods: Iterable[str]) -> None:
        """The whole job lost its place for good: these pods are leaving, and its next run has a clock of its own."""
        self.evicted |= frozenset(pods)
        self.timed = self.unsure = False
        self.signal = None
        if self.run.bound_at or self.run.ran_at or self.run.reserved_until:
            self.note(keep=False, bound_at=0, ran_at=0, near=False, reserved_until=0)


@dataclass(frozen=True, slots=True)
class Asked:
    """The limit that annotations ask for, in seconds, None for none; and what cannot be read of them, as a sentence."""

    seconds: int | None = None
    fault: str = ""
    texts: tuple[str, ...] = ()


NO_LIMIT_ASKED: Final = Asked()


class EndedBy(NamedTuple):
    """The limit that ended a job, in seconds, and whether it was the rest of a reservation."""

    seconds: int
    rest: bool


def asked(texts: Iterable[str]) -> Asked:
    """The shortest of the limits written in annotations; those that cannot be read are left out and named."""
    given = tuple(dict.fromkeys([text for text in texts if text]))
    if not given:
        return NO_LIMIT_ASKED
    found: list[int | None] = []
    fault = ""
    for text in given:
        try:
            found.append(limit_seconds(text))
        except ValueError as error:
            fault = f"the annotation {TIME_LIMIT_ANNOTATION} is ignored: {error}"
    return Asked(shortest(found), fault, given)


class Clocks:
    """Clocks by job; `on_new` is told of the UID of each job that has one from then on."""

    def __init__(self, on_new: Callable[[str], None] = lambda _: None) -> None:
        self.by_job: dict[str, Clock] = {}
        self._on_new = on_new
        self.again: set[str] = set()
        """Jobs that lost their whole place, by an eviction or a pause: when they run, that is another run."""
        self.ran: set[str] = set()
        """Jobs without a clock whose minimum ran in their present run: what they lack now are lost members."""

    def begin(self, clock: Clock) -> Clock:
        """The job has this clock, unless it has one already; returns the one it has."""
        job = clock.run.uid
        if job not in self.by_job:
            self.by_job[job] = clock
            self._on_new(job)
        return self.by_job[job]

    def of(self, gang: GangRecord) -> Clock | None:
        """The clock of a group's job."""
        return self.by_job.get(job_of(gang)) if self.by_job else None

    def reserve(self, job: str, until: int) -> None:
        """The job starts, and may run until the reservation ends that it names, in nanoseconds since the epoch; 0 for a
        job that has a limit of its own, or names none.
        """
        clock = self.by_job.get(job)
        if clock is None and until:
            clock = self.begin(Clock(Run(uid=job)))
        if clock is not None and clock.run.reserved_until != until:
            clock.note(keep=True, reserved_until=until)

    def restore(self, runs: Iterable[Run]) -> None:
        """Load the clocks that were stored before a restart."""
        for run in runs:
            starting = bool(run.bound_at) and not run.ran_at
            self.begin(Clock(run, timed=bool(run.bound_at), unsure=starting, written=True))

    def start_anew(self, gang: GangRecord) -> None:
        """The whole group was evicted or paused."""
        if not gang.virtual or gang.owner is not None:  # a single pod does not come back
            self.lost(job_of(gang))
        clock = self.of(gang)
        if clock is not None:
            clock.start_anew(pod.uid for pod in gang.members.values() if pod.node and not gang.inherited(pod))

    def lost(self, job: str) -> None:
        """The job lost its whole place: it starts again, and that is another run."""
        self.again.add(job)
        self.ran.discard(job)

    def run_began(self, job: str) -> None:
        """The minimum of a job that has a clock runs."""
        self.again.discard(job)

    def runs_untimed(self, job: str) -> None:
        """The minimum of a job that needs no clock runs."""
        self.ran.add(job)

    def without_place(self, job: str) -> None:
        """A job that needs no clock has no place now: when it has one, it starts."""
        self.ran.discard(job)

    def forget(self, job: str) -> None:
        """The job is gone."""
        self.again.discard(job)
        self.ran.discard(job)

    def refusal(self, gang: GangRecord, want: Asked, control: JobControl | None, now: int) -> Reason | None:
        """Why the group may not be placed now; None when it may."""
        clock = self.of(gang)
        if clock is None:
            return None
        run = clock.run
        if run.ended_code == Code.TIME_LIMIT_EXCEEDED:
            if not self._renewed(clock, want, control, now):
                limit, longer = written(run.ended_limit), written(2 * (run.ended_limit or 0))
                return Reason(
                    Code.TIME_LIMIT_EXCEEDED,
                    f"{run.message}; it resumes only with another limit",
                    unblocks=(
                        f"it is given a time limit other than {limit}, such as: t9ksched update KIND/NAME --time-limit"
                        f" {longer}",
                    ),
                )
            clock.set(ended_at=0, ended_code="", ended_limit=None, ended_asked=None, message="")
        if run.missed >= MOST_MISSED:
            if control is None or control.released_at is None or _ns(control) <= run.missed_at:
                message = f"it did not start in time {run.missed} times in a row ({run.why})"
                return Reason(Code.START_TIMED_OUT, message, unblocks=("it is released: t9ksched release KIND/NAME",))
            clock.set(missed=0, missed_at=0, retry_at=0, why="")
        elif run.retry_at > now:
            message = f"it did not start in time ({run.why}): it is tried again at {timestamp(run.retry_at)}"
            return Reason(Code.START_TIMED_OUT, message, unblocks=("its pods can start: see the reason",))
        return None

    def limit(self, job: str, control: JobControl | None, agreed: Iterable[int | None]) -> int | None:
        """The job's own limit in force, in seconds: the one set last, else the shortest accepted one."""
        clock = self.by_job.get(job)
        decided = clock.run.limit if clock is not None else None
        if control is not None and self.updated(job, control):
            decided = control.time_limit_seconds
        return shortest(agreed) if decided is None else decided or None

    def updated(self, job: str, control: JobControl | None) -> bool:
        """Whether the job's own limit in force is one that it was given by an update."""
        clock = self.by_job.get(job)
        if control is None or control.time_limit_seconds is None:
            return False
        return clock is None or clock.run.limit is None or clock.run.limit_at <= _limited_at(control)

    def ended_by(self, job: str, control: JobControl | None) -> EndedBy | None:
        """The limit that ended the job's last run and counts until it is given another one; None for a job that none
        ended. A job that asked for none, and was given none, had the rest of its reservation.
        """
        clock = self.by_job.get(job)
        run = clock.run if clock is not None else None
        if run is None or run.ended_code != Code.TIME_LIMIT_EXCEEDED or run.ended_limit is None:
            return None
        return None if _given_since(run, control) else EndedBy(run.ended_limit, not run.ended_asked)

    def _renewed(self, clock: Clock, want: Asked, control: JobControl | None, now: int) -> bool:
        """Whether a job that reached its limit was given another one since, by its annotations or by an update: of both
        the later one counts.
        """
        _take_over(clock, want, now)
        return _given_since(clock.run, control) and self.limit(clock.run.uid, control, ()) != clock.run.ended_limit

    def end(self, gang: GangRecord, limit: int | None) -> int | None:
        """When the job of a group reaches this limit, in nanoseconds since the epoch; None when it does not, or before
        its minimum ran.
        """
        clock = self.of(gang)
        if clock is None or limit is None or not clock.run.ran_at:
            return None
        return clock.run.ran_at + limit * SECOND


def _take_over(clock: Clock, want: Asked, now: int) -> None:
    """What annotations ask for since the job was ended by its limit is its limit from the moment of that edit on."""
    run = clock.run
    taken = run.limit is not None and run.limit_at > run.ended_at
    before = run.limit if taken else run.ended_asked if run.ended_asked is not None else run.ended_limit or 0
    if want.texts and not want.fault and (want.seconds or 0) != before:
        clock.set(limit=want.seconds or 0, limit_at=max(clock.asked_at or now, run.ended_at + 1))


def _given_since(run: Run, control: JobControl | None) -> bool:
    """Whether the job was given a limit since one ended it, by its annotations or by an update."""
    if run.limit is not None and run.limit_at > run.ended_at:
        return True
    return control is not None and control.time_limit_seconds is not None and _limited_at(control) > run.ended_at


def _limited_at(control: JobControl) -> int:
    """When an update gave it its limit; one by an earlier release is from when anything of it was decided last."""
    return int((control.limited_at or control.at).timestamp() * 1e9)


def _ns(control: JobControl) -> int:
    assert control.released_at is not None
    return int(control.released_at.timestamp() * 1e9)
