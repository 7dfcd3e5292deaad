"""Whose word counts when something asks to use a queue, or to join a group: the rule over plain dictionaries.

It shares with `AdmissionGate` the door's own rule (`may_use`), and nothing else: what it keeps, it keeps nowhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from t9ksched.admission.access import Access, Members, may_use
from t9ksched.admission.identity import OWNER_ANNOTATION, Identity, Namespace, Place, Rights
from t9ksched.model.queue import Queue
from t9ksched.store.acceptances import Acceptance

FOLLOWED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job", "PyTorchTrainingJob", "MPIJob", "Notebook"})
"""Kinds of which every object is seen, unless the right to read them is missing."""

NONE: frozenset[str] = frozenset()


@dataclass
class Word:
    """Everything the rule reads.

    Attributes:
        acceptances: what is on record, by UID.
        above: kind of each object that is there and the UID of its owner, by UID.
        unread: kinds that cannot be read.
        members, groups: who may use which queue, and the groups of each user.
        spaces: labels and annotations by namespace.
    """

    acceptances: Mapping[str, Acceptance] = field(default_factory=dict)
    above: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    members: Mapping[str, Members] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    spaces: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=dict)

    def root(self, uid: str) -> str:
        """The object above a ReplicaSet that is there and has one; else the object itself."""
        kind, over = self.above.get(uid, ("", None))
        return over if kind == "ReplicaSet" and over is not None else uid

    def record(self, owner: str | None, uid: str) -> Acceptance | None:
        """Of the root owner, else of the owner, else of the object itself, if it names a submitter; if none does, the
        first that there is.
        """
        those = [uid] if owner is None else [self.root(owner), owner, uid]
        named = [one for one in those if one in self.acceptances and self.acceptances[one].submitter]
        return next((self.acceptances[one] for one in (*named, *those) if one in self.acceptances), None)

    def whose(self, owner: str | None, uid: str, space: str) -> str | None:
        """Its submitter; a record of another namespace does not count."""
        record = self.record(owner, uid)
        return None if record is None or record.namespace != space else record.submitter

    def access(self, queue: Queue, space: str, owner: str | None, uid: str) -> Access:
        """Whether it may use the queue."""
        labels, annotations = self.spaces.get(space, ({"kubernetes.io/metadata.name": space}, {}))
        record = self.record(owner, uid)
        if record is not None and record.namespace != space:
            record = None
        ruled = record is not None and record.queue == queue.name
        role = record.permitted_by if ruled and record is not None else None
        return may_use(
            queue,
            self.members.get(queue.name, Members()),
            Identity() if record is None else Identity(record.submitter, frozenset(record.groups)),
            Place(Namespace(space, labels, annotations), self.groups.get(annotations.get(OWNER_ANNOTATION, ""), NONE)),
            Rights(role if role in ("administrator", "manager") else ""),
        )

    def leads(self, uid: str | None, top: str) -> bool:
        """Whether one of eight owners above one another is that object."""
        for _ in range(8):
            if uid is None or uid == top:
                return uid is not None
            uid = self.above.get(uid, ("", None))[1]
        return False

    def came_with(self, pod: "Asks", group: "Asks", *, single: bool = False) -> bool:
        """Whether a pod belongs to a group whatever users may use the group's queue."""
        if single or (pod.owner and group.owner and self.leads(pod.owner, group.owner)):
            return True
        whose = self.whose(pod.owner, pod.uid, pod.space)
        if whose != self.whose(group.owner, group.uid, group.space):
            return False
        shown = pod.kind in FOLLOWED and pod.kind not in self.unread
        return whose is not None or group.owner is None or (pod.owner is not None and not shown)

    def stranger(self, pod: "Asks", group: "Asks", queue: Queue | None) -> tuple[str, str, tuple[str, ...]] | None:
        """Why the pod may not join a group that it did not come with: code, sentence and remedies; None if it may."""
        begin = f"it names the PodGroup {group.space}/{group.name} and may not join it: "
        if group.owner is not None:
            code = "NotPermitted" if self.whose(pod.owner, pod.uid, pod.space) is not None else "SubmitterUnknown"
            title = f"{group.kind}/{group.owner}"
            why = f"that is the group of {title}, which the pod does not belong to and its submitter did not submit"
            return code, begin + why, (f"the pods of {title} are made by its controller: leave the label out",)
        access = None if queue is None else self.access(queue, pod.space, pod.owner, pod.uid)
        if access is None or access.allowed:
            return None
        code = "SubmitterUnknown" if access.code == "SubmitterUnknown" else "NotPermitted"
        return code, begin + access.message, (access.remedy,) if access.remedy else ()


@dataclass(frozen=True)
class Asks:
    """A pod or a group: its own UID, and the UID and kind of its owner. Owners are named by their UIDs."""

    uid: str
    owner: str | None = None
    kind: str = ""
    space: str = "ns"
    name: str = ""
