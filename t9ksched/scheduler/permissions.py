"""The last gate: whether what waits may use the queue it waits in, whoever created it and by whatever way.

The rule is the door's own (`t9ksched.admission.access`). Who submitted a group is what was recorded by the UID of the
object that owns it, or by its own; a label proves nothing. Of whom nobody knows only what holds without a name counts:
the namespace, its owner, a queue open to everyone. What runs is never judged again.
"""

from collections.abc import Mapping
from typing import Final

from t9ksched.admission.access import OWNER_ANNOTATION, ROLE_RULES, SUBMITTER_UNKNOWN, Access, Members, may_use
from t9ksched.model.podrules import namespace_labels
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.namespaces import Namespaces
from t9ksched.scheduler.records import GangRecord, PodRecord
from t9ksched.store.acceptances import Acceptance

NAMING_NS: Final = 3_000_000_000
"""How long a group is nobody's before that is said: the service that created it may still be recording whose it is."""
_MOST_KEPT: Final = 50_000
_NOBODY: Final = Members()

_Key = tuple[str, str, str | None, tuple[str, ...], str]


class Permissions:
    """Members of queues, groups of users, namespaces and acceptances, asked together.

    `version` grows with every change that may turn a verdict.
    """

    def __init__(self, namespaces: Namespaces, acceptances: Mapping[str, Acceptance]) -> None:
        self._namespaces = namespaces
        self._acceptances = acceptances
        self._members: dict[str, Members] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._known: dict[_Key, Access] = {}
        self.version = 1

    def set_members(self, members: dict[str, Members]) -> bool:
        """Who may use which queue, all of it; whether that is new."""
        if members == self._members:
            return False
        self._members = members
        self.changed()
        return True

    def set_groups(self, groups: dict[str, frozenset[str]]) -> bool:
        """The groups of every user that has any; whether that is new."""
        if groups == self._groups:
            return False
        self._groups = groups
        self.changed()
        return True

    def changed(self) -> None:
        """Something that verdicts rest on changed: a queue, a namespace."""
        self.version += 1
        self._known.clear()

    def access(self, gang: GangRecord, queue: Queue) -> Access:
        """Whether the group may use the queue, by which rule and up to which priority."""
        root = self._acceptances.get(gang.owner.uid) if gang.owner else None
        return self._ask(queue, gang.namespace, root or self._acceptances.get(gang.uid))

    def refusal(self, gang: GangRecord, queue: Queue) -> Reason | None:
        """Why the group may not start in the queue; None when it may. Members that may not join it are marked."""
        if gang.judged == self.version and not gang.stale and not gang.strangers and gang.unpermitted is None:
            return None
        gang.judged, gang.unpermitted = self.version, None
        if gang.acceptance is None or not (gang.ran or gang.placed_count()):
            gang.unpermitted = _reason(self.access(gang, queue))
        if not gang.virtual:
            gang.strangers = self._mark_strangers(gang, queue)
        return gang.unpermitted

    def _mark_strangers(self, gang: GangRecord, queue: Queue) -> bool:
        """Pods that did not come with their group must be permitted themselves (OQ-45); whether there are such."""
        owner = gang.owner.uid if gang.owner else None
        found = False
        for pod in gang.members.values():
            if not pod.waiting:
                continue
            own = pod.owner is not None and pod.owner.uid == owner
            reason = None if own else _reason(self._ask(queue, pod.namespace, self._root(pod)))
            marked = () if reason is None else (reason,)
            if pod.unpermitted != marked:
                pod.unpermitted, gang.stale = marked, True
            found = found or reason is not None
        return found

    def _root(self, pod: PodRecord) -> Acceptance | None:
        root = self._acceptances.get(pod.owner.uid) if pod.owner else None
        return root or self._acceptances.get(pod.uid)

    def _ask(self, queue: Queue, space: str, root: Acceptance | None) -> Access:
        if root is not None and root.namespace != space:
            root = None  # whoever names an owner elsewhere has none
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
            namespace = self._namespaces.get(space)
            annotations = namespace.annotations if namespace else {}
            known = self._known[key] = may_use(
                queue,
                self._members.get(queue.name, _NOBODY),
                labels=namespace_labels(space, self._namespaces.labels),
                annotations=annotations,
                submitter=submitter,
                groups=groups,
                owner_groups=self._groups.get(annotations.get(OWNER_ANNOTATION, ""), ()),
                role=role,
            )
        return known


def _reason(access: Access) -> Reason | None:
    if access.allowed:
        return None
    code = Code.SUBMITTER_UNKNOWN if access.code == SUBMITTER_UNKNOWN else Code.NOT_PERMITTED
    return Reason(code, access.message, unblocks=(access.remedy,) if access.remedy else ())
