"""Domains in which room for a gang could be made, those first that promise to cost least.

All domains of a level are looked at together, on columns: no search begins in one that would not have room if every
candidate there went.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Field
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang


def likely(trial: Trial, gang: Gang, whole: Field, contest: Contest, must: Mask) -> Work[Iterator[Indices]]:
    """Rows of each domain of the gang's levels, if its placed members are all there and room could be made.

    Victims in the order of the policy are counted until the classes would fit, each for itself: first come domains
    whose last such victim is protected least, then those with the fewest pods to go. `whole` are all nodes.
    """
    index = trial.nodes.static.index
    placed = [index[name] for name in gang.nodes if name in index]
    ranks = contest.ranks(must)
    trial.meter.spent += len(ranks)
    yield
    found: list[Int64s] = []
    for at, level in enumerate(gang.levels):
        of, names = trial.feasibility.domains(level)
        yield
        domains = _Domains(whole, of, len(names), contest, ranks, must)
        trial.meter.spent += domains.size + 10 * len(whole.pods)
        yield
        could = domains.fits(domains.most)
        trial.meter.spent += domains.size
        if placed:
            here = np.zeros(len(names) + 1, np.bool_)
            here[of[placed]] = True
            could &= here[:-1] & (int(here.sum()) == 1)
        if not could.any():
            continue
        yield
        low, high = np.zeros(len(names), np.int64), domains.most.copy()
        while np.any(could & (high - low > 0)):
            middle = (low + high) // 2
            enough = domains.fits(middle)
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
            low = np.minimum(low, high)
            trial.meter.spent += domains.size
            yield
        rank, pods = domains.cost(high)
        those = np.flatnonzero(could)
        found.append(np.array((rank[those], pods[those], np.full(len(those), at), those)))
    return _in_order(trial, gang, found)


def _in_order(trial: Trial, gang: Gang, found: Sequence[Int64s]) -> Iterator[Indices]:
    """Rows of domains, given as columns of rank, pods, level and domain; the smallest first."""
    if not found:
        return
    together = np.concatenate(found, axis=1)
    for at in np.lexsort(together[::-1]).tolist():
        of, _ = trial.feasibility.domains(gang.levels[together[2, at]])
        yield np.flatnonzero(of == together[3, at])


class _Domains:
    """The domains of one level, with their candidates in the order in which they would go."""

    def __init__(self, whole: Field, of: Int64s, count: int, contest: Contest, ranks: Int64s, must: Mask) -> None:
        self._whole = whole
        self._of = of
        self._count = count
        self._free = whole.free.copy()
        whole.give(self._free, must)
        domain = of[whole.row]
        unit = whole.unit
        pods = np.flatnonzero((contest.units & ~must)[unit] & (domain < count))
        by_domain = np.lexsort((unit[pods], -contest.youth[unit[pods]], ranks[unit[pods]], domain[pods]))
        self._pods = pods[by_domain]
        self._domain = domain[self._pods]
        self._ranks = ranks[unit[self._pods]]
        self.most: Int64s = np.bincount(self._domain, minlength=count)
        """Pods that could go, by domain."""
        self._starts = np.cumsum(self.most) - self.most
        self._nth = np.arange(len(self._pods)) - self._starts[self._domain]
        self.size = 4 * len(self._pods) + whole.free.size * len(whole.wanted)

    def fits(self, go: Int64s) -> Mask:
        """Domains in which each class fits for itself when so many of their pods go."""
        whole = self._whole
        free = self._free.copy()
        going = self._pods[self._nth < go[self._domain]]
        for at in whole.resources:
            np.add.at(free[at], whole.row[going], whole.freed[at][going])
        found: Mask = np.ones(self._count, np.bool_)
        for one in whole.wanted:
            rooms = np.minimum(one.rooms(free), one.pods)
            found &= np.bincount(self._of, weights=rooms, minlength=self._count + 1)[:-1] >= one.pods
        return found

    def cost(self, go: Int64s) -> tuple[Int64s, Int64s]:
        """How well the last of so many is protected (0 if none goes), and how many they are, by domain."""
        rank = np.zeros(self._count, np.int64)
        some = np.flatnonzero(go > 0)
        rank[some] = self._ranks[self._starts[some] + go[some] - 1]
        return rank, go
