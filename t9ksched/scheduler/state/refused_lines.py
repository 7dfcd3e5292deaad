"""Groups that are refused because others come before them, in the order in which they began to wait.

Of thousands each is refused once. Where room comes free, as many of the first ones are judged again.
"""

from collections import defaultdict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from t9ksched.scheduler.state.records import GangRecord

_STALE: Final = 100
"""So many more entries are kept than groups."""
Of = TypeVar("Of", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


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


class RefusedLines(Generic[Of, Key]):
    """Such groups, in a line for each key; keys are found by what they are `of`."""

    def __init__(self) -> None:
        self._lines: defaultdict[Of, dict[Key, _Line]] = defaultdict(dict)
        self._where: dict[GangRecord, tuple[Of, Key]] = {}

    def __contains__(self, gang: GangRecord) -> bool:
        return gang in self._where

    def __bool__(self) -> bool:
        return bool(self._where)

    def keys(self, of: Of) -> list[Key]:
        """The keys of its lines."""
        return list(self._lines.get(of, ()))

    def add(self, gang: GangRecord, of: Of, key: Key, since: int) -> None:
        """The group is refused, and has waited since that number of the state. If it was, it keeps its place."""
        known = self._where.get(gang)
        if known == (of, key) and self._lines[of][key].since[gang] == since:
            return
        self.discard(gang)
        self._where[gang] = of, key
        self._lines[of].setdefault(key, _Line()).add(gang, since)

    def discard(self, gang: GangRecord) -> None:
        """The group is not refused, or waits no more."""
        where = self._where.pop(gang, None)
        if where is not None:
            of, key = where
            del self._lines[of][key].since[gang]
            self._tidy(of, key)

    def take(self, of: Of, key: Key, most: int) -> list[GangRecord]:
        """So many of the groups, those that have waited for longest; they are no longer here."""
        found: list[GangRecord] = []
        line = self._lines[of][key]
        while len(found) < most and (gang := line.take()) is not None:
            del self._where[gang]
            found.append(gang)
        self._tidy(of, key)
        return found

    def all_of(self, of: Of, key: Key) -> list[GangRecord]:
        """The groups of a line, in no order; they stay."""
        return list(self._lines[of][key].since)

    def _tidy(self, of: Of, key: Key) -> None:
        lines = self._lines[of]
        if not lines[key].since:
            del lines[key]
        if not lines:
            del self._lines[of]
