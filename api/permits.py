"""Asking the access rules for a caller: may he use a queue, what may he see.

The rules themselves are pure (`t9ksched.admission.access`); here is gathered what they need to know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.auth import Caller
from api.namespaces import Namespace
from api.services import Services
from t9ksched.admission.access import QUEUE_NOT_PERMITTED, Access, Members, may_use, parse_members
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.store.history import Sight
from t9ksched.store.queues import QueueRecord

_parsed: dict[tuple[str, int], tuple[Queue, Members]] = {}
_MOST_PARSED = 20_000


def rules_of(record: QueueRecord) -> tuple[Queue, Members]:
    """The queue and its members as rules read them. A revision is parsed once: lists ask for thousands."""
    key = (record.uid, record.revision)
    if key not in _parsed:
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[key] = (
            Queue(record.name, parse_queue_spec(record.spec), record.labels),
            parse_members(record.members),
        )
    return _parsed[key]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workload would be: a namespace, and the groups of its owner."""

    namespace: Namespace
    owner_groups: frozenset[str] = frozenset()

    @classmethod
    async def of(cls, services: Services, name: str | None) -> "Place":
        """The place of that name; nowhere in particular without one."""
        if not name:
            return cls(Namespace(""))
        namespace = await services.namespaces.get(name)
        owner = namespace.owner
        return cls(namespace, await services.store.tokens.groups_of(owner) if owner else frozenset())


def may_caller_use(caller: Caller, record: QueueRecord, place: Place) -> Access:
    """Whether the caller may use the queue for a workload in that place."""
    found = may_somebody_use(record, place, caller.user, caller.groups, role=caller.role_over(record.name))
    if found.allowed and not caller.in_scope(record.name):
        text = f"the token {caller.token!r} is not good for the queue {record.name!r}"
        return Access(False, QUEUE_NOT_PERMITTED, text, remedy="use a token without this limit")
    return found


def may_somebody_use(
    record: QueueRecord, place: Place, user: str | None, groups: frozenset[str], *, role: str = ""
) -> Access:
    """Whether that user may use the queue for a workload in that place."""
    queue, members = rules_of(record)
    return may_use(
        queue,
        members,
        labels=place.namespace.labels,
        annotations=place.namespace.annotations,
        submitter=user,
        groups=groups,
        owner_groups=place.owner_groups,
        role=role,
    )


@dataclass(frozen=True)
class Eyes:
    """What one caller may see of other people's jobs: nothing but what lies in queues and namespaces that are his."""

    caller: Caller
    namespaces: frozenset[str]

    @classmethod
    async def of(cls, services: Services, caller: Caller) -> "Eyes":
        """The caller's."""
        if caller.is_admin:
            return cls(caller, frozenset())
        return cls(caller, await services.namespaces.owned_by(caller.user))

    def see(self, job: Mapping[str, Any]) -> bool:
        """Whether he may see that job by name."""
        queue = job.get("queue")
        if queue and not self.caller.in_scope(queue):
            return False
        return (
            self.caller.rules(queue)
            or job.get("submitter") == self.caller.user
            or job.get("namespace") in self.namespaces
        )

    @property
    def sight(self) -> Sight | None:
        """The same for histories in SQL, None for whoever sees all."""
        if self.caller.is_admin:
            return None
        return Sight(self.caller.user, self.caller.ruled, self.namespaces, self.caller.limits)
