"""What one job waits for, what is known of that, and the sentence that says so."""

from dataclasses import dataclass
from typing import Final

from t9ksched.model.names import AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.job_phase import phase_now, why_ended
from t9ksched.scheduler.state.dependencies import Verdict
from t9ksched.scheduler.state.records import FINISHED, job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.workloads.dependencies import ANY, Dependency, read_after

_SUCCEEDED: Final = FINISHED[0]
_SHOWN: Final = 3


@dataclass(slots=True)
class Want:
    """A job that another waits for, and what is known of it.

    Attributes:
        target_uid: of the job that is meant; empty while there is none.
        seen: the phase in which it was seen last.
        stopped: which limit ended it, if one did and it may be resumed.
        gone: its object is gone.
        met_at: since when it need not be waited for; 0 while it must.
        ask_at: when the database is asked again for one that has gone, after so many `questions`.
        asking: it has not answered.
    """

    dependency: Dependency
    target_uid: str = ""
    seen: str = ""
    stopped: str = ""
    gone: bool = False
    met_at: int = 0
    ask_at: int = 0
    questions: int = 0
    asking: bool = False

    @property
    def met(self) -> bool:
        """Whether it ended as is wanted."""
        if not self.target_uid:
            return False
        if self.seen == _SUCCEEDED:
            return True
        return self.dependency.condition == ANY and (self.seen in FINISHED or self.gone or bool(self.stopped))

    @property
    def never(self) -> str:
        """Why it can never be as is wanted; empty while it can."""
        one = self.dependency
        if not self.target_uid or self.met:
            return ""
        if self.seen in FINISHED:
            return f"{one.title} failed"
        if self.gone:
            return f"{one.title} was deleted before it succeeded"
        return f"{one.title} was ended: {self.stopped}" if self.stopped else ""

    @property
    def waits(self) -> str:
        """What is waited for."""
        one = self.dependency
        what = f"{one.title} to end" if one.condition == ANY else f"{one.title} to succeed"
        if not self.target_uid:
            return f"{what}, of which there is none yet"
        return f"{what}, which is {self.seen or 'Pending'}"


@dataclass(slots=True)
class Waiter:
    """A job that waits. `circle` has the way back to itself, by titles, where it waits for itself in the end; `created`
    is in nanoseconds since the epoch.
    """

    uid: str
    namespace: str
    created: int
    text: str
    wants: tuple[Want, ...]
    circle: tuple[str, ...] = ()
    checked: bool = False
    """Such a way was looked for since the last of what it waits for was found."""

    @property
    def open(self) -> list[Want]:
        """What is still waited for."""
        return [want for want in self.wants if not want.met_at]


def named(state: ClusterState, namespace: str, one: Dependency) -> tuple[str, int] | None:
    """UID of the job of that name, and when it was created; None if there is none."""
    if one.kind == "Pod":
        pod = state.pods.get(state._pods_by_name.get((namespace, one.name), ""))
        return None if pod is None else (pod.uid, pod.created)
    if one.kind == "PodGroup":
        gang = state.gangs.get((namespace, one.name))
        return None if gang is None or not gang.uid else (job_of(gang), gang.created)
    job = state.jobs.get(state.job_names.get((namespace, one.kind, one.name), ""))
    return None if job is None else (job.uid, job.created)


def looked_at(state: ClusterState, want: Want) -> bool:
    """Note how the job is now that is waited for; False if it is gone."""
    pod = state.pods.get(want.target_uid) if want.dependency.kind == "Pod" else None
    phase = pod.phase if pod is not None else phase_now(state, want.target_uid)
    if phase is None:
        return False
    stopped = why_ended(state, want.target_uid)
    want.seen, want.stopped = phase, "" if stopped is None or phase in FINISHED else stopped.message
    return True


def foreseen(state: ClusterState, namespace: str, text: str, now: int) -> Verdict:
    """What would hold for a job that were submitted now with this annotation; `now` is in nanoseconds since the epoch.

    Raises:
        ValueError: the text names no jobs.
    """
    waiter = Waiter("", namespace, now, text, tuple(map(Want, read_after(text))))
    for want in waiter.wants:
        if (found := named(state, namespace, want.dependency)) is not None:
            want.target_uid = found[0]
            looked_at(state, want)
        want.met_at = now if want.met else 0
    return verdict(waiter)


def verdict(waiter: Waiter) -> Verdict:
    """What holds for a job that waits."""
    left = waiter.open
    if not left:
        return Verdict(waiter.text, met_at=max((want.met_at for want in waiter.wants), default=0))
    edit = f"its annotation {AFTER_ANNOTATION} is changed"
    never = [why for want in left if (why := want.never)]
    if waiter.circle:
        way = " waits for ".join(waiter.circle)
        reason = Reason(Code.DEPENDENCY_NOT_MET, f"it can never start: it waits for itself ({way})", unblocks=(edit,))
        return Verdict(waiter.text, reason, never=True)
    if never:
        message = f"it can never start: it waits for others to succeed, and {_listed(never, '; ')}"
        cancel = "it is cancelled: t9ksched cancel KIND/NAME"
        return Verdict(waiter.text, Reason(Code.DEPENDENCY_NOT_MET, message, unblocks=(edit, cancel)), never=True)
    message = f"it waits for {_listed([want.waits for want in left], '; for ')}"
    helps = tuple(_helps(want) for want in left[:_SHOWN])
    of = len(waiter.wants)
    needs, has = ({"jobs": of}, {"jobs": of - len(left)}) if of > 1 else ({}, {})
    return Verdict(waiter.text, Reason(Code.DEPENDENCY_NOT_MET, message, needs=needs, has=has, unblocks=helps))


def _helps(want: Want) -> str:
    one = want.dependency
    if not want.target_uid:
        return f"{one.title} is submitted"
    return f"{one.title} ends" if one.condition == ANY else f"{one.title} succeeds"


def _listed(texts: list[str], between: str) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return between.join(texts[:_SHOWN]) + more
