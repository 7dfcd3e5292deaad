"""The gangs of objects that others turn into pods: a JobSet, a PyTorchJob, an Indexed Job that asks for it.

There is no PodGroup for them. A group is kept here as if there were one: it is owned by the topmost job above its pods,
and its minimum follows what the object asks for. A pod is in the group of the highest object above it that makes one.
A pod of which an owner has not been seen yet waits by itself until it is: the watches bring pods and the objects above
them in any order, and no pod of a gang may start alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from t9ksched.model.pod import Metadata, OwnerReference
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.whole import whole_number
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.workloads.gangs import (
    ForeignGang,
    asks_for_gang,
    at,
    gangs_of,
    is_ours,
    like_part,
    place_of,
    queue_asked,
    queue_named,
)
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import GANGS

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_MOST_LEVELS: Final = 8
_SELECTORS: Final = frozenset(row.foreign.selector for row in GANGS if row.foreign is not None)
_INDEXED: Final = ("batch.kubernetes.io/job-completion-index", "statefulset.kubernetes.io/pod-name")
"""Labels of pods that may be of a Job or a StatefulSet that is a gang."""


class _Maker(msgspec.Struct):
    """An object whose pods are gangs.

    Attributes:
        gangs: as its present spec has them; of one whose pods are told apart by a label, one that stands for all.
        made: the groups that are kept, by their part.
    """

    kind: Kind
    metadata: Metadata
    obj: Mapping[str, Any]
    gangs: list[ForeignGang]
    queue: str
    made: dict[str, GangRecord] = msgspec.field(default_factory=dict)

    @property
    def title(self) -> str:
        """For people: `Kind/name`."""
        return f"{self.kind.name}/{self.metadata.name}"

    def name(self, part: str) -> str:
        """Of the group of a part; no PodGroup can have it. It stays, in whatever version the object is taken later."""
        if part in self.made:
            return self.made[part].name
        return f"{self.title}[{part}]" if part else self.title


class _Awaiting(msgspec.Struct):
    """A pod that waits for an object above it. `ends`: it waits only a moment."""

    pod: PodRecord
    missing: OwnerReference
    ends: bool
    since: int = 0


class ForeignGangs:
    """The objects that make gangs, their groups, and pods that wait to be told whose they are."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._makers: dict[str, _Maker] = {}
        self._queues: dict[str, str] = {}
        """The queues that objects of other projects name, by UID."""
        self.held: dict[str, _Awaiting] = {}
        """Pods that wait to be told whose they are, by UID."""
        self._awaited: dict[str, dict[str, None]] = {}
        """UIDs of held pods by UID of the object that they wait for."""

    def upsert(self, job: JobObject, kind: Kind) -> None:
        """An object of a kind that may make gangs appeared or changed."""
        meta, form = job.metadata, kind.gang
        known = self._makers.get(meta.uid)
        if kind.foreign is not None:
            self._name_queue(meta.uid, queue_named((meta.labels, meta.annotations)))
        if form is None or not asks_for_gang(form, meta.annotations):
            if known is not None:
                self.remove(meta.uid)
            return
        obj = {"metadata": {"name": meta.name}, "spec": job.spec}
        title = f"the {kind.name} {meta.namespace}/{meta.name}"
        gangs = gangs_of(kind, obj, title=title)
        maker = _Maker(kind, meta, obj, gangs, queue_asked(kind, (meta.labels, meta.annotations), job.spec))
        if known is not None:
            maker.made = known.made
        self._makers[meta.uid] = maker
        for part in list(maker.made):
            if form.part and not maker.made[part].members and _is_beyond(part, at(obj, form.parts)):
                self._end(maker, part)
            else:
                self._keep(maker, part)
        if not form.part and is_ours(kind, (meta.labels, meta.annotations), job.spec):
            for gang in gangs:
                self._keep(maker, gang.part)
        if known is None:
            self._join_again(meta.uid)

    def remove(self, uid: str) -> None:
        """An object is gone, or makes gangs no more: what is left of its pods waits for its end, or by itself."""
        maker = self._makers.pop(uid, None)
        if maker is None or maker.kind.foreign is not None:
            self._queues.pop(uid, None)
        if maker is None:
            return
        for part in list(maker.made):
            self._end(maker, part)

    def owner_changed(self, uid: str) -> None:
        """An object above pods appeared or changed: its gangs may belong to another job now, pods may be told whose
        they are.
        """
        self.arrived(uid)
        owners = self._state.owners
        owner = owners.titled(uid)
        if owner is not None and owners.is_foreign(owner.reference):
            for below in owners.below(uid):
                self._state.job_events.hide(below)
        self._keep_below(uid)

    def arrived(self, uid: str) -> None:
        """An object or a pod is known now: pods that waited for it may be told whose they are."""
        for pod_uid in list(self._awaited.pop(uid, ())):
            held = self.held.pop(pod_uid, None)
            if held is not None:
                self._rejoin(held.pod)

    def place(self, pod: PodRecord) -> tuple[str, str]:
        """Name of the group and role of a pod; empty for one that is in no gang, or not known to be in one yet."""
        if pod.owner is None:
            return self._state.named_groups.place(pod)
        maker, missing = self._above(pod)
        self._release(pod.uid)
        if missing is not None:
            ends = _SELECTORS.isdisjoint(pod.labels) and not self._state.owners.is_foreign(missing)
            self.held[pod.uid] = _Awaiting(pod, missing, ends)
            self._awaited.setdefault(missing.uid, {})[pod.uid] = None
            return "", ""
        if maker is None:
            return self._state.named_groups.place(pod)
        assert maker.kind.gang is not None
        part, role = place_of(maker.kind.gang, maker.obj, pod.labels)
        if like_part(maker.gangs, part) is None:
            return "", ""
        self._keep(maker, part)
        return maker.name(part), role

    def awaited(self, gang: GangRecord, now: int) -> tuple[Reason | None, int]:
        """Why the only pod of a group waits for an object above it, once that has lasted for a moment; and when to look
        again, 0 where nothing is waited for.
        """
        held = self.held.get(gang.uid)
        if held is None:
            return None, 0
        held.since = held.since or now
        if now < held.since + NAMING_NS:
            return None, held.since + NAMING_NS
        if held.ends:
            self._release(gang.uid)
            return None, 0
        missing = f"{held.missing.kind} {gang.namespace}/{held.missing.name}"
        message = f"it belongs to the {missing}, which is not known here: what starts together with it cannot be told"
        helps = (f"the {missing} can be read",)
        return Reason(Code.GANG_INCOMPLETE, message, unblocks=helps), held.since + 2 * NAMING_NS

    def gone(self, uid: str) -> None:
        """A pod is gone."""
        if uid in self.held:
            self._release(uid)

    def _name_queue(self, uid: str, queue: str) -> None:
        """An object names that queue, which counts for what it owns too; or names none."""
        before = self._queues.get(uid, "")
        if queue:
            self._queues[uid] = queue
        else:
            self._queues.pop(uid, None)
        if queue != before:
            self._keep_below(uid)

    def _keep_below(self, uid: str) -> None:
        """Bring the groups of an object, and of those below it, up to date."""
        for below in (uid, *self._state.owners.below(uid)):
            maker = self._makers.get(below)
            if maker is not None:
                for part in list(maker.made):
                    self._keep(maker, part)

    def top(self, reference: OwnerReference) -> OwnerReference:
        """The topmost job above an owner of pods, as far as it is followed."""
        return self._state.owners.top(reference)

    def _above(self, pod: PodRecord) -> tuple[_Maker | None, OwnerReference | None]:
        """The highest object above a pod that makes gangs, and the first above it that is not known yet."""
        found: _Maker | None = None
        reference, owners = pod.owner, self._state.owners
        for _ in range(_MOST_LEVELS):
            if reference is None:
                break
            maker = self._makers.get(reference.uid)
            found = maker or found
            if maker is not None:
                reference = maker.metadata.controller
            elif reference.uid in owners:
                reference = owners.above(reference.uid)
            elif (above := self._state.pods.get(reference.uid)) is not None:
                reference = above.owner
            elif self._is_awaited(reference, pod):
                return found, reference
            else:
                break
        return found, None

    def _is_awaited(self, reference: OwnerReference, pod: PodRecord) -> bool:
        """Whether an object above a pod that is not known yet may say that the pod is in a gang."""
        if reference.kind == "Pod":
            return not _SELECTORS.isdisjoint(pod.labels)
        owners = self._state.owners
        if not owners.is_expected(reference):
            return False
        return owners.is_foreign(reference) or any(label in pod.labels for label in (*_SELECTORS, *_INDEXED))

    def _keep(self, maker: _Maker, part: str) -> None:
        """Make the group of a part, or bring it up to date."""
        like = like_part(maker.gangs, part)
        if like is None:
            self._end(maker, part)
            return
        state, meta, name = self._state, maker.metadata, maker.name(part)
        key = (meta.namespace, name)
        gang = state.gangs.get(key)
        if gang is None:
            gang = state.gangs[key] = GangRecord(meta.namespace, name)
        gang.foreign = f"the {maker.kind.name} {meta.namespace}/{meta.name}"
        maker.made[part] = gang
        own = OwnerReference(maker.kind.api_version, maker.kind.name, meta.name, meta.uid, True)
        top = self.top(own)
        queue = self._queues.get(top.uid) or maker.queue
        state.group_events.upsert(_as_group(maker, like, (name, part), (top, queue), gang.status))
        if gang.foreign_fault != like.fault:
            gang.foreign_fault = like.fault
            state.changes.gang_changed(gang)
            state.wake()

    def _end(self, maker: _Maker, part: str) -> None:
        """The group of a part is none any more; its waiting pods join what they belong to now."""
        gang = maker.made.pop(part)
        meta = maker.metadata
        self._state.remove_group(PodGroupObject(Metadata(gang.name, meta.namespace, gang.uid)))
        if meta.uid in self._state.owners or self._state.owners.is_read(maker.kind.name):
            for pod in [pod for pod in gang.members.values() if pod.waiting]:
                self._rejoin(pod)

    def _rejoin(self, pod: PodRecord) -> None:
        """A pod that waits joins what it belongs to, as is known now."""
        if pod.uid not in self._state.pods or not pod.waiting or pod.outside is not None:
            return
        self._state.joining.join_anew(pod)

    def _join_again(self, uid: str) -> None:
        """An object makes gangs that did not: the waiting pods that are its own join them."""
        for gang in self._state.gangs_of_owner(uid):
            for pod in list(gang.members.values()) if gang.virtual else ():
                self._rejoin(pod)

    def _release(self, uid: str) -> None:
        held = self.held.pop(uid, None)
        if held is not None and (those := self._awaited.get(held.missing.uid)) is not None:
            those.pop(uid, None)
            if not those:
                del self._awaited[held.missing.uid]


def _is_beyond(part: str, parts: Any) -> bool:
    """Whether a part is of a larger number of parts than there are now."""
    index = whole_number(part.partition(".")[0])
    return isinstance(parts, int) and index is not None and index >= parts


def _as_group(
    maker: _Maker,
    gang: ForeignGang,
    of: tuple[str, str],
    job: tuple[OwnerReference, str],
    status: dict[str, Any],
) -> PodGroupObject:
    """The group of a name and a part, of a job and its queue, as if a PodGroup said so."""
    (name, part), (owner, queue), meta = of, job, maker.metadata
    metadata = Metadata(
        name=name,
        namespace=meta.namespace,
        uid=str(uuid5(NAMESPACE_OID, f"{meta.uid}/{part}")),
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        annotations=meta.annotations,
        owner_references=[owner],
    )
    roles = [{"name": role, "minMember": least} for role, least in gang.roles]
    return PodGroupObject(metadata, {"minMember": gang.minimum, "roles": roles, "queue": queue}, status)
