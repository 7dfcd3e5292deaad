"""What one caller sees of the events: those of the caller's jobs, queues and namespaces, of queues that the caller may
use, and of nodes. The same rule as for histories, on events in memory.
"""

from typing import Any

import msgspec

from t9ksched.api.auth import Caller
from t9ksched.api.authorization import NOWHERE, may_caller_use
from t9ksched.api.events.known import NODES, QUEUES, Known
from t9ksched.api.http.responses import at
from t9ksched.api.redaction import name_others
from t9ksched.store.history import Visibility

Json = dict[str, Any]


class EventSight(msgspec.Struct, frozen=True):
    """What a caller who owns these namespaces sees."""

    caller: Caller
    namespaces: frozenset[str] = frozenset()

    @property
    def visibility(self) -> Visibility | None:
        """The same for a question in SQL, which lets through more, with `PUBLIC`; None for one who sees all."""
        caller = self.caller
        return None if caller.is_admin else Visibility(caller.user, caller.ruled, self.namespaces, caller.limits)

    def sees(self, known: Known) -> bool:
        """Whether the caller sees it at all."""
        return self._whole(known) or self._in_public(known)

    def _whole(self, known: Known) -> bool:
        caller, event = self.caller, known.event
        if caller.is_admin:
            return True
        seen = (
            event.actor == caller.user
            or caller.user in known.owners
            or event.queue in caller.ruled
            or (event.namespace is not None and event.namespace in self.namespaces)
        )
        return seen and (not caller.limits or event.queue is None or event.queue in caller.limits)

    def _in_public(self, known: Known) -> bool:
        event = known.event
        if event.event in NODES:
            return True
        if event.event not in QUEUES or event.queue is None:
            return False
        record = self.caller.decided.queues.get(event.queue)
        return record is not None and may_caller_use(self.caller, record, NOWHERE).allowed

    def shown(self, known: Known) -> Json:
        """The event as the caller sees it."""
        event, whole = known.event, self._whole(known)
        detail = event.detail
        if not whole:
            detail = {key: detail[key] for key in ("node", "card") if key in detail}
        elif name_others(detail) and not self._names(detail):
            detail = detail | {"by": None}
        return {
            "id": event.id,
            "type": event.event,
            "about": known.about,
            "kind": known.kind,
            "namespace": event.namespace,
            "name": known.name,
            "uid": event.uid,
            "queue": event.queue,
            "actor": event.actor if whole else None,
            "at": at(event.at),
            "detail": detail,
        }

    def _names(self, detail: Json) -> bool:
        """Whether the caller may see the name of the job that got the room."""
        space = str(detail.get("by")).partition("/")[0]
        return self.caller.rules(detail.get("byQueue")) or space in self.namespaces
