"""Elements of arrays that wait for others to end, in the order in which they began to wait."""

from collections import defaultdict
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from t9ksched.scheduler.state.records import GangRecord

_STALE: Final = 100
"""So many more entries are kept than groups."""


class Rest(NamedTuple):
    """What is left of an array, of elements that say the same.

    Attributes:
        namespace, array: the names of the array.
        submitter: who submitted the elements; empty where that is not on record.
        most: how many may run at once.
    """

    namespace: str
    array: str
    submitter: str
    most: int


class _Line:
    """Groups in order; an entry whose group is gone, or came again, is dropped when it is met."""

    def __init__(self) -> None:
        self.since: dict[GangRecord, int] = {}
        self._entries: list[tuple[int, GangRecord]] = []

    def add(self, gang: GangRecord, since: int) -> None:
        self.since[gang] = since
        heappush(self._entries, (since, gang))
        if len(self._entries) > 2 * len(self.since) + _STALE:
            self._entries = [(number, one) for one, number in self.since.items()]
            heapify(self._entries)

    def take(self) -> GangRecord | None:
        """The first group, which is no longer in the line."""
        while self._entries:
            since, gang = heappop(self._entries)
            if self.since.get(gang) == since:
                del self.since[gang]
                return gang
        return None


class RefusedElements:
    """The groups of such elements, by array."""

    def __init__(self) -> None:
        self._lines: defaultdict[tuple[str, str], dict[Rest, _Line]] = defaultdict(dict)
        self._rests: dict[GangRecord, Rest] = {}

    def __contains__(self, gang: GangRecord) -> bool:
        return gang in self._rests

    def of(self, namespace: str, array: str) -> list[Rest]:
        """What is left of an array."""
        return list(self._lines.get((namespace, array), ()))

    def add(self, gang: GangRecord, rest: Rest, since: int) -> None:
        """The group is refused, and has waited since that number of the state."""
        known = self._rests.get(gang)
        if known == rest and self._lines[rest[:2]][rest].since[gang] == since:
            return
        self.discard(gang)
        self._rests[gang] = rest
        lines = self._lines[rest[:2]]
        lines.setdefault(rest, _Line()).add(gang, since)

    def discard(self, gang: GangRecord) -> None:
        """The group is not refused, or waits no more."""
        rest = self._rests.pop(gang, None)
        if rest is not None:
            del self._lines[rest[:2]][rest].since[gang]
            self._tidy(rest)

    def take(self, rest: Rest, most: int) -> list[GangRecord]:
        """So many of the groups, those that have waited for longest; they are no longer here."""
        found: list[GangRecord] = []
        line = self._lines[rest[:2]][rest]
        while len(found) < most and (gang := line.take()) is not None:
            del self._rests[gang]
            found.append(gang)
        self._tidy(rest)
        return found

    def _tidy(self, rest: Rest) -> None:
        lines = self._lines[rest[:2]]
        if not lines[rest].since:
            del lines[rest]
        if not lines:
            del self._lines[rest[:2]]
