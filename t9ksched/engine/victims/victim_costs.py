"""What it costs, in victims, to make room on each node.

The next node is the one whose best protected victim is protected least, then the one with the fewest pods of that
level, then with the fewest pods, then with the younger. On a node the units that are protected least go first, then
those that free most for each evicted pod; where cards are divided, those first that leave the cards that cost least
(`card_costs.py`). A unit with companions elsewhere costs all of them, wherever they are.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask, distinct
from t9ksched.engine.victims.card_costs import CardCosts
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Field, Wanted
from t9ksched.engine.work import Meter, Work

_SHARE_OF_A_ROUND: Final = 6
"""With victims on several nodes, this part of the pods still without a place is given nodes before costs are new."""
_SHARE_OF_RIVALS: Final = 24
"""The same where queues of one priority compete: the order of their units changes with each victim."""
_STALE: Final = 1.25
"""When there are so many times more candidates than may still go, evicted ones are dropped from the columns."""
_A_ROUND: Final = 20_000
"""Units of work of a round, however few candidates it looks at."""
_FINE: Final = 1 << 10
"""Parts of what is missing on a node are counted in this."""


class Ordered(NamedTuple):
    """Candidates on nodes, node after node, in the order in which they go there.

    Attributes:
        unit, row: of each candidate, one a pod.
        freed: what it frees of each resource that is needed.
        starts: where each node begins; `lengths` is how many candidates it has.
    """

    unit: Indices
    row: Indices
    freed: Sequence[Int64s]
    starts: Indices
    lengths: Int64s

    def running_sum(self, values: Int64s) -> Int64s:
        """Sums from the first pod of the same node."""
        total: Int64s = np.cumsum(values)
        return total - np.repeat(total[self.starts] - values[self.starts], self.lengths)


class VictimCosts:
    """What it costs to make room for one more pod of a class on each node of a field.

    With `turns`, units are protected as their turns say, in place of their levels.
    """

    def __init__(self, field: Field, wanted: Wanted, contest: Contest, allowed: Mask, turns: Int64s | None) -> None:
        self._table = field.table
        self._field = field
        self._wanted = wanted
        self._contest = contest
        self._allowed = allowed
        self._turns = turns
        self._candidates = np.flatnonzero(allowed[field.unit] & wanted.here[field.row])
        self._ranks: Int64s | None = None
        self._cards = CardCosts(field, wanted, contest) if wanted.parts else None
        unit = field.unit[self._candidates]
        ours = int((np.bincount(unit) > 0).sum()) if len(unit) else 0
        pairs = ours
        if ours < len(unit):
            pairs = len(distinct(unit * len(field.rows) + field.row[self._candidates]))
        self._spread = ours < pairs or not self._table.simple
        self.one_by_one = self._spread and not (wanted.parts or wanted.column.shuts)
        """Units have companions elsewhere, and nothing else decides what going costs: see `one_by_one.py`."""

    @property
    def size(self) -> int:
        """What a round costs, in units of work."""
        return 10 * len(self._candidates) + len(self._allowed) + _A_ROUND

    def _look_at(
        self, candidates: Indices, ranks: Int64s, free: Int64s, meter: Meter, needed: Mask | None = None
    ) -> Work[None]:
        """Candidates, node after node in the order in which they go there: those first that are `needed` for cards."""
        field, table = self._field, self._table
        self._candidates, self._ranks = candidates, ranks
        unit, row = field.unit[candidates], field.row[candidates]
        gain = np.zeros(len(candidates), np.int64)
        for at, amount in self._wanted.needs:
            missing = np.maximum(amount - free[at], 0)[row]
            part = np.minimum(field.freed[at][candidates], missing) * _FINE // np.maximum(missing, 1)
            gain += part
        gain = gain * _FINE // np.maximum(table.unit_size[unit], 1)
        last = np.zeros(len(candidates), np.bool_) if needed is None else ~needed
        meter.spent += 10 * len(candidates)
        yield
        by_node = np.lexsort((unit, -self._contest.youth[unit], -gain, ranks[unit], last, row))
        meter.spent += 10 * len(candidates)
        yield
        self._candidates = candidates = candidates[by_node]
        self._unit, self._row = unit[by_node], row[by_node]
        self._freed = [field.freed[at][candidates] for at, _ in self._wanted.needs]
        begins = np.ones(len(candidates), np.bool_)
        begins[1:] = self._row[1:] != self._row[:-1]
        self._starts = np.flatnonzero(begins)
        self._lengths = np.diff(np.append(self._starts, len(candidates)))
        self._nodes = self._row[self._starts]
        self._level = ranks[self._unit]
        self._needed: Int64s | None = None
        if needed is not None:
            self._needed = needed[by_node].astype(np.int64)
            above = np.repeat(np.arange(len(self._starts)), self._lengths) * (int(np.ptp(self._level)) + 1)
            self._level = np.maximum.accumulate(self._level + above) - above
        new_level = begins.copy()
        new_level[1:] |= self._level[1:] != self._level[:-1]
        self._level_starts = np.maximum.accumulate(np.where(new_level, np.arange(len(candidates)), 0))
        begins[1:] |= self._unit[1:] != self._unit[:-1]
        self._fresh = begins
        old = -self._contest.youth[self._unit]
        shift = np.repeat(np.arange(len(self._starts)), self._lengths) * (len(self._table.groups) + 1)
        self._oldest = np.maximum.accumulate(old + shift) - shift

    def order(self, free: Int64s, gone: Mask, meter: Meter) -> Work[Ordered]:
        """The candidates while this is free and these go."""
        yield from self._look_at(self._candidates, self._contest.ranks(gone), free, meter)
        return Ordered(self._unit, self._row, self._freed, self._starts, self._lengths)

    def next(self, free: Int64s, counts: Int64s, gone: Mask, left: int, meter: Meter) -> Work[tuple[Indices, Mask]]:
        """The nodes to take now, one pod each, and the units that go for them."""
        table = self._table
        units = np.zeros_like(gone)
        meter.spent += len(self._allowed) + _A_ROUND
        ranks = self._contest.ranks(gone) if self._turns is None else self._turns
        alive = ~gone[self._field.unit[self._candidates]]
        if not alive.any():
            return np.zeros(0, np.intp), units
        possible: Mask | None = None
        if self._cards is not None:
            # What is lacking on which card changes with each pod and with each victim.
            candidates = self._candidates[alive]
            prices = self._prices(gone, self._field.unit[candidates])
            needed, possible = self._cards.needed(candidates, ranks, free, counts, prices)
            yield from self._look_at(candidates, ranks, free, meter, needed)
            alive = np.ones(len(self._candidates), np.bool_)
        elif ranks is not self._ranks or int(alive.sum()) * _STALE < len(alive):
            yield from self._look_at(self._candidates[alive], ranks, free, meter)
            alive = np.ones(len(self._candidates), np.bool_)
        meter.spent += 10 * len(self._candidates)
        enough = self._wanted.open_to(counts)[self._row]
        if possible is not None and self._needed is not None:
            in_all = np.repeat(np.add.reduceat(self._needed, self._starts), self._lengths)
            enough &= possible[self._row] & (self._running_sum(self._needed) == in_all)
        for (at, amount), freed in zip(self._wanted.needs, self._freed, strict=True):
            enough = enough & (free[at][self._row] + self._running_sum(freed * alive) >= amount)
        sizes = self._prices(gone, self._unit) * (alive & self._fresh)
        cost = self._running_sum(sizes)
        last = np.minimum.reduceat(np.where(enough, np.arange(len(enough)), len(enough)), self._starts)
        able = np.flatnonzero(last < len(enough))
        if not len(able):
            return self._nodes[:0], units
        ends = last[able]
        total, level = cost[ends], self._level[ends]
        begin = self._level_starts[ends]
        best_protected = total - cost[begin] + sizes[begin]
        by_cost = np.lexsort((self._oldest[ends], total, best_protected, level))
        same = level[by_cost] == level[by_cost[0]]
        if self._contest.rivals:
            same[max(1, left // _SHARE_OF_RIVALS) :] = False
        elif self._spread:
            same[max(1, left // _SHARE_OF_A_ROUND) :] = False
        else:
            same &= (total[by_cost] == total[by_cost[0]]) & (best_protected[by_cost] == best_protected[by_cost[0]])
        chosen = able[by_cost[same]][:left]
        here = np.zeros(len(self._starts), np.int64)
        here[chosen] = last[chosen] - self._starts[chosen] + 1
        position = np.arange(len(self._unit)) - np.repeat(self._starts, self._lengths)
        taken = self._unit[(position < np.repeat(here, self._lengths)) & alive]
        if table.simple:
            units[taken] = True
            return self._nodes[chosen], units
        furthest = np.full(len(table.groups), -1, np.intp)
        np.maximum.at(furthest, table.unit_group[taken], taken)
        units = (np.arange(len(gone)) <= furthest[table.unit_group]) & self._allowed & ~gone
        return self._nodes[chosen], units

    def _prices(self, gone: Mask, units: Indices) -> Int64s:
        """Pods that go when each of these units goes: its own, and those that go before it."""
        table = self._table
        if table.simple:
            return table.unit_size[units]
        size: Int64s = np.where(self._allowed & ~gone, table.unit_size, 0)
        before: Int64s = np.cumsum(size) - size
        return (before + size - before[table.first_unit[table.unit_group]])[units]

    def _running_sum(self, values: Int64s) -> Int64s:
        """Sums from the first pod of the same node."""
        total: Int64s = np.cumsum(values)
        return total - np.repeat(total[self._starts] - values[self._starts], self._lengths)
