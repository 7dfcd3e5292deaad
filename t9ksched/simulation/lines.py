"""The waiting jobs of a replay, and which of them the planner has to be asked about.

Jobs of one size are alike to the planner: where one finds no room, none after it does. So of each size only as many
are shown as the free cards would do for, and of a strict order only what comes before the first that they would not do
for. What is left out could not start; the plan is the same, and a moment costs what may start in it instead of what
waits.
"""

from bisect import insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from t9ksched.model.gang import Gang

Key = tuple[int, int, int, int]
"""Orders gangs as the planner does: by the policy's own rank, larger priority, age, and the order in the trace."""
Entry = tuple[Key, Gang]


class Lines:
    """Gangs by how many cards they need, best first. `strict`: none may pass one that finds no room."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._lines: dict[int, list[Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, gang: Gang, cards: int, key: Key) -> None:
        """The gang waits from now on; no two have the same key."""
        insort(self._lines.setdefault(cards, []), (key, gang), key=_first)

    def started(self, gang: Gang, cards: int) -> None:
        """The gang, the first of those that need so many cards, waits no longer."""
        line = self._lines[cards]
        assert line[0][1] is gang
        del line[0]
        if not line:
            del self._lines[cards]

    def candidates(self, free: int) -> tuple[Gang, ...]:
        """Every gang that could start while so many cards are free, best first."""
        return tuple(gang for _, gang in (self._before_the_first_that_waits(free) if self._strict else self._any(free)))

    def _any(self, free: int) -> Iterator[Entry]:
        fitting = ((line, free // cards) for cards, line in self._lines.items() if cards <= free)
        return merge(*(islice(line, most) for line, most in fitting), key=_first)

    def _before_the_first_that_waits(self, free: int) -> Iterator[Entry]:
        sized = (
            [(key, gang, cards) for key, gang in islice(line, free // cards + 1)] for cards, line in self._lines.items()
        )
        for key, gang, cards in merge(*sized, key=lambda entry: entry[0]):
            free -= cards
            if free < 0:
                return
            yield key, gang


def _first(entry: Entry) -> Key:
    return entry[0]
