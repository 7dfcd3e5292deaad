"""Victims for pods of one class where units have companions elsewhere: one node after the other, each time the one that
costs least by then.

What opens room for more pods on a node is an *option*: the units that have to go there, in their order; behind it is
the next option of that node. A unit is in the options of all its nodes, so each that goes makes others cheaper. Of
options that cost the same the first few are looked at more closely: that goes which leaves the cheapest one behind.
Where there is time, the search is begun anew from each of the cheapest options, and the cheapest result counts.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Field, Wanted
from t9ksched.engine.victims.victim_costs import Ordered
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.work import Meter, Work

_TIES: Final = 8
"""So many of the options that cost the same are looked at more closely."""
_RUNS: Final = 10
"""The search is begun at most so many times."""
_MOST: Final = 60_000
"""Units in options looked at in all searches for one gang, about."""
_EACH: Final = 15
"""Units of work that each of these costs."""
_SOME: Final = 2_000
"""After so many of these others may have their turn."""


def one_by_one(
    field: Field,
    wanted: Wanted,
    contest: Contest,
    allowed: Mask,
    must: Mask,
    free: Int64s,
    order: Ordered,
    meter: Meter,
) -> Work[Mask]:
    """The units that go so that all pods fit, `must` among them. They do if all that are allowed go.

    `free` is what there is without `must`; `order` has the candidates on each node as they would go there.
    """
    options = _Options(field, wanted, contest, allowed, must, free, order)
    meter.spent += _EACH * (len(order.unit) + options.size)
    yield
    looks, runs = options.effort()
    best: tuple[int, set[int]] | None = None
    for nth in range(runs):
        # The last time without: which of those that cost the same is better is a guess.
        found = yield from options.run(nth, meter, looks=looks, by_age=nth < max(runs - 1, 1))
        if best is None or found[0] < best[0]:
            best = found
    units = must.copy()
    if best is not None:
        units[list(best[1])] = True
    return units


class _Options:
    """The options of all nodes, the cheapest one first.

    Attributes:
        units: of each.
        size: units in all of them together.
    """

    def __init__(
        self,
        field: Field,
        wanted: Wanted,
        contest: Contest,
        allowed: Mask,
        must: Mask,
        free: Int64s,
        order: Ordered,
    ) -> None:
        rooms = np.minimum(wanted.rooms(free), wanted.pods)
        self._missing = wanted.pods - int(rooms.sum())
        after = np.full(len(order.unit), wanted.pods, np.int64)
        for (at, amount), freed in zip(wanted.needs, order.freed, strict=True):
            np.minimum(after, np.maximum(free[at][order.row] + order.running_sum(freed), 0) // amount, out=after)
        before = np.append(0, after[:-1])
        before[order.starts] = rooms[order.row[order.starts]]
        more = (after - before) * wanted.open_to()[order.row]
        weights = _weights(contest, allowed, must)
        old = (-contest.youth).tolist()
        found: list[tuple[int, int, int, list[int], int, bool]] = []
        here: dict[int, None] = {}
        last = -1
        for unit, row, rise in zip(order.unit.tolist(), order.row.tolist(), more.tolist(), strict=True):
            first = row != last
            if first:
                here, last, behind = {}, row, False
            here.update(dict.fromkeys(_with_those_before(field.table, unit, allowed)))
            if rise > 0:
                those = list(here)
                cost = sum(map(weights.__getitem__, those))
                found.append((cost, max(map(old.__getitem__, those)), len(found), those, rise, behind))
                here, behind = {}, True
        self._weights = weights
        self._rises = [one[4] for one in found]
        self._next = [at + 1 if at + 1 < len(found) and found[at + 1][5] else -1 for at in range(len(found))]
        self.units = [one[3] for one in found]
        self.size = sum(map(len, self.units))
        self._costs = [one[0] for one in found]
        self._ages = [one[1] for one in found]
        self._first = sorted(one[:3] for one in found if not one[5])
        self._of: dict[int, list[int]] = {}
        for at, those in enumerate(self.units):
            for unit in those:
                self._of.setdefault(unit, []).append(at)

    def effort(self) -> tuple[bool, int]:
        """Whether options that cost the same are looked at more closely, and how often the search is begun."""
        steps = min(max(self._missing, 0), len(self._of))
        closely = self.size + steps * _TIES * self.size * self.size // max(len(self.units) * len(self._of), 1)
        looks = closely <= _MOST
        each = closely if looks else 2 * self.size
        return looks, max(1, min(_RUNS, len(self._first), _MOST // max(each, 1)))

    def run(self, nth: int, meter: Meter, *, looks: bool, by_age: bool) -> Work[tuple[int, set[int]]]:
        """What goes, with its weight; from the second search on the `nth` of the first options goes first."""
        costs, open_now = self._costs.copy(), [False] * len(self.units)
        ages = self._ages if by_age else [0] * len(costs)
        heap = self._first.copy() if by_age else sorted((cost, 0, at) for cost, _, at in self._first)
        nth, looks = (nth, looks) if by_age else (0, False)
        for _, _, at in heap:
            open_now[at] = True
        missing, gone, opened, weight, seen = self._missing, set[int](), set[int](), 0, 0
        chosen = self._first[nth][2] if nth else None
        while missing > 0:
            if chosen is None:
                ties = self._cheapest(heap, costs, open_now, _TIES if looks else 1)
                chosen, looked = self._choose(ties, costs, open_now, gone)
                seen += looked
                for at in ties:
                    if at != chosen:
                        heappush(heap, (costs[at], ages[at], at))
            weight += costs[chosen]
            free = [chosen]
            for unit in self.units[chosen]:
                if unit not in gone:
                    gone.add(unit)
                    less = self._weights[unit]
                    for at in self._of[unit]:
                        costs[at] -= less
                        if open_now[at] and at != chosen:
                            if costs[at]:
                                heappush(heap, (costs[at], ages[at], at))
                            else:
                                free.append(at)
                    seen += len(self._of[unit])
            while free:
                at = free.pop()
                open_now[at] = False
                opened.add(at)
                missing -= self._rises[at]
                if (behind := self._next[at]) >= 0:
                    open_now[behind] = True
                    if costs[behind]:
                        heappush(heap, (costs[behind], ages[behind], behind))
                    else:
                        free.append(behind)
            chosen = None
            if seen > _SOME:
                meter.spent += _EACH * seen
                seen = 0
                yield
        meter.spent += _EACH * seen
        yield
        return weight - (yield from self._spare(gone, opened, -missing, meter)), gone

    def _spare(self, gone: set[int], opened: set[int], more: int, meter: Meter) -> Work[int]:
        """Units stay that are not needed, as `more` pods than wanted would have room; the weight of these."""
        spared = 0
        while gone and (more or spared):
            losses = {unit: self._lost(unit, opened) for unit in gone}
            unit = min(losses, key=lambda one: (losses[one], -self._weights[one], one))
            if losses[unit] > more:
                break
            more -= losses[unit]
            opened -= {behind for at in self._of[unit] for behind in self._from(at)}
            gone.discard(unit)
            spared += self._weights[unit]
            meter.spent += _EACH * self.size
            yield
        return spared

    def _lost(self, unit: int, opened: set[int]) -> int:
        """Room for how many pods is lost when the unit stays."""
        closed = {behind for at in self._of[unit] for behind in self._from(at)}
        return sum(self._rises[at] for at in closed & opened)

    def _from(self, at: int) -> Iterator[int]:
        """An option and those behind it."""
        while at >= 0:
            yield at
            at = self._next[at]

    def _cheapest(
        self, heap: list[tuple[int, int, int]], costs: Sequence[int], open_now: Sequence[bool], most: int
    ) -> list[int]:
        """Of the options that cost least now the first ones, taken off the heap."""
        found: list[int] = []
        least = 0
        while heap and len(found) < most:
            cost, _, at = heap[0]
            if open_now[at] and cost == costs[at] and at not in found:
                if found and cost > least:
                    break
                least = cost
                found.append(at)
            heappop(heap)
        return found

    def _choose(
        self, ties: Sequence[int], costs: Sequence[int], open_now: Sequence[bool], gone: set[int]
    ) -> tuple[int, int]:
        """The option that leaves the cheapest one behind, and how much was looked at."""
        if len(ties) == 1:
            return ties[0], 1
        best, least, seen = ties[0], -1, 0
        for option in ties:
            less: dict[int, int] = {}
            for unit in self.units[option]:
                if unit not in gone:
                    for at in self._of[unit]:
                        less[at] = less.get(at, 0) + self._weights[unit]
                    seen += len(self._of[unit])
            left = min((costs[at] - cut for at, cut in less.items() if at != option and open_now[at]), default=-1)
            if left >= 0 and (least < 0 or left < least):
                best, least = option, left
        return best, seen


def _weights(contest: Contest, allowed: Mask, must: Mask) -> dict[int, int]:
    """What each unit costs: its pods, and of better protected ones each more than all pods that are protected less."""
    units = np.flatnonzero(allowed)
    sizes = contest.sizes[units]
    base = int(sizes.sum()) + 1
    level: Int64s = np.unique(contest.ranks(must)[units], return_inverse=True)[1].astype(np.int64)
    powers = [base**at for at in range(int(level.max(initial=0)) + 1)]
    return {
        unit: size * powers[at] for unit, size, at in zip(units.tolist(), sizes.tolist(), level.tolist(), strict=True)
    }


def _with_those_before(table: VictimTable, unit: int, allowed: Mask) -> Sequence[int]:
    """The unit, behind those of its group that go before it."""
    first = int(table.first_unit[table.unit_group[unit]])
    if first == unit:
        return (unit,)
    return [one for one in range(first, unit + 1) if allowed[one]]
