"""Events as they are kept for all who listen: what each is about, and who submitted the job."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from t9ksched.store import history
from t9ksched.store.history import Event

About = Literal["job", "queue", "node", "reservation", "token", "service"]
QUEUES: Final = frozenset(
    {history.QUEUE_CREATED, history.QUEUE_CHANGED, history.QUEUE_DELETED, history.MEMBERS_CHANGED}
)
NODES: Final = frozenset({history.CARD_CORDONED, history.CARD_UNCORDONED, *history.NODE_EVENTS})
_TOKENS: Final = frozenset({history.TOKEN_CREATED, history.TOKEN_REVOKED})
_RESERVATIONS: Final = frozenset(
    {
        history.RESERVATION_CREATED,
        history.RESERVATION_CHANGED,
        history.RESERVATION_DELETED,
        history.RESERVATION_NODES_REPLACED,
        *history.OUTCOMES,
    }
)
_NOTIFICATIONS: Final = frozenset({history.NOTIFICATION_ADDED, history.NOTIFICATION_DELETED})
_SERVICE: Final = frozenset({history.STOPPED, history.RESUMED, history.CLOCK_SET})
PUBLIC: Final = frozenset({*QUEUES, *NODES})
"""Events that others may see too, without who did it and with what."""
_ABOUT: Final[Mapping[str, tuple[About, str]]] = {
    **dict.fromkeys(QUEUES, ("queue", "Queue")),
    **dict.fromkeys(NODES, ("node", "Node")),
    **dict.fromkeys(_TOKENS, ("token", "Token")),
    **dict.fromkeys(_RESERVATIONS, ("reservation", "Reservation")),
    **dict.fromkeys(_NOTIFICATIONS, ("service", "Notification")),
    **dict.fromkeys(_SERVICE, ("service", "Scheduler")),
}


class Known(msgspec.Struct, frozen=True):
    """An event, and who submitted the job that it is about."""

    event: Event
    owners: frozenset[str] = frozenset()

    @property
    def about(self) -> About:
        """What kind of thing it is about."""
        return _ABOUT.get(self.event.event, ("job", ""))[0]

    @property
    def kind(self) -> str | None:
        """The kind of the object."""
        return self.event.kind or _ABOUT.get(self.event.event, ("job", None))[1]

    @property
    def name(self) -> str | None:
        """Its name."""
        return self.event.queue if self.about == "queue" else self.event.name


class Wanted(msgspec.Struct, frozen=True):
    """Which events a client asks for; an empty filter lets all through."""

    about: Sequence[str] = ()
    types: Sequence[str] = ()
    kinds: Sequence[str] = ()
    queues: Sequence[str] = ()
    users: Sequence[str] = ()
    namespace: str | None = None
    name: str | None = None

    def passes(self, known: Known) -> bool:
        """Whether it asks for that event."""
        event = known.event
        pairs = (
            (self.about, known.about),
            (self.types, event.event),
            (self.kinds, known.kind),
            (self.queues, event.queue),
        )
        if any(values and value not in values for values, value in pairs):
            return False
        if self.users and not known.owners.intersection(self.users):
            return False
        if self.namespace not in (None, event.namespace):
            return False
        return self.name in (None, known.name)
