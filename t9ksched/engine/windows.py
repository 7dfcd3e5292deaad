"""Start windows in one cycle: which queues start nothing now, and when they do.

A queue without windows is always open and costs nothing here.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.openings import openings
from t9ksched.engine.steps import Steps
from t9ksched.engine.view import QueueState
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason
from t9ksched.model.start_windows import StartWindow, inside, next_begin, spans

_FARTHEST: Final = 400 * 86_400 * 1_000_000_000
"""Nanoseconds: windows are looked at no farther ahead, whatever the horizon of planning is."""


class Windows:
    """The start windows of the queues of a view. `now` is in nanoseconds since the epoch.

    Attributes:
        any: whether a queue has some.
    """

    def __init__(self, queues: Mapping[str, QueueState], now: int) -> None:
        self._now = now
        self._of = {name: windows for name, state in queues.items() if (windows := state.spec.start_windows)}
        self.any = bool(self._of)
        self._shut: dict[str, Reason | None] = {}
        """Why each queue that was asked for starts nothing now, None for one that does."""
        self._known: dict[str, tuple[int, Int64s, Mask]] = {}

    def closed(self, queue: str) -> bool:
        """Whether the queue has some, and is inside none of them now."""
        windows = self._of.get(queue)
        return windows is not None and not inside(windows, self._now)

    def _heeded(self, gang: Gang) -> tuple[StartWindow, ...] | None:
        return None if gang.placed or gang.refilling else self._of.get(gang.queue)

    def shut(self, gang: Gang) -> Reason | None:
        """Why the gang may not start now; None when it may. One that has places, or lost some, has started."""
        windows = self._heeded(gang)
        if windows is None:
            return None
        queue = gang.queue
        if queue not in self._shut:
            closed = self.closed(queue)
            self._shut[queue] = explain.outside_window(queue, next_begin(windows, self._now)) if closed else None
        return self._shut[queue]

    def next_begin(self, gang: Gang) -> int | None:
        """When the next window begins in which the gang may start; None where none does, or where it needs none."""
        windows = self._heeded(gang)
        return None if windows is None else next_begin(windows, self._now)

    def allow(self, gang: Gang, at: int) -> bool:
        """Whether the gang may start at that moment."""
        windows = self._heeded(gang)
        return windows is None or inside(windows, at)

    def openings(
        self, gang: Gang, conditions: Sequence[tuple[Int64s, Mask]], lasts: int | Steps, latest: int
    ) -> Int64s:
        """As `openings.openings`, at moments at which the gang may start; windows count until `latest`."""
        steps = self._steps(gang, latest)
        if steps is None:
            return openings(conditions, lasts)
        # A gang that fits before its window begins does so at that moment too, or not in that window.
        at, allowed = steps
        found = openings([*conditions, (at, np.ones(len(at), np.bool_))], lasts)
        chosen: Int64s = found[allowed[np.searchsorted(at, found, side="right") - 1]]
        return chosen

    def _steps(self, gang: Gang, until: int) -> tuple[Int64s, Mask] | None:
        """Moments from now to `until`, sorted, and whether the gang may start from each of them on; None if it always
        may.
        """
        windows, queue = self._heeded(gang), gang.queue
        if windows is None:
            return None
        known = self._known.get(queue)
        if known is None or known[0] != until:
            found = np.array(spans(windows, self._now, min(until, self._now + _FARTHEST)), np.int64).reshape(-1)
            at = np.maximum(np.append(self._now, found), self._now)
            open_from = np.append(False, np.arange(len(found)) % 2 == 0)
            known = self._known[queue] = (until, at, open_from)
        return known[1:]
