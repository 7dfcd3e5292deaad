"""Groups as the scheduler would see them if objects were submitted, which they are not.

The objects are expanded by their kinds and taken in by a state of its own, as if a watch had brought them: what members
ask for, what blocks them and how long they last is found by the same code. The live state is only read.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang, Member
from t9ksched.model.names import GROUP_LABEL
from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.queue import Queue, QueueSpec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.keep.targets import foreseen
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.state.dependencies import root_asks, unreadable
from t9ksched.scheduler.state.enforced_ends import EnforcedEnds
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.limits import limit_agreed
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject, timestamp
from t9ksched.scheduler.state.pod_affinity_index import own_labels
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.start_times import too_early
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.arrays import read_element
from t9ksched.workloads.gangs import asks_for_gang, gangs_of
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.read import read
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.registry import JOBS, kind_of

Object = dict[str, Any]
_PODS_A_SLICE: Final = 20
"""Pods that are taken in before other tasks run."""
_JOBS: Final = {row.name: row.resource for row in JOBS}


class Submitted(msgspec.Struct, frozen=True):
    """An object that is judged already: it would be accepted in this queue with this priority.

    Attributes:
        members: of a PodGroup, the pods of it that are submitted with it.
        ours: whether this scheduler places its pods.
    """

    object: Object
    members: list[Object] = []
    queue: str = ""
    priority: int = 0
    ours: bool = True


class Newcomer(msgspec.Struct):
    """What an object becomes.

    Attributes:
        gangs: its groups.
        joins: namespace and name of the PodGroup that its pod joins, which is there already; None for all others.
        reasons: why no pod of it is seen; empty where some are.
        later: before which moment none of its groups starts, nanoseconds since the epoch; 0 for none.
        turn: of which array it is an element, and how many of that run at once at most; None where that is not said.
        only: UIDs of the pods that are its own, where its groups have others; None where all are.
    """

    gangs: list[Gang] = msgspec.field(default_factory=list)
    joins: tuple[str, str] | None = None
    reasons: tuple[Reason, ...] = ()
    later: int = 0
    turn: tuple[str, int] | None = None
    only: set[str] | None = None

    @property
    def members(self) -> list[Member]:
        """Its pods."""
        found = [member for gang in self.gangs for member in gang.waiting]
        return found if self.only is None else [member for member in found if member.uid in self.only]


class _Parts(msgspec.Struct):
    """What an object consists of, as far as scheduling reads it."""

    uid: str
    group: PodGroupObject | None = None
    pods: list[Pod] = msgspec.field(default_factory=list)
    job: JobRecord | None = None
    stopped: bool = False


async def newcomers(
    items: Sequence[Submitted],
    whose: tuple[str, tuple[str, ...]],
    known: ClusterState,
    queues: Mapping[str, Queue],
    policy: Policy,
    now: int,
) -> list[Newcomer]:
    """One an item, submitted by a user of these groups while there are these queues. `now` is in nanoseconds since the
    epoch.

    Raises:
        Invalid: an object cannot be read.
    """
    parts = await asyncio.to_thread(lambda: [_parts(item, at, now) for at, item in enumerate(items)])
    state = await _taken_in(parts, known, queues)
    ends = EnforcedEnds(state, policy.start_timeout_seconds, policy.preemption.max_grace_seconds)
    found = []
    records = _by_owner(state)
    for item, part in zip(items, parts, strict=True):
        one = Newcomer()
        found.append(one)
        if not item.ours:
            one.reasons = (Reason(Code.OTHER_SCHEDULER, "its pods get their nodes from another scheduler"),)
        elif part.stopped or not part.pods:
            one.reasons = (_stopped(part) if part.stopped or part.group is None else _no_pods(item),)
        for record in records.get(part.uid, ()) if item.ours else ():
            if not record.uid:
                one.joins = (record.namespace, record.name)
            made = _gang(record, item, whose, state, ends, now)
            if (unmet := _waits_for(record, state, known, now)) is not None:
                one.reasons = (unmet,)
                continue  # when it starts depends on how others end
            if made is not None:
                one.gangs.append(made)
            one.turn = _turn(root_asks(state, record).array)
            if (early := too_early(state, record, now)) is not None:
                one.reasons, one.later = (early,), record.start_after
            await asyncio.sleep(0)
    return found


def _waits_for(record: GangRecord, state: ClusterState, known: ClusterState, now: int) -> Reason | None:
    """Which jobs of the cluster the group's job would wait for; None for a job that waits for none."""
    text = root_asks(state, record).after
    try:
        return foreseen(known, record.namespace, text, now).reason if text else None
    except ValueError as error:
        return unreadable(text, str(error)).reason


def _turn(text: str) -> tuple[str, int] | None:
    """The array of an element, and how many of it run at once at most."""
    try:
        element = read_element(text) if text else None
    except ValueError:
        return None  # it is ignored
    return (element.array, element.most) if element is not None and element.most is not None else None


def _gang(
    record: GangRecord,
    item: Submitted,
    whose: tuple[str, tuple[str, ...]],
    state: ClusterState,
    ends: EnforcedEnds,
    now: int,
) -> Gang | None:
    """The group as it would wait."""
    user, groups = whose
    queue = state.queues.get(item.queue) or Queue(item.queue, QueueSpec())
    record.acceptance = Acceptance(
        uid=record.uid,
        kind="Pod" if record.virtual else "PodGroup",
        namespace=record.namespace,
        name=record.name,
        submitter=user,
        groups=list(groups),
        queue=item.queue,
        priority=item.priority,
        time_limit=limit_agreed(state, record, queue),
    )
    state.advance.read(record)
    record.lasts, record.user, record.stale = ends.lasts(record), user, True
    made = record.snapshot()
    if made is None:
        return None
    waiting = tuple(structs.replace(one, labels=own_labels(state.pods[one.uid])) for one in made.waiting)
    return structs.replace(made, waiting=waiting, groups=groups, created=now)


async def _taken_in(parts: Sequence[_Parts], known: ClusterState, queues: Mapping[str, Queue]) -> ClusterState:
    """A state that knows these objects and queues alone, and the volumes of the live one."""
    state = ClusterState()
    state.outage.unread = True  # so that each pod is a member of the group that it names: it was judged before
    state.set_queues(queues.values())
    state.storage = known.storage.for_a_copy(
        state.node_events.look_again, state.node_events.limits_changed, state.nodes.__contains__
    )
    taken = 0
    for part in parts:
        if part.stopped:
            continue
        if part.job is not None:
            state.upsert_job(part.job)
        if part.group is not None:
            state.upsert_group(part.group)
        for pod in part.pods:
            state.upsert_pod(pod)
            taken += 1
            if taken % _PODS_A_SLICE == 0:
                await asyncio.sleep(0)
    return state


def _by_owner(state: ClusterState) -> Mapping[str, list[GangRecord]]:
    """The groups by UID of their job; of one that joins a group that is not here, by that of the pod."""
    found: dict[str, list[GangRecord]] = {}
    for record in state.gangs.values():
        uids = [record.owner.uid] if record.owner is not None else [record.uid] if record.uid else list(record.members)
        for uid in uids:
            found.setdefault(uid, []).append(record)
    return found


def _parts(item: Submitted, at: int, now: int) -> _Parts:
    """What an object consists of. Its UID is one that nothing else has."""
    uid = f"what-if-{at}"
    obj = {**item.object, "metadata": {**item.object["metadata"], **_born(uid, now)}}
    part = _Parts(uid)
    kind = kind_of(obj)
    assert kind is not None, "it was read before"
    if not item.ours:
        return part
    if kind.name in _JOBS:
        part.job = job_record(msgspec.convert(obj, JobObject), _JOBS[kind.name])
        part.stopped = not part.job.wants_pods
    if kind.controlled:
        made = expand(obj)
        if made.jobs:  # the first of an experiment's trials stands for it
            made = expand({**made.jobs[0], "metadata": {**made.jobs[0]["metadata"], "uid": uid}})
        pods: Sequence[Object] = made.pods or _of_makers(made.makers)
        if made.podgroup is not None:
            part.group = msgspec.convert(_with_uid(made.podgroup, f"{uid}-group", now), PodGroupObject)
    elif kind.name == "PodGroup":
        part.group = msgspec.convert(obj, PodGroupObject)
        pods = item.members
    elif kind.name == "Pod":
        part.pods = [decode_pod(obj)]
        return part
    else:
        pods = _templated(obj, uid)
        if (group := _foreign_group(obj, kind, uid, now)) is not None:
            part.group = group
            for pod in pods:
                pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), GROUP_LABEL: group.metadata.name}
    part.pods = [decode_pod(_with_uid(pod, f"{uid}-{nth}", now)) for nth, pod in enumerate(pods)]
    return part


def _of_makers(makers: Sequence[Object]) -> list[Object]:
    """The pods that Deployments will make."""
    return [
        {
            "metadata": {**maker["spec"]["template"]["metadata"], "name": f"{maker['metadata']['name']}-{nth}"}
            | {key: maker["metadata"][key] for key in ("namespace", "ownerReferences")},
            "spec": maker["spec"]["template"]["spec"],
        }
        for maker in makers
        for nth in range(maker["spec"].get("replicas", 1))
    ]


def _foreign_group(obj: Object, kind: Kind, uid: str, now: int) -> PodGroupObject | None:
    """The gang of an object of a kind that others turn into pods. Of one with several gangs all its pods are shown as
    one, that starts with the smallest.
    """
    meta = obj["metadata"]
    if kind.gang is None or not asks_for_gang(structs.replace(kind.gang, below=False), meta.get("annotations")):
        return None
    gangs = gangs_of(kind, obj, title=kind.name)
    if not gangs:
        return None
    spec = {"minMember": min(gang.minimum for gang in gangs)}
    owner = {"apiVersion": obj["apiVersion"], "kind": kind.name, "name": meta["name"], "uid": uid, "controller": True}
    head = {"name": f"{kind.name}/{meta['name']}", "namespace": meta["namespace"], "ownerReferences": [owner]}
    return msgspec.convert(_with_uid({"metadata": head, "spec": spec}, f"{uid}-group", now), PodGroupObject)


def _templated(obj: Object, uid: str) -> list[Object]:
    """The pods of a batch Job, or of another kind that has templates and replicas; each has a name of its own."""
    meta = obj["metadata"]
    owner = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": uid, "controller": True}
    return [
        {
            "metadata": {
                **template.metadata,
                "name": "-".join(filter(None, (meta["name"], template.role, str(nth)))),
                "namespace": meta["namespace"],
                "ownerReferences": [owner],
            },
            "spec": template.spec,
        }
        for template in read(obj).templates
        for nth in range(template.replicas)
    ]


def _with_uid(obj: Object, uid: str, now: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **_born(uid, now)}}


def _born(uid: str, now: int) -> Object:
    return {"uid": uid, "creationTimestamp": timestamp(now)}


def _stopped(part: _Parts) -> Reason:
    if part.stopped:
        return Reason(Code.PAUSED, "its spec pauses or suspends it: it has no pods until it is resumed")
    return Reason(Code.GANG_INCOMPLETE, "it asks for no pods")


def _no_pods(item: Submitted) -> Reason:
    name = f"{item.object['metadata'].get('namespace')}/{item.object['metadata']['name']}"
    message = f"no pods of the PodGroup {name} are submitted with it"
    return Reason(Code.GANG_INCOMPLETE, message, unblocks=("its pods are submitted with it",))


def joined(base: Gang, newcomer: Gang) -> Gang:
    """The group that is there, with the members that join it."""
    roles = Counter(dict(base.total_roles))
    roles.update(dict(newcomer.total_roles))
    return structs.replace(
        base,
        waiting=(*base.waiting, *newcomer.waiting),
        blocked=(*base.blocked, *newcomer.blocked),
        total=base.total + newcomer.total,
        total_roles=tuple(sorted(roles.items())),
    )


def ruled(found: Sequence[Newcomer]) -> bool:
    """Whether any of these has rules about other pods."""
    return any(member.pod_class.rules is not None for one in found for member in one.members)


def without_labels(found: Sequence[Newcomer]) -> None:
    """Leave the labels of members out: no rule reads them."""
    for one in found:
        one.gangs = [
            structs.replace(gang, waiting=tuple(structs.replace(member, labels=()) for member in gang.waiting))
            for gang in one.gangs
        ]
