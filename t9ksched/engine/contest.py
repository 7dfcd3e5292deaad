"""Who may go for one gang, and how well each is protected, as columns: `victims.price` is the rule they follow."""

from collections.abc import Mapping

import numpy as np

from t9ksched.engine.ledger import Ledger
from t9ksched.engine.nodes import Int64s
from t9ksched.engine.tenants import Flags, Indices, Tenants
from t9ksched.engine.victims import Contender, Price, Victim, bands, price, walk
from t9ksched.engine.work import Work


class Contest:
    """Units that may go for one gang.

    Attributes:
        units: which, one flag a unit of all there are.
        youth: one a unit; of equals the larger goes first.
    """

    def __init__(self, tenants: Tenants, ledger: Ledger, units: Flags, level: Int64s) -> None:
        """`level` is the priority of each of the tenants' queues for this gang; those of candidates exist."""
        self.units = units
        self._tenants = tenants
        self._level = level
        self._queue: Indices = tenants.queue_of[tenants.unit_group]
        counts = np.bincount(self._queue[units], minlength=len(tenants.queues))
        self.contenders: Mapping[str, Contender] = {
            tenants.queues[at]: Contender(
                int(level[at]),
                int(counts[at]),
                ledger.used(tenants.queues[at], staying=True),
                ledger.measures(tenants.queues[at]),
                ledger.limited(tenants.queues[at]),
            )
            for at in np.flatnonzero(counts).tolist()
        }
        priorities = [one.priority for one in self.contenders.values()]
        self.rivals = len(set(priorities)) < len(priorities)
        """Some queues of one priority have candidates: who goes next depends on who went before."""
        self._counts = counts
        self._steady: Int64s | None = None
        of = tenants.unit_group
        self.youth: Int64s = tenants.youth[of]

    def ranks(self, gone: Flags) -> Int64s:
        """How well each unit is protected while these go: larger is better, equal is one level."""
        if self._steady is None or self.rivals:
            tenants, of = self._tenants, self._tenants.unit_group
            parts = (
                tenants.priority[of],
                self._bands(gone)[self._queue],
                tenants.guarded[of],
                self._level[self._queue],
            )
            order = np.lexsort(parts)
            fresh = np.zeros(len(order), np.bool_)
            for part in parts:
                fresh[1:] |= part[order][1:] != part[order][:-1]
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.cumsum(fresh)
            self._steady = ranks
        return self._steady

    def _bands(self, gone: Flags) -> Int64s:
        """The band of each queue while these go."""
        found = np.zeros(len(self._tenants.queues), np.int64)
        if not self.rivals:
            return found
        going = gone & self.units
        left = self._counts - np.bincount(self._queue[going], minlength=len(self._counts))
        used = self._tenants.charged(going)
        shares: dict[int, dict[str, int]] = {}
        for at, name in enumerate(self._tenants.queues):
            if name in self.contenders and left[at] > 0:
                one = self.contenders[name]
                shares.setdefault(one.priority, {})[name] = one.share(used.get(name, {}))
        for together in shares.values():
            band = bands(together)
            for at, name in enumerate(self._tenants.queues):
                if name in band:
                    found[at] = band[name]
        return found

    def turns(self) -> Work[Int64s]:
        """When each unit's turn would be if all went one after the other, one a unit; 0 for those that may not go."""
        found = np.zeros(len(self.units), np.int64)
        victims = []
        for unit, uses in self._tenants.uses(np.flatnonzero(self.units)):
            victims.append(self._victim(unit, uses))
        yield
        places = {victim.name: unit for victim, unit in zip(victims, np.flatnonzero(self.units).tolist(), strict=True)}
        for turn, (victim, _) in enumerate(walk(victims, self.contenders), start=1):
            found[places[victim.name]] = turn
            if not turn % 256:
                yield
        return found

    def price(self, units: Flags) -> Price:
        """What it costs when these go."""
        return price(
            (self._victim(unit, uses) for unit, uses in self._tenants.uses(np.flatnonzero(units))), self.contenders
        )

    def _victim(self, unit: int, uses: tuple[tuple[str, int], ...]) -> Victim:
        tenants = self._tenants
        group = tenants.groups[int(tenants.unit_group[unit])]
        nth = unit - int(tenants.first_unit[tenants.unit_group[unit]])
        return Victim(
            group.queue,
            int(self._level[self._queue[unit]]),
            group.guarded,
            group.priority,
            group.created,
            int(tenants.unit_size[unit]),
            uses,
            (group.uid, nth),
        )
