"""Single pods between their acceptance and their binding: what is told of them meanwhile is kept back for a moment.

Most are bound within seconds. Then that they were accepted, admitted and bound goes into one transaction, where it is
one row of history (`store/history_rows.py`), and the pages of indexes are changed once, not three times. Anything else
that is told of such a pod, and time, ends the wait.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

import msgspec

from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import ADMITTED, Event

KEPT_SECONDS: Final = 5.0
"""How long at most: a burst of some thousands is bound within that."""


class Beginning(msgspec.Struct, frozen=True, gc=False):
    """What is to be written of one pod, its events in their order; it was accepted at that time of the event loop."""

    at: float
    acceptance: Acceptance
    events: list[Event]


class Beginnings:
    """Those that are kept back, the first of them first."""

    def __init__(self) -> None:
        self._kept: dict[str, Beginning] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, now: float, acceptance: Acceptance, accepted: Event) -> Beginning | None:
        """Keep back that a pod was accepted; what was kept of it before, if it was accepted twice."""
        earlier = self._kept.pop(acceptance.uid, None)
        self._kept[acceptance.uid] = Beginning(now, acceptance, [accepted])
        return earlier

    def takes(self, event: Event) -> bool:
        """Whether the event is kept back, too: a pod of which its beginning is was admitted."""
        kept = self._kept.get(event.uid) if event.event == ADMITTED and event.uid is not None else None
        if kept is not None:
            kept.events.append(event)
        return kept is not None

    def release(self, uid: str | None) -> Beginning | None:
        """What was kept back of this pod, which is to be written now."""
        return self._kept.pop(uid, None) if uid is not None else None

    def release_until(self, latest: float) -> Iterator[Beginning]:
        """The same of all that were accepted until then."""
        over = list(takewhile(lambda uid: self._kept[uid].at <= latest, self._kept))
        for uid in over:  # taking the first away one by one looks at all places that are free by then
            yield self._kept.pop(uid)
