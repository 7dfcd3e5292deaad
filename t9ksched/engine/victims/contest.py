"""The units that may be evicted for one gang, and how well each is protected, as columns. `price.py` is the rule."""

from collections.abc import Mapping

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.victims.price import Contender, Price, Victim, bands, price, walk
from t9ksched.engine.victims.victim_table import VictimTable, dense_ranks
from t9ksched.engine.work import Work


class Contest:
    """Units that may be evicted for one gang.

    Attributes:
        units: which, one flag a unit of all there are.
        youth: one a unit; of equals the larger goes first.
        sizes: how many pods go with each unit.
    """

    def __init__(self, table: VictimTable, ledger: Ledger, units: Mask, priority: Int64s, level: Int64s) -> None:
        """`priority` is that of each of the table's queues, those of candidates exist; `level` is the one at which each
        unit counts for this gang. Only units of a queue that shares its priority with no other candidates' may differ.
        """
        self.units = units
        self._table = table
        self._level = level
        self._queue: Indices = table.queue_of[table.unit_group]
        counts = np.bincount(self._queue[units], minlength=len(table.queues))
        self.contenders: Mapping[str, Contender] = {
            table.queues[at]: Contender(
                int(priority[at]),
                int(counts[at]),
                ledger.used(table.queues[at], staying=True),
                ledger.measures(table.queues[at]),
                ledger.limited(table.queues[at]),
            )
            for at in np.flatnonzero(counts).tolist()
        }
        priorities = [one.priority for one in self.contenders.values()]
        self.rivals = len(set(priorities)) < len(priorities)
        """Several queues of one priority have candidates: the next victim depends on the earlier ones."""
        self._counts = counts
        of = table.unit_group
        self.youth: Int64s = table.youth[of]
        self.sizes: Int64s = table.unit_size
        # Priority of the queue, guarded, band, priority of the PodGroup, as the digits of one number.
        self._a_band = int(table.ranking.max(initial=0)) + 1
        levels = dense_ranks(level)
        guarded = levels * 2 + table.guarded[of]
        self._fixed: Int64s = guarded * (len(table.queues) * self._a_band) + table.ranking[of]
        self._steady: tuple[Int64s, Int64s] | None = None

    def ranks(self, gone: Mask) -> Int64s:
        """How well each unit is protected while these go: larger is better, equal is one level.

        The same array as long as nothing in it changes.
        """
        if self._steady is None or self.rivals:
            bands = self._bands(gone)
            if self._steady is None or not np.array_equal(bands, self._steady[0]):
                self._steady = bands, self._fixed + (bands * self._a_band)[self._queue]
        return self._steady[1]

    def _bands(self, gone: Mask) -> Int64s:
        """The band of each queue while these go."""
        found = np.zeros(len(self._table.queues), np.int64)
        if not self.rivals:
            return found
        going = np.flatnonzero(gone & self.units)
        left = self._counts - np.bincount(self._queue[going], minlength=len(self._counts))
        used = self._table.charged(going)
        shares: dict[int, dict[str, int]] = {}
        for at, name in enumerate(self._table.queues):
            if name in self.contenders and left[at] > 0:
                one = self.contenders[name]
                shares.setdefault(one.priority, {})[name] = one.share(used.get(name, {}))
        for together in shares.values():
            band = bands(together)
            for at, name in enumerate(self._table.queues):
                if name in band:
                    found[at] = band[name]
        return found

    def turns(self) -> Work[Int64s]:
        """When each unit's turn would be if all went one after the other, one a unit; 0 for those that may not go."""
        found = np.zeros(len(self.units), np.int64)
        victims = []
        for unit, uses in self._table.uses(np.flatnonzero(self.units)):
            victims.append(self._victim(unit, uses))
        yield
        places = {victim.name: unit for victim, unit in zip(victims, np.flatnonzero(self.units).tolist(), strict=True)}
        for turn, (victim, _) in enumerate(walk(victims, self.contenders), start=1):
            found[places[victim.name]] = turn
            if not turn % 256:
                yield
        return found

    def price(self, units: Mask) -> Price:
        """What it costs when these go."""
        return price(
            (self._victim(unit, uses) for unit, uses in self._table.uses(np.flatnonzero(units))), self.contenders
        )

    def _victim(self, unit: int, uses: tuple[tuple[str, int], ...]) -> Victim:
        table = self._table
        group = table.groups[int(table.unit_group[unit])]
        nth = unit - int(table.first_unit[table.unit_group[unit]])
        return Victim(
            group.queue,
            int(self._level[unit]),
            group.guarded,
            group.priority,
            group.created,
            int(table.unit_size[unit]),
            uses,
            (group.uid, nth),
        )
