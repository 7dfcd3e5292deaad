"""Which jobs run at a moment, if what has the fewest card-seconds left goes first and preempting costs nothing.

Jobs are to end soon on average, so the set of jobs wanted is the one that fits with the largest sum of 1 / (time left):
for a card alone, that is the job with the fewest card-seconds left. Going down that order and passing what finds no
room (`in_order`) comes near to that set, but keeps out a large job where smaller ones leave it too few cards, which
then stay idle; `fullest` is that set exactly. It looks at one moment only, and what is left may fit together badly.
Therefore `chosen` plays both sets forward, without jobs to come, and takes the one with which the jobs end sooner on
average.
"""

import heapq
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple


class Part(NamedTuple):
    """A job that has not ended: its position in the trace, how many cards it needs, and how long it has still to run,
    in nanoseconds, more than 0.
    """

    at: int
    cards: int
    left: int


def chosen(parts: Sequence[Part], capacity: int) -> tuple[Part, ...]:
    """Which of these jobs run on so many cards; they are in the order of the card-seconds that they have left."""
    first = in_order(parts, capacity)
    other = fullest(parts, capacity)
    if {part.at for part in first} == {part.at for part in other}:
        return first
    return other if _waits(parts, other, capacity) < _waits(parts, first, capacity) else first


def in_order(parts: Sequence[Part], capacity: int) -> tuple[Part, ...]:
    """The jobs that find room, each after those before it."""
    found = []
    for part in parts:
        if part.cards <= capacity:
            found.append(part)
            capacity -= part.cards
            if not capacity:
                break
    return tuple(found)


class _Sum(NamedTuple):
    """A sum of 1 / (time left), and the jobs of it as a linked list."""

    value: float
    last: "tuple[Part, _Sum] | None"


def fullest(parts: Sequence[Part], capacity: int) -> tuple[Part, ...]:
    """The jobs that fit together and have the largest sum of 1 / (time left): the knapsack problem. `parts` is in the
    order of card-seconds left.

    A job is fixed inside or outside where Dantzig's bound (Operations Research 5, 1957) shows that the opposite cannot
    be better than going in order; dynamic programming has only the few that are left.
    """
    known = in_order(parts, capacity)
    room, bound, critical = capacity, 0.0, 0.0
    for part in parts:
        if part.cards > room:
            critical = _density(part)
            bound += critical * room
            break
        bound += 1 / part.left
        room -= part.cards
    else:
        return known
    gap = (bound - sum(1 / part.left for part in known)) * (1 + _ROUNDING) + bound * _ROUNDING
    fixed, core, before = [], [], True
    taken = 0
    for part in parts:
        taken += part.cards
        before = before and taken <= capacity
        if abs(_density(part) - critical) * part.cards <= gap:
            core.append(part)
        elif before:
            fixed.append(part)
    return (*fixed, *_best(core, capacity - sum(part.cards for part in fixed)))


_ROUNDING: Final = 1e-9
"""Sums of floating-point numbers are right to this part of them."""


def _density(part: Part) -> float:
    return 1 / (part.left * part.cards)


def _best(core: Sequence[Part], room: int) -> list[Part]:
    """By dynamic programming over the cards in use; of equal sums, the one found first."""
    sizes: dict[int, int] = {}
    sums = {0: _Sum(0.0, None)}
    for part in core:
        sizes[part.cards] = sizes.get(part.cards, 0) + 1
        if sizes[part.cards] * part.cards > room:
            continue  # as many that are as large go before it as there is room for
        more = {}
        for used, one in sums.items():
            value = one.value + 1 / part.left
            if used + part.cards <= room and ((known := sums.get(used + part.cards)) is None or value > known.value):
                more[used + part.cards] = _Sum(value, (part, one))
        sums.update(more)
    found = []
    one = max(sums.values(), key=lambda one: one.value)
    while one.last is not None:
        part, one = one.last
        found.append(part)
    return found


def _waits(parts: Sequence[Part], first: Collection[Part], capacity: int) -> int:
    """The sum of the times until each job ends, if these run at first and to their ends, and the others then start in
    order as cards come free, passing what finds no room.
    """
    running = [(part.left, part.cards) for part in first]
    heapq.heapify(running)
    free = capacity - sum(part.cards for part in first)
    chosen = {part.at for part in first}
    lines: dict[int, list[tuple[int, Part]]] = {}
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        if part.at not in chosen:
            lines.setdefault(part.cards, []).append((place, part))
    total = 0
    while running:
        now, cards = heapq.heappop(running)
        total += now
        free += cards
        if running and running[0][0] == now:
            continue
        while ready := [line[-1] for cards, line in lines.items() if cards <= free]:
            part = min(ready)[1]
            line = lines[part.cards]
            line.pop()
            if not line:
                del lines[part.cards]
            free -= part.cards
            heapq.heappush(running, (now + part.left, part.cards))
    return total
