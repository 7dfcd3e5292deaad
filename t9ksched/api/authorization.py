"""The access rules applied to a caller: which queues the caller may use, and which jobs the caller may see.

The rules themselves are pure (`t9ksched.admission.access`); this module gathers what they need to know.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from t9ksched.admission.access import Access, Members, may_use, parse_members
from t9ksched.admission.identity import NO_RIGHTS, Identity, Namespace, Place, Rights
from t9ksched.api.auth import Caller
from t9ksched.api.http.responses import Json
from t9ksched.api.services import Services
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.store.history import Visibility
from t9ksched.store.queues import QueueRecord

_parsed: dict[tuple[str, int], tuple[Queue, Members]] = {}
_MOST_PARSED = 20_000

NOWHERE = Place(Namespace(""))
"""No namespace in particular."""


def rules_of(record: QueueRecord) -> tuple[Queue, Members]:
    """The queue and its members as rules read them. A revision is parsed once: lists ask for thousands."""
    key = (record.uid, record.revision)
    if key not in _parsed:
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[key] = (
            Queue(record.name, parse_queue_spec(record.spec), record.labels, record.draining),
            parse_members(record.members),
        )
    return _parsed[key]


async def place_of(services: Services, caller: Caller, name: str | None) -> Place:
    """The place of that namespace; nowhere in particular without one."""
    if not name:
        return NOWHERE
    namespace = await services.namespaces.get(name)
    owner = namespace.owner
    return Place(namespace, caller.groups_of(owner) if owner else frozenset())


def may_caller_use(caller: Caller, record: QueueRecord, place: Place) -> Access:
    """Whether the caller may use the queue for a workload in that place."""
    return may_identity_use(record, place, caller.identity, caller.rights(record.name))


def usable(caller: Caller, places: Sequence[Place]) -> list[tuple[QueueRecord, Access]]:
    """The queues that the caller may use in any of these places, in order of names, each by its best grant."""
    found = []
    for name in _index(caller.decided.queues).candidates(caller, places):
        record = caller.decided.queues[name]
        allowed = [grant for place in places if (grant := may_caller_use(caller, record, place)).allowed]
        if allowed:
            found.append((record, max(allowed, key=lambda grant: grant.max_priority)))
    return found


class _Grants:
    """An index from users, groups and namespaces to the queues that name them, so that of thousands of queues only a
    few are judged for one caller.
    """

    def __init__(self, queues: Mapping[str, QueueRecord]) -> None:
        self.queues = queues
        self._to_all: set[str] = set()
        self._to: dict[str, set[str]] = {}
        for name, record in queues.items():
            queue, members = rules_of(record)
            if members.everyone or queue.spec.namespace_selector is not None:
                self._to_all.add(name)
            for key in (*(f"user:{user}" for user in members.users), *(f"group:{group}" for group in members.groups)):
                self._to.setdefault(key, set()).add(name)

    def candidates(self, caller: Caller, places: Sequence[Place]) -> list[str]:
        """The names of all queues that any rule could let the caller use, in order; perhaps more."""
        if caller.is_admin:
            return list(self.queues)
        keys = {f"user:{caller.user}", *(f"group:{group}" for group in caller.groups)}
        for place in places:
            if place.namespace.owner:
                keys |= {f"user:{place.namespace.owner}", *(f"group:{group}" for group in place.owner_groups)}
        found = self._to_all | (caller.ruled & self.queues.keys())
        return sorted(found.union(*(self._to.get(key, ()) for key in keys)))


_latest = _Grants({})


def _index(queues: Mapping[str, QueueRecord]) -> _Grants:
    """The index of these queues; made anew when one of them changed."""
    global _latest
    if _latest.queues is not queues:
        _latest = _Grants(queues)
    return _latest


def may_identity_use(record: QueueRecord, place: Place, who: Identity, rights: Rights = NO_RIGHTS) -> Access:
    """Whether that user may use the queue for a workload in that place."""
    queue, members = rules_of(record)
    return may_use(queue, members, who, place, rights)


class JobAccess(msgspec.Struct, frozen=True):
    """Which jobs of other users a caller may see: those in the caller's queues and namespaces."""

    caller: Caller
    namespaces: frozenset[str]

    @classmethod
    async def of(cls, services: Services, caller: Caller) -> "JobAccess":
        """The caller's."""
        if caller.is_admin:
            return cls(caller, frozenset())
        return cls(caller, await services.namespaces.owned_by(caller.user))

    def see(self, job: Json) -> bool:
        """Whether the caller may see that job by name."""
        return bool(self.those([job]))

    def those(self, jobs: Iterable[Json]) -> list[Json]:
        """The jobs that the caller may see by name."""
        caller, spaces = self.caller, self.namespaces
        user, ruled, limits = caller.user, caller.ruled, caller.limits
        if caller.is_admin:
            return list(jobs)
        return [
            job
            for job in jobs
            if (
                job.get("submitter") == user
                or job.get("queue") in ruled
                or job.get("namespace") in spaces
                or user in (job.get("formerSubmitters") or ())
            )
            and (not limits or not job.get("queue") or job["queue"] in limits)
        ]

    @property
    def visibility(self) -> Visibility | None:
        """The same for histories in SQL, None for a caller who sees all."""
        if self.caller.is_admin:
            return None
        return Visibility(self.caller.user, self.caller.ruled, self.namespaces, self.caller.limits)
