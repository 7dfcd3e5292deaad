"""Jobs that went before they were written: what they were, from the groups and pods that the state let go of.

A job is written to SQL some seconds after it appeared. Of one that is deleted before that, history may have told that
it was accepted, placed or bound; then its end is told, too, and it is listed among those that are gone.
"""

from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from msgspec import structs

from t9ksched.model import names
from t9ksched.model.job import JobMembers, JobView
from t9ksched.model.timelimit import NO_LIMIT
from t9ksched.scheduler.report.job_phase import lived_by_pods
from t9ksched.scheduler.report.job_shape import job_view
from t9ksched.scheduler.report.observed_job import ObservedJob, identity
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.store.jobs import PENDING
from t9ksched.workloads.registry import kind_named

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_A_SLICE: Final = 500


class Departure(NamedTuple):
    """A job as it was before it was deleted: its groups, and when it was created."""

    job: JobView
    gangs: list[GangRecord]
    created: int


class Departed:
    """Remembers what left the state of jobs that are not `written`, by UID of the job."""

    def __init__(self, state: ClusterState, written: Container[str]) -> None:
        self._state = state
        self._written = written
        self._left = state.feed.left.follow()
        self._gangs: dict[str, dict[int, GangRecord]] = {}
        self._pods: dict[str, dict[str, PodRecord]] = {}

    def note(self) -> Iterator[None]:
        """Take over what left since the last call, and forget what was written since, in slices."""
        for piece in self._left.pieces(_A_SLICE):
            self._take(piece)
            yield
        for count, uid in enumerate(list(self._gangs), start=1):
            if uid in self._written:
                self.forget(uid)
            if count % _A_SLICE == 0:
                yield

    def _take(self, left: list[tuple[str, GangRecord, PodRecord | None]]) -> None:
        for uid, gang, pod in left:
            if uid in self._written:
                continue
            self._gangs.setdefault(uid, {})[id(gang)] = gang
            if pod is not None:
                self._pods.setdefault(uid, {})[pod.uid] = pod

    def forget(self, uid: str) -> None:
        """Nothing of this job is needed any more, also of what was not taken over yet."""
        self._take(self._left.take())
        self._gangs.pop(uid, None)
        self._pods.pop(uid, None)

    def job(self, uid: str) -> Departure | None:
        """The job of that UID as it was; None if nothing of it left the state."""
        self._take(self._left.take())
        gangs, pods = self._gangs.get(uid), self._pods.get(uid, {})
        if not gangs:
            return None
        *_, last = gangs.values()
        members = {uid: pod for gang in gangs.values() for uid, pod in gang.members.items()} | pods
        _, kind, api_version, name = identity(last)
        owner = self._state.owners.titled(uid)
        created = (owner.created if owner else 0) or min(gang.created for gang in gangs.values())
        was = structs.replace(last, members=members)
        view = ObservedJob(uid, kind, api_version, last.namespace, name, created, None, [was])
        job = job_view(view, self._state)
        return Departure(structs.replace(job, phase=lived_by_pods([was])), [was], created)


def on_record(event: Event, agreed: Acceptance | None) -> JobView:
    """The job of an event as far as SQL tells: it went while no scheduler was there, before it was written."""
    kind = event.kind or ""
    known = kind_named(kind)
    version = {"Pod": "v1", "PodGroup": names.SCHEDULER_API}.get(kind) or (known.api_version if known else "")
    replicas = (agreed and agreed.replicas) or 1
    cards = sum(agreed.cards.values()) if agreed else 0
    return JobView(
        api_version=version,
        namespace=event.namespace or "",
        kind=kind,
        name=event.name or "",
        uid=event.uid or "",
        group=agreed.group_name if agreed else None,
        queue=event.queue,
        priority=agreed.priority if agreed else 0,
        submitter=agreed.submitter if agreed else None,
        phase=PENDING,
        members=JobMembers(replicas, replicas),
        gpus=cards,
        cards=float(cards),
        submitted_at=event.at.strftime(TIME),
        started_at=None,
        finished_at=None,
        position=None,
        reason=None,
        planned_start=None,
        expected_start=None,
        time_limit=NO_LIMIT,
    )
