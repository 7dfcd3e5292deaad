"""Access to queues: whether a workload may use a queue, up to which priority. REST and the last gate ask it.

Any one of these suffices: a role over the queue, the queue's namespaceSelector (unset or empty selects nothing), the
submitting user or one of the user's groups, the namespace's owner, or a queue open to everyone. If the submitter is
unknown, only grants count that do not depend on the user. What no rule grants is refused.

Access depends on the queue, the submitter and the namespace alone, not on the workload: REST and the last gate both
cache it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from t9ksched.admission.identity import NO_RIGHTS, ROLE_RULES, Identity, Place, Rights
from t9ksched.admission.verdict import QUEUE_NOT_PERMITTED, SUBMITTER_UNKNOWN, Verdict
from t9ksched.model.errors import FieldError, Invalid, child, shown
from t9ksched.model.queue import MAX_PRIORITY, Queue

EVERYONE: Final = "everyone"
NAMESPACE_SELECTOR: Final = "namespaceSelector"

_MAX_NAME: Final = 253
_MAX_MEMBERS: Final = 10_000


class Members(msgspec.Struct, frozen=True):
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
    max_priorities: Mapping[str, int] = msgspec.field(default_factory=dict)

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
        faults.append(FieldError(child(path, "everyone"), f"must be true or false, not {shown(everyone)}"))
    users, groups = (_names(raw.get(key), child(path, key), faults) for key in ("users", "groups"))
    max_priority = raw.get("maxPriority")
    if max_priority is not None:
        _priority(max_priority, child(path, "maxPriority"), faults)
    known = {EVERYONE, *(f"user:{name}" for name in users), *(f"group:{name}" for name in groups)}
    maxima = raw.get("maxPriorities")
    if maxima is None:
        maxima = {}
    if not isinstance(maxima, Mapping):
        faults.append(FieldError(child(path, "maxPriorities"), 'must be a mapping such as {"user:ann": 50}'))
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

    def reduced(self, priority: int) -> int:
        """The priority that counts of an object that is there already: as asked for, at most the maximum.

        REST refuses what is above (`rules.priority_permitted`); the scheduler reduces it.
        """
        return priority if priority < self.max_priority else self.max_priority


def may_use(queue: Queue, members: Members, submitter: Identity, place: Place, rights: Rights = NO_RIGHTS) -> Access:
    """Whether the submitter may use the queue for a workload in that place.

    Of several grants the one with the highest priority counts. Credentials that are not good for the queue permit
    nothing in it.
    """
    found = _granted_access(queue, members, submitter, place, rights.role)
    if found.allowed and rights.queues and queue.name not in rights.queues:
        text = f"the token {rights.credential!r} is not good for the queue {queue.name!r}"
        return Access(False, QUEUE_NOT_PERMITTED, text, remedy="use a token without this limit")
    return found


def _granted_access(queue: Queue, members: Members, submitter: Identity, place: Place, role: str) -> Access:
    if role in ROLE_RULES:
        return Access(True, rule=role)
    owner, selector = place.namespace.owner, queue.spec.namespace_selector
    grants: list[tuple[str, str]] = []
    if submitter.user is not None:
        grants += _granted(members, submitter.user, submitter.groups, "")
    if members.everyone:
        grants.append((EVERYONE, EVERYONE))
    if owner:
        grants += _granted(members, owner, place.owner_groups, f"owner {owner}: ")
    if selector is not None and selector.requirements and selector.matches(place.namespace.labels):
        grants.append((NAMESPACE_SELECTOR, NAMESPACE_SELECTOR))
    if grants:
        rule, key = max(grants, key=lambda grant: members.maximum(grant[1]))
        return Access(True, rule=rule, max_priority=members.maximum(key))
    if submitter.user is None:
        return Access(
            False,
            SUBMITTER_UNKNOWN,
            f"its submitter is unknown, and its namespace alone may not use the queue {queue.name!r}",
            remedy="submit it by REST or `t9ksched submit`, or have its namespace selected by the queue",
        )
    return Access(
        False,
        QUEUE_NOT_PERMITTED,
        f"the user {submitter.user!r} may not use the queue {queue.name!r}: it is granted neither to that user, nor"
        " to a group of the user, nor to the namespace or its owner",
        remedy="use another queue (GET /apis/v1/queues lists yours), or ask an administrator to make you a member",
    )


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
            faults.append(FieldError(f"{path}[{index}]", f"{shown(name)} is no name: use 1 to {_MAX_NAME} characters"))
    return names


def _priority(value: Any, path: str, faults: list[FieldError]) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
        text = f"{shown(value)} is out of range: use a whole number from 0 to {MAX_PRIORITY}"
        faults.append(FieldError(path, text))
