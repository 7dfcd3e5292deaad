"""The waiting jobs of a replay, and which of them the planner has to be asked about.

Jobs of one size are alike to the planner: where one finds no room, none after it does. So of each size only as many
are shown as the free cards would do for, and of a strict order only what comes before the first that they would not do
for. What is left out could not start; the plan is the same, and a moment costs what may start in it instead of what
waits. Where starts are planned, jobs of one size differ by how long they last: beside a plan there may be room for a
shorter one only. A job is left out there if as many as the free cards would do for are before it and last no longer:
either one of these finds no room, and then neither does it, or they take all the cards.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Final, Literal

from t9ksched.model.gang import Gang

Key = tuple[int, int, int, int]
"""Orders gangs as the planner does: by the policy's own rank, larger priority, age, and the order in the trace."""
Entry = tuple[Key, Gang]


Shown = Literal["strict", "passing", "first", "all"]
"""Which waiting gangs the planner is shown: those before the first without room; all that may find room; these and the
first of all, which has a planned start; all, which have one each.
"""


class Lines:
    """Gangs by how many cards they need, best first."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lines: dict[int, list[Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, gang: Gang, cards: int, key: Key) -> None:
        """The gang waits from now on; no two have the same key."""
        insort(self._lines.setdefault(cards, []), (key, gang), key=_first)

    def started(self, gang: Gang, cards: int, key: Key) -> None:
        """The gang waits no longer; number of cards and key are those with which it was added."""
        line = self._lines[cards]
        at = bisect_left(line, key, key=_first)
        assert line[at][1] is gang
        del line[at]
        if not line:
            del self._lines[cards]

    def everything(self) -> Iterator[Entry]:
        """All gangs that wait, best first."""
        return merge(*self._lines.values(), key=_first)

    def candidates(self, free: int) -> tuple[Gang, ...]:
        """Every gang that could start while so many cards are free, or is to have a plan, best first."""
        if not self._lines:
            return ()
        match self._shown:
            case "strict":
                found = self._before_the_first_that_waits(free)
            case "passing":
                found = self._any(free)
            case "first":
                found = self._first_and_all_that_may_start(free)
            case "all":
                found = self.everything()
        return tuple(gang for _, gang in found)

    def _first_and_all_that_may_start(self, free: int) -> Iterator[Entry]:
        """All that may start, and the first that is left when those before it have started."""
        left = free
        waits: tuple[Entry, ...] = ()
        for entry, cards in self._in_order(free):
            left -= cards
            if left < 0:
                waits = (entry,)
                break
        fitting = (_shorter(line, free // cards) for cards, line in self._lines.items() if cards <= free)
        shown = merge(waits, *fitting, key=_first)
        before: Entry | None = None
        for entry in shown:
            if before is None or entry[1] is not before[1]:
                yield entry
            before = entry

    def _any(self, free: int) -> Iterator[Entry]:
        fitting = ((line, free // cards) for cards, line in self._lines.items() if cards <= free)
        return merge(*(islice(line, most) for line, most in fitting), key=_first)

    def _before_the_first_that_waits(self, free: int) -> Iterator[Entry]:
        for entry, cards in self._in_order(free):
            free -= cards
            if free < 0:
                return
            yield entry

    def _in_order(self, free: int) -> Iterator[tuple[Entry, int]]:
        """Gangs with their numbers of cards, best first, as many of each number as may matter."""
        sized = ([(entry, cards) for entry in islice(line, free // cards + 1)] for cards, line in self._lines.items())
        return merge(*sized, key=lambda pair: pair[0][0])


def _shorter(line: Iterable[Entry], most: int) -> Iterator[Entry]:
    """The gangs of a line that fewer than `most` before them last as long as, or shorter."""
    lasts: list[int] = []
    for entry in line:
        own = entry[1].lasts or _FOR_EVER
        if len(lasts) < most:
            insort(lasts, own)
        elif own < lasts[-1]:
            lasts.pop()
            insort(lasts, own)
        else:
            continue
        yield entry


_FOR_EVER: Final = 1 << 62


def _first(entry: Entry) -> Key:
    return entry[0]
