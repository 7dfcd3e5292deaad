"""A job as users know it, with the pod groups and pods that belong to it. A job is the object that the user created: of
a kind that t9ksched controls, a batch Job, a PodGroup or a plain pod. The groups and pods below it are found by their
controlling owner.
"""

import msgspec

from t9ksched.model import names
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.owners import Owner
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance


class ObservedJob(msgspec.Struct, eq=False):
    """A job with the groups and pods that belong to it."""

    uid: str
    kind: str
    api_version: str
    namespace: str
    name: str
    created: int
    record: JobRecord | None = None
    gangs: list[GangRecord] = []
    agreed: Acceptance | None = None
    """The acceptance of an owner that a limit stopped, if there is neither an object nor a group."""
    _pods: list[PodRecord] | None = None

    @property
    def pods(self) -> list[PodRecord]:
        """Members of all its groups, as they were when they were first asked for."""
        if self._pods is None:
            self._pods = members_of(self.gangs)
        return self._pods

    @property
    def queue(self) -> str | None:
        """The queue of its first group, else the one it names."""
        if self.gangs:
            return self.gangs[0].queue
        return self.record.queue if self.record else self.agreed.queue if self.agreed else None


def identity(gang: GangRecord) -> tuple[str, str, str, str]:
    """`(uid, kind, apiVersion, name)` of the job a group belongs to."""
    if gang.owner is not None:
        return gang.owner.uid, gang.owner.kind, gang.owner.api_version, gang.owner.name
    if gang.virtual:
        return gang.uid, "Pod", "v1", gang.name
    return gang.uid or f"{gang.namespace}/{gang.name}", "PodGroup", names.SCHEDULER_API, gang.name


def observed_job(state: ClusterState, uid: str) -> ObservedJob | None:
    """The job of that UID with its groups; None when neither its object nor any group of it is there.

    A PodGroup that only its members name has no UID: its job is found by `namespace/name`.
    """
    record, gangs = state.jobs.get(uid), groups_of(state, uid)
    if record is not None:
        head = (record.kind, record.api_version, record.namespace, record.name, record.created)
        return ObservedJob(uid, *head, record, gangs)
    if not gangs:
        return _stopped(state, uid)
    first = gangs[0]
    _, kind, api_version, name = identity(first)
    owner = state.owners.titled(uid)
    created = (owner.created if owner else 0) or min([gang.created for gang in gangs])
    return ObservedJob(uid, kind, api_version, first.namespace, name, created, None, gangs)


def _stopped(state: ClusterState, uid: str) -> ObservedJob | None:
    """The job of a Deployment or StatefulSet that a limit scaled to 0: no pod of it is left."""
    owner = ended_owner(state, uid)
    if owner is None:
        return None
    agreed = state.acceptances.get(owner.above.uid if owner.above else uid) or state.acceptances.get(uid)
    head = (owner.kind, owner.api_version, owner.namespace, owner.name, owner.created)
    return ObservedJob(uid, *head, agreed=agreed)


def ended_owner(state: ClusterState, uid: str) -> Owner | None:
    """The object of that UID, if a limit ended it and its root owner has no pods by another one."""
    clock = state.clocks.by_job.get(uid)
    owner = state.owners.titled(uid) if clock is not None and clock.run.ended_code else None
    if owner is None or owner.above is None:
        return owner
    return None if any(map(state.gangs_of_owner, state.owners.controllers(owner.above.uid))) else owner


def members_of(gangs: list[GangRecord]) -> list[PodRecord]:
    """The pods of these groups."""
    if len(gangs) == 1:
        return list(gangs[0].members.values())
    return [pod for gang in gangs for pod in gang.members.values()]


def groups_of(state: ClusterState, uid: str) -> list[GangRecord]:
    if gangs := state.gangs_of_owner(uid):
        return gangs
    alone = state.gangs_by_uid.get(uid) or _nameless(state, uid)
    return [alone] if alone is not None and alone.owner is None else []


def _nameless(state: ClusterState, key: str) -> GangRecord | None:
    namespace, _, name = key.partition("/")
    gang = state.gangs.get((namespace, name))
    return gang if gang is not None and name and not gang.uid else None


def submitter(view: ObservedJob, state: ClusterState) -> str | None:
    """The submitter of the job, if known, else that of the job to which it belongs, such as an experiment; if its
    PodGroup is gone, the user who submitted all of its pods.
    """
    acceptance = state.acceptances.get(view.uid) or (view.gangs[0].acceptance if view.gangs else view.agreed)
    if acceptance is None and view.gangs and not view.gangs[0].uid:
        whose = {state.permissions.whose(pod) for pod in view.pods}
        return whose.pop() if len(whose) == 1 else None
    if view.gangs and (acceptance is None or acceptance.submitter is None):
        return state.permissions.submitter(view.gangs[0])  # of the job to which this one belongs
    return acceptance.submitter if acceptance else None


def submitted_by(gang: GangRecord, state: ClusterState) -> str | None:
    """The same for a job that is this single pod without an owner."""
    acceptance = state.acceptances.get(gang.uid) or gang.acceptance
    return acceptance.submitter if acceptance is not None else None


def former_submitters(view: ObservedJob, state: ClusterState) -> tuple[str, ...]:
    """Other users who submitted pods of the job, in order of their names: they may see the job too. Only a PodGroup
    that no job owns has members of several users: they joined it, or it was deleted and perhaps created again by
    another user.
    """
    whose: set[str] = set()
    for gang in view.gangs:
        if not gang.virtual and gang.owner is None:
            whose.update(name for pod in gang.members.values() if (name := state.permissions.whose(pod)) is not None)
    return tuple(sorted(whose - {submitter(view, state)})) if whose else ()


def is_past(gang: GangRecord) -> bool:
    """Whether the group is a single ended pod of a controller: it has been replaced, or needs no replacement."""
    return gang.owner is not None and gang.virtual and all(pod.finished for pod in gang.members.values())
