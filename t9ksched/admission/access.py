"""Access to queues: whether a workload may use a queue, up to which priority. REST and the last gate ask it.

Any one of these suffices: a role over the queue, the queue's namespaceSelector (unset or empty selects nothing), the
submitting user or one of the user's groups, the namespace's owner, or a queue open to everyone. If the submitter is
unknown (None), only grants count that do not depend on the user. What no rule grants is refused.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from t9ksched.admission.verdict import ALLOWED, Verdict, refuse
from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.names import PLATFORM_GROUP
from t9ksched.model.queue import MAX_PRIORITY, Queue

OWNER_ANNOTATION: Final = f"{PLATFORM_GROUP}/owner"
"""Annotation of a namespace: the user it belongs to. It admits that user: RBAC must bound who may write it."""

QUEUE_NOT_PERMITTED: Final = "QueueNotPermitted"
SUBMITTER_UNKNOWN: Final = "SubmitterUnknown"
PRIORITY_ABOVE_MAXIMUM: Final = "PriorityAboveMaximum"

EVERYONE: Final = "everyone"
NAMESPACE_SELECTOR: Final = "namespaceSelector"
ADMINISTRATOR: Final = "administrator"
MANAGER: Final = "manager"
ROLE_RULES: Final = frozenset({ADMINISTRATOR, MANAGER})
"""Rules by which a role, not a membership, permits; recorded at acceptance, so that the last gate knows them."""

_MAX_NAME: Final = 253
_MAX_MEMBERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Members:
    """Who may use a queue.

    Attributes:
        everyone: any user may use it.
        users, groups: names of those that may use it.
        max_priority: the highest priority a member may ask for, None for no limit.
        max_priorities: another maximum for one member, by `everyone`, `user:NAME` or `group:NAME`.
    """

    everyone: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    max_priority: int | None = None
    max_priorities: Mapping[str, int] = field(default_factory=dict)

    def maximum(self, key: str) -> int:
        """The highest priority of one grant."""
        limit = self.max_priorities.get(key, self.max_priority)
        return MAX_PRIORITY if limit is None else limit

    def to_dict(self) -> dict[str, Any]:
        """As JSON, members in order of names."""
        shape: dict[str, Any] = {
            "everyone": self.everyone,
            "users": sorted(self.users),
            "groups": sorted(self.groups),
            "maxPriority": self.max_priority,
        }
        if self.max_priorities:
            shape["maxPriorities"] = dict(sorted(self.max_priorities.items()))
        return shape


def parse_members(raw: object, path: str = "") -> Members:
    """Read and check members as users write them and SQL keeps them.

    Raises:
        Invalid: naming every faulty field below `path`.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be a mapping {everyone, users, groups, maxPriority}")
    fields = ("everyone", "users", "groups", "maxPriority", "maxPriorities")
    faults = [
        FieldError(child(path, str(key)), f"is unknown: the fields are {', '.join(fields)}")
        for key in raw
        if key not in fields
    ]
    everyone = raw.get("everyone") or False
    if not isinstance(everyone, bool):
        faults.append(FieldError(child(path, "everyone"), f"must be true or false, not {everyone!r}"))
    users, groups = (_names(raw.get(key), child(path, key), faults) for key in ("users", "groups"))
    max_priority = raw.get("maxPriority")
    if max_priority is not None:
        _priority(max_priority, child(path, "maxPriority"), faults)
    known = {EVERYONE, *(f"user:{name}" for name in users), *(f"group:{name}" for name in groups)}
    maxima = raw.get("maxPriorities")
    if maxima is None:
        maxima = {}
    if not isinstance(maxima, Mapping):
        faults.append(FieldError(child(path, "maxPriorities"), "must be a mapping such as {'user:ann': 50}"))
        maxima = {}
    for key, value in maxima.items():
        place = child(child(path, "maxPriorities"), str(key))
        _priority(value, place, faults)
        if key not in known:
            faults.append(FieldError(place, "is no member: write everyone, user:NAME or group:NAME of one"))
    if faults:
        raise Invalid(faults)
    return Members(bool(everyone), frozenset(users), frozenset(groups), max_priority, dict(maxima))


@dataclass(frozen=True, slots=True)
class Access(Verdict):
    """A verdict that also says by which rule, and up to which priority."""

    rule: str = ""
    max_priority: int = MAX_PRIORITY


def may_use(
    queue: Queue,
    members: Members,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    submitter: str | None,
    groups: Collection[str] = (),
    owner_groups: Collection[str] = (),
    role: str = "",
) -> Access:
    """Whether a workload in a namespace with these labels and annotations may use the queue.

    `submitter` is the user that REST authenticated, None if unknown; `groups` are the submitter's, `owner_groups` those
    of the namespace's owner. `role` is one of `ROLE_RULES` if the submitter has that role over the queue. Of several
    grants the one with the highest priority counts.
    """
    if role in ROLE_RULES:
        return Access(True, rule=role)
    owner = annotations.get(OWNER_ANNOTATION)
    selector = queue.spec.namespace_selector
    grants: list[tuple[str, str]] = []
    if submitter is not None:
        grants += _granted(members, submitter, groups, "")
    if members.everyone:
        grants.append((EVERYONE, EVERYONE))
    if owner:
        grants += _granted(members, owner, owner_groups, f"owner {owner}: ")
    if selector is not None and selector.requirements and selector.matches(labels):
        grants.append((NAMESPACE_SELECTOR, NAMESPACE_SELECTOR))
    if grants:
        rule, key = max(grants, key=lambda grant: members.maximum(grant[1]))
        return Access(True, rule=rule, max_priority=members.maximum(key))
    if submitter is None:
        return Access(
            False,
            SUBMITTER_UNKNOWN,
            f"its submitter is unknown, and its namespace alone may not use the queue {queue.name!r}",
            remedy="submit it by REST or `t9ksched submit`, or have its namespace selected by the queue",
        )
    return Access(
        False,
        QUEUE_NOT_PERMITTED,
        f"the user {submitter!r} may not use the queue {queue.name!r}: it is granted neither to that user, nor"
        " to a group of the user, nor to the namespace or its owner",
        remedy="use another queue (GET /apis/v1/queues lists yours), or ask an administrator to make you a member",
    )


def within_maximum(access: Access, priority: int, queue: str, path: str) -> Verdict:
    """Whether that priority may be asked for under `access`; the last gate clamps to `access.max_priority` instead."""
    if priority <= access.max_priority:
        return ALLOWED
    message = f"the priority {priority} is above {access.max_priority}, the highest you may ask for in queue {queue!r}"
    fault = FieldError(path, message)
    return refuse(PRIORITY_ABOVE_MAXIMUM, message, [fault], f"ask for {access.max_priority} or less")


def _granted(members: Members, user: str, groups: Collection[str], prefix: str) -> list[tuple[str, str]]:
    """`(rule, key of its maximum)` of every grant to a user or the user's groups."""
    keys = [f"user:{user}"] if user in members.users else []
    keys += [f"group:{group}" for group in sorted(members.groups.intersection(groups))]
    return [(f"{prefix}{key}", key) for key in keys]


def _names(raw: Any, path: str, faults: list[FieldError]) -> list[str]:
    if raw is None:
        return []
    if not isinstance(raw, list | tuple) or len(raw) > _MAX_MEMBERS:
        faults.append(FieldError(path, f"must be a list of at most {_MAX_MEMBERS} names"))
        return []
    names = []
    for index, name in enumerate(raw):
        if isinstance(name, str) and 0 < len(name) <= _MAX_NAME and name == name.strip() and name.isprintable():
            names.append(name)
        else:
            faults.append(FieldError(f"{path}[{index}]", f"{name!r} is no name: use 1 to {_MAX_NAME} characters"))
    return names


def _priority(value: Any, path: str, faults: list[FieldError]) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
        text = f"{value!r} is out of range: use a whole number from 0 to {MAX_PRIORITY}"
        faults.append(FieldError(path, text))
