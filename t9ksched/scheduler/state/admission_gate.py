"""Whether a waiting group may use its queue, whatever created the group and in whatever way.

The rule is that of REST (`t9ksched.admission.access`). The submitter of a group is the one recorded by the UID of the
object that owns it, or by its own; a label proves nothing. For an unknown submitter only rules that need no name apply:
the namespace, its owner, a queue open to everyone. A running group is never judged again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from t9ksched.admission import Request
from t9ksched.admission.access import Access, Members, may_use
from t9ksched.admission.entry import group_joinable
from t9ksched.admission.identity import ROLE_RULES, UNKNOWN, Identity, Namespace, Place, Rights
from t9ksched.admission.request import JoinedGroup
from t9ksched.model.names import GROUP_LABEL
from t9ksched.model.pod import OwnerReference
from t9ksched.model.podrules import namespace_labels
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.namespaces import Namespaces
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refusals import waiting
from t9ksched.store.acceptances import Acceptance

NAMING_NS: Final = 3_000_000_000
"""How long the submitter of a group may be unknown before that is reported: the service that created the group may
still be recording it."""
_MOST_KEPT: Final = 50_000
_NOBODY: Final = Members()

_Key = tuple[str, str, str | None, tuple[str, ...], str]


class AdmissionGate:
    """Members of queues, groups of users, namespaces and acceptances, asked together.

    `version` grows with every change that may turn a verdict; `take_concerned` tells whom the changes concern.
    """

    def __init__(self, namespaces: Namespaces, acceptances: Mapping[str, Acceptance], owners: Owners) -> None:
        self._namespaces = namespaces
        self._owners = owners
        self._acceptances = acceptances
        self._members: dict[str, Members] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._known: dict[_Key, Access] = {}
        self.version = 1
        self._concerned: tuple[set[str], set[str]] = set(), set()

    def set_members(self, members: dict[str, Members]) -> bool:
        """Take over the members of all queues; whether they changed."""
        if members == self._members:
            return False
        before, self._members = self._members, members
        self.changed(queues=_unlike(before, members))
        return True

    def set_groups(self, groups: dict[str, frozenset[str]]) -> bool:
        """The groups of every user that has any; whether that is new."""
        if groups == self._groups:
            return False
        before, self._groups = self._groups, groups
        self.changed(namespaces=self._namespaces.of_owners(_unlike(before, groups)))
        return True

    def members(self, queue: str) -> Members:
        """The members of that queue."""
        return self._members.get(queue, _NOBODY)

    def changed(self, *, queues: Iterable[str] = (), namespaces: Iterable[str] = ()) -> None:
        """These queues and namespaces changed, on which verdicts depend."""
        self.version += 1
        self._known.clear()
        self._concerned[0].update(queues)
        self._concerned[1].update(namespaces)

    def take_concerned(self) -> tuple[set[str], set[str]]:
        """The queues and the namespaces of the groups on which verdicts may be others, since the last call."""
        concerned, self._concerned = self._concerned, (set(), set())
        return concerned

    def access(self, gang: GangRecord, queue: Queue) -> Access:
        """Whether the group may use the queue, by which rule and up to which priority."""
        owner, uid = gang.owner, gang.uid
        record = self._acceptances.get(uid) if owner is None else self._submission(owner, uid)
        return self._ask(queue, gang.namespace, record)

    def submitter(self, gang: GangRecord) -> str | None:
        """The submitter of the group, as far as that is on record."""
        owner, uid = gang.owner, gang.uid
        record = self._acceptances.get(uid) if owner is None else self._submission(owner, uid)
        return record.submitter if record is not None and record.namespace == gang.namespace else None

    def groups_of_submitter(self, gang: GangRecord) -> list[str]:
        """The groups that the submitter of the gang had when it was submitted."""
        return self.submitted_by(gang)[1]

    def submitted_by(self, gang: GangRecord) -> tuple[str | None, list[str]]:
        """The submitter of the group, and the groups that this user had when it was submitted."""
        record = self._submission(gang.owner, gang.uid)
        if record is None or record.namespace != gang.namespace:
            return None, []
        return record.submitter, list(record.groups)

    def came_with(self, pod: PodRecord, gang: GangRecord) -> bool:
        """Whether a pod is a member of the group that it names regardless of who may use the queue.

        It is if it belongs to the job that owns the group, or if one user submitted both. A pod without a known
        submitter came with a group without one, but with the group of a job only if an owner that is not followed may
        lie between them.
        """
        mine, owner = pod.owner, gang.owner
        if gang.virtual or (mine is not None and owner is not None and self._owners.leads_to(mine, owner.uid)):
            return True
        whose = _submitter(self._submission(mine, pod.uid), pod.namespace)
        if whose != _submitter(self._submission(owner, gang.uid), gang.namespace):
            return False
        return whose is not None or owner is None or (mine is not None and not self._owners.shows(mine))

    def stranger(self, pod: PodRecord, gang: GangRecord, queue: Queue | None) -> Reason | None:
        """Why a pod may not join a group that it did not come with; None when it may.

        It may join a group made by hand if it may use the group's queue itself, and never the group of a job.
        """
        owner, own = gang.owner, self._submission(pod.owner, pod.uid)
        if owner is None and queue is None:
            return None
        path = f"metadata.labels[{GROUP_LABEL}]"
        asked = Request(
            f"Pod/{pod.name}",
            gang.queue,
            path,
            namespace=pod.namespace,
            submitter=Identity(_submitter(own, pod.namespace)),
            access=None if owner is not None or queue is None else self._ask(queue, pod.namespace, own),
            group=JoinedGroup(gang.key, path, f"{owner.kind}/{owner.name}" if owner is not None else ""),
        )
        verdict = group_joinable(asked)
        return None if verdict.allowed else waiting(verdict)

    def whose(self, pod: PodRecord) -> str | None:
        """The submitter of the pod, or of the root owner above it; None if unknown."""
        return _submitter(self._submission(pod.owner, pod.uid), pod.namespace)

    def _submission(self, owner: OwnerReference | None, uid: str) -> Acceptance | None:
        """The record of the submission of an object: its root owner's, its owner's, that of the job to which its owner
        belongs, or its own, the first that names a submitter. An owner that the scheduler let in and recorded by itself
        has a record without one.
        """
        if owner is None:
            return self._acceptances.get(uid)
        above: tuple[str, ...] = (self._owners.root_uid(owner), owner.uid)
        if (maker := self._owners.maker(owner)) is not None:
            above = (*above, maker.uid)
        found = [record for one in (*above, uid) if (record := self._acceptances.get(one)) is not None]
        return next((record for record in found if record.submitter is not None), found[0] if found else None)

    def _ask(self, queue: Queue, space: str, root: Acceptance | None) -> Access:
        if root is not None and root.namespace != space:
            root = None  # an owner reference to another namespace does not count
        submitter: str | None = None
        groups: tuple[str, ...] = ()
        role = ""
        if root is not None:
            submitter, groups = root.submitter, tuple(root.groups)
            if root.permitted_by in ROLE_RULES and root.queue == queue.name:
                role = root.permitted_by or ""
        key = (queue.name, space, submitter, groups, role)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            known = self._known[key] = may_use(
                queue,
                self._members.get(queue.name, _NOBODY),
                UNKNOWN if submitter is None else Identity(submitter, frozenset(groups)),
                self._place(space),
                Rights(role),
            )
        return known

    def _place(self, space: str) -> Place:
        known = self._namespaces.get(space)
        labels = namespace_labels(space, self._namespaces.labels)
        namespace = Namespace(space, labels, known.annotations if known is not None else {})
        return Place(namespace, self._groups.get(namespace.owner or "", frozenset()))


def _submitter(record: Acceptance | None, space: str) -> str | None:
    """The user whom a record names; None for a record of another namespace."""
    return record.submitter if record is not None and record.namespace == space else None


def _unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The names of what appeared, changed or went."""
    return {name for name in {**before, **after} if before.get(name) != after.get(name)}
