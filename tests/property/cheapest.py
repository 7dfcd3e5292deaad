"""Who has to go, by brute force: every set of victims of a small world, and which of them the policy prefers.

An oracle: it shares no code with the engine. Shares are fractions, a set is walked victim by victim, and what goes
together is a `Unit`. Only for gangs of alike pods without rules about others, for which counting is exact.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

FIVE_POINTS = Fraction(1, 20)


@dataclass(frozen=True)
class Unit:
    """A gang, or one member above its minimum: the `nth` of its group that goes, the gang itself last."""

    group: str
    nth: int
    queue: str
    rank: int
    created: int
    pods: int
    uses: Counter[str]
    frees: Mapping[str, Counter[str]]
    """What comes free, by node."""
    guarded: bool = False
    above: bool = False
    """Its gang can do without it."""


@dataclass(frozen=True)
class QueueUse:
    """A queue: its priority among victims, what it uses, what its share is a part of, and whether what is above minima
    yields."""

    priority: int
    used: Mapping[str, int]
    whole: Mapping[str, int]
    yields: bool = False

    def rank(self, unit: Unit) -> int:
        """The priority at which a unit of it counts: what yields goes before all others."""
        return -1 if self.yields and unit.above else self.priority

    def share(self, gone: Mapping[str, int]) -> Fraction:
        """Its dominant share when this much has gone."""
        parts = [Fraction(0)]
        for name, units in self.whole.items():
            used = self.used.get(name, 0) - gone.get(name, 0)
            if used > 0:
                parts.append(Fraction(used, units) if units else Fraction(10**9))
        return max(parts)


@dataclass(frozen=True)
class Asked:
    """What has to fit: so many alike pods on nodes with this much free."""

    pods: int
    needs: Mapping[str, int]
    free: Mapping[str, Counter[str]]

    def fits(self, going: Sequence[Unit]) -> bool:
        """Whether it does when these have gone."""
        return sum(self._room(node, going) for node in self.free) >= self.pods

    def _room(self, node: str, going: Sequence[Unit]) -> int:
        has = Counter(self.free[node])
        for unit in going:
            has.update(unit.frees.get(node, {}))
        return max(0, min(has[name] // units for name, units in self.needs.items() if units))


def sets(asked: Asked, units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Every set that makes room, keeps the order within groups, and of which no victim can be spared."""
    for size in range(1, len(units) + 1):
        for chosen in combinations(units, size):
            going = list(chosen)
            if _in_order(going, units) and asked.fits(going) and not superfluous(asked, going):
                yield going


def superfluous(asked: Asked, going: Sequence[Unit]) -> list[Unit]:
    """Who could be spared: the last of each group that goes, where the others make the room alone."""
    return [
        unit
        for unit in going
        if not any(other.group == unit.group and other.nth > unit.nth for other in going)
        and asked.fits([other for other in going if other is not unit])
    ]


def _in_order(going: Sequence[Unit], units: Sequence[Unit]) -> bool:
    return all(
        other in going for unit in going for other in units if other.group == unit.group and other.nth < unit.nth
    )


Level = tuple[int, bool, int, int]


def walk(going: Sequence[Unit], units: Sequence[Unit], queue_uses: Mapping[str, QueueUse]) -> list[tuple[Level, Unit]]:
    """The set as it would be chosen, victim by victim, each with how well it is protected at its turn.

    Queue priority, guarded, how many times more than five points its queue's share is below a larger one (among queues
    of that priority with a victim left to choose), PodGroup priority.
    """
    left = list(going)
    found: list[tuple[Level, Unit]] = []
    gone = {name: Counter[str]() for name in queue_uses}
    while left:
        taken = [unit for _, unit in found]

        def level(unit: Unit, taken: Sequence[Unit] = taken) -> Level:
            priority = queue_uses[unit.queue].rank(unit)
            rivals = {
                other.queue for other in units if other not in taken and queue_uses[other.queue].rank(other) == priority
            }
            shares = sorted((queue_uses[name].share(gone[name]) for name in rivals), reverse=True)
            mine = queue_uses[unit.queue].share(gone[unit.queue])
            steps, first = 0, shares[0]
            for share in shares:
                if share < mine:
                    break
                if first - share > FIVE_POINTS:
                    steps, first = steps + 1, share
            return priority, unit.guarded, steps, unit.rank

        unit = min(left, key=lambda unit: (level(unit), -unit.created, unit.group, unit.nth))
        found.append((level(unit), unit))
        gone[unit.queue].update(unit.uses)
        left.remove(unit)
    return found


def better(one: Sequence[tuple[Level, Unit]], other: Sequence[tuple[Level, Unit]]) -> bool:
    """Whether the first of two walked sets is preferred.

    It has fewer pods on the best protected level where they differ, else a younger victim where the oldest differ.
    """
    levels = {level for level, _ in (*one, *other)}
    for level in sorted(levels, reverse=True):
        mine = sum(unit.pods for at, unit in one if at == level)
        theirs = sum(unit.pods for at, unit in other if at == level)
        if mine != theirs:
            return mine < theirs
    ages = sorted(unit.created for _, unit in one), sorted(unit.created for _, unit in other)
    for mine, theirs in zip(*ages, strict=False):
        if mine != theirs:
            return mine > theirs
    return len(one) < len(other)


def best_protected(walked: Sequence[tuple[Level, Unit]]) -> Level:
    """The level of its best protected victim."""
    return max(level for level, _ in walked)
