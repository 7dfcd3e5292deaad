"""Asking the access rules for a caller: may he use a queue, what may he see.

The rules themselves are pure (`t9ksched.admission.access`); here is gathered what they need to know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.auth import Caller
from api.namespaces import Namespace
from api.services import Services
from t9ksched.admission.access import Access, may_use, parse_members
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.store.history import Sight
from t9ksched.store.queues import QueueRecord


def queue_of(record: QueueRecord) -> Queue:
    """The queue as rules read it."""
    return Queue(record.name, parse_queue_spec(record.spec), record.labels)


async def may_caller_use(services: Services, caller: Caller, record: QueueRecord, namespace: Namespace) -> Access:
    """Whether the caller may use the queue for a workload in the namespace."""
    found = await may_somebody_use(
        services, record, namespace, caller.user, caller.groups, role=caller.role_over(record.name)
    )
    if found.allowed and not caller.in_scope(record.name):
        text = f"the token {caller.token!r} is not good for the queue {record.name!r}"
        return Access(False, "QueueNotPermitted", text, remedy="use a token without this limit")
    return found


async def may_somebody_use(
    services: Services,
    record: QueueRecord,
    namespace: Namespace,
    user: str | None,
    groups: frozenset[str],
    *,
    role: str = "",
) -> Access:
    """Whether that user may use the queue for a workload in the namespace."""
    owner = namespace.owner
    return may_use(
        queue_of(record),
        parse_members(record.members),
        labels=namespace.labels,
        annotations=namespace.annotations,
        submitter=user,
        groups=groups,
        owner_groups=await services.store.tokens.groups_of(owner) if owner else (),
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
        return (
            self.caller.rules(job.get("queue"))
            or job.get("submitter") == self.caller.user
            or job.get("namespace") in self.namespaces
        )

    @property
    def sight(self) -> Sight | None:
        """The same for histories in SQL, None for whoever sees all."""
        if self.caller.is_admin:
            return None
        return Sight(self.caller.user, self.caller.ruled, self.namespaces)
