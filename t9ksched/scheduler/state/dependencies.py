"""Jobs that wait for other jobs: what each asks for, and whether it may be placed.

What became of the jobs that are waited for is found out beside the scheduling loop (`keep/dependency_keeper.py`). Until
that has looked at a job, and while its annotation cannot be read, the job waits.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from t9ksched.model.names import AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.asks import NOTHING_ASKED, Asks, asks_nothing
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.start_times import has_begun

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_UNREAD: Final = Reason(
    Code.DEPENDENCY_NOT_MET,
    "what it waits for is being looked up",
    unblocks=("that is known, a moment from now",),
)


class Verdict(NamedTuple):
    """What is known of the jobs that a job waits for.

    Attributes:
        text: the annotation that it is about.
        reason: what it still waits for; None once all is as it wants.
        met_at: since when, in nanoseconds since the epoch; its age counts from then.
        never: it can never be.
    """

    text: str
    reason: Reason | None = None
    met_at: int = 0
    never: bool = False


class Dependencies:
    """Verdicts by UID of the job that waits, as the keeper tells them."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._verdicts: dict[str, Verdict] = {}
        self._unread: dict[str, None] = {}
        self._watched: set[str] = set()
        self._ended: dict[str, str] = {}

    def refusal(self, gang: GangRecord) -> Reason | None:
        """Why the group may not be placed yet; None when it may. What has begun to run is not held up."""
        self._look(gang)
        text = gang.asked.after
        if not text or has_begun(self._state, gang):
            return None
        verdict = self._verdicts.get(job_of(gang))
        if verdict is not None and verdict.text == text:
            return verdict.reason
        self._unread[job_of(gang)] = None
        return _UNREAD

    def met_at(self, gang: GangRecord) -> int:
        """Since when all that the group's job waited for has been over; 0 for a job that waits for none."""
        self._look(gang)
        verdict = self._verdicts.get(job_of(gang)) if gang.asked.after else None
        return verdict.met_at if verdict is not None and verdict.text == gang.asked.after else 0

    def tell(self, uid: str, verdict: Verdict) -> None:
        """What holds for the job of that UID."""
        if self._verdicts.get(uid) == verdict:
            return
        self._verdicts[uid] = verdict
        for gang in self._state.groups_of(uid):
            self._state.changes.gang_changed(gang)  # its age counts from another moment
        self._state.wake()

    def forget(self, uid: str) -> None:
        """The job of that UID waits for none, or is gone."""
        self._verdicts.pop(uid, None)

    def look_again(self, uid: str) -> None:
        """Another verdict may hold for the job of that UID."""
        self._unread[uid] = None

    def take_unread(self) -> dict[str, None]:
        """UIDs of the jobs that want a verdict, since the last call."""
        unread, self._unread = self._unread, {}
        return unread

    def watch(self, uid: str) -> None:
        """The job or pod of that UID is waited for: how it is when it is deleted is remembered."""
        self._watched.add(uid)

    def watch_no_more(self, uid: str) -> None:
        """Nobody waits for it any more."""
        self._watched.discard(uid)
        self._ended.pop(uid, None)

    def end_of(self, uid: str) -> str:
        """The phase in which it was deleted, if that was seen."""
        return self._ended.get(uid, "")

    def gone(self, uid: str, phase: str) -> None:
        """A job or a pod was deleted in this phase."""
        if uid in self._watched:
            self._ended[uid] = phase

    def _look(self, gang: GangRecord) -> None:
        """Note what the group's job asks for, where anything of it changed."""
        if gang.asked_seen != gang.changes:
            gang.asked, gang.asked_seen = root_asks(self._state, gang), gang.changes


def root_asks(state: "ClusterState", gang: GangRecord) -> Asks:
    """What is asked for the job of a group: by the object that users made, where it is seen, else by what stands for
    it. Copies on what a job owns do not count beside its own.
    """
    if asks_nothing(gang):
        return NOTHING_ASKED
    job = state.jobs.get(job_of(gang))
    if job is not None:
        return job.asks
    owner = state.owners.root(gang).owner if gang.owner is not None else None
    found = (one.asks for one in (owner, gang, *gang.members.values()) if one is not None)
    return next((asks for asks in found if asks.after or asks.array), NOTHING_ASKED)


def unreadable(text: str, why: str) -> Verdict:
    """A job whose annotation names no jobs waits until it does."""
    message = f"its annotation {AFTER_ANNOTATION} cannot be read: {why}"
    return Verdict(text, Reason(Code.DEPENDENCY_NOT_MET, message, unblocks=("the annotation is corrected",)))
