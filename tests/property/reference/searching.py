"""The search for victims where not every set is looked at, once more: node after node, then without the victims that
can be spared.

The next node is the one whose best protected victim is protected least, then the one with the fewest pods of that
level, then with the fewest pods, then with the younger. On a node those go first who are protected least, then those
who free most for each pod that goes. Where queues of one priority compete, the order of turns is tried as well.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t9ksched.model.gang import Running, RunningPod
from tests.property.cheapest import FIVE_POINTS, QueueUse, Unit, better, walk
from tests.property.reference.moment import Kind

FINE = 1 << 10
Free = dict[str, Counter[str]]


@dataclass(eq=False)
class Part:
    """What goes together, and whether its gang can do without it."""

    unit: Unit
    group: Running
    pods: list[RunningPod]
    above: bool


@dataclass
class Ground:
    """Where a gang looks for victims: nodes in order, what is free there, and what its kinds may use.

    Attributes:
        free: room without those who go, by node.
        match: nodes that may take a kind, by its position.
        closed: nodes whose ports are taken for a kind.
        parts: all there are; `contest` those that may go for this gang, `must` those that have to.
        frees: what comes free when a pod goes.
    """

    nodes: Sequence[str]
    kinds: Sequence[Kind]
    free: Free
    match: Sequence[set[str]]
    closed: Sequence[set[str]]
    parts: Sequence[Part]
    contest: Sequence[Part]
    must: Sequence[Part]
    queue_uses: Mapping[str, QueueUse]
    frees: Callable[[RunningPod], Counter[str]]

    @property
    def wanted(self) -> set[str]:
        return {resource for kind in self.kinds for resource in kind.needs}

    def after(self, going: Iterable[Part]) -> Free:
        """What is free when these have gone."""
        found = {name: Counter(self.free[name]) for name in self.nodes}
        for part in going:
            for name, units in part.unit.frees.items():
                if name in found:
                    found[name].update(units)
        return found

    def room(self, at: int, free: Free, name: str) -> int:
        kind = self.kinds[at]
        if name not in self.match[at] or name in self.closed[at]:
            return 0
        most = min(free[name][resource] // units for resource, units in kind.needs.items())
        return max(0, min(most, 1) if kind.of.host_ports else most)

    def filled(self, at: int, free: Free, left: int, taken: Mapping[str, int]) -> Counter[str]:
        """Pods on nodes in their order, as many as fit."""
        found: Counter[str] = Counter()
        for name in self.nodes:
            full = self.kinds[at].of.host_ports and taken.get(name)
            count = 0 if full else min(left, self.room(at, free, name))
            found[name], left = count, left - count
        return +found

    def fits(self, going: Iterable[Part]) -> bool:
        """Whether kind after kind finds room when these have gone."""
        free = self.after(going)
        for at, kind in enumerate(self.kinds):
            took = self.filled(at, free, len(kind.members), {})
            if took.total() < len(kind.members):
                return False
            for name, count in took.items():
                for resource, units in kind.needs.items():
                    free[name][resource] -= units * count
        return True

    def here(self, part: Part, names: Iterable[str]) -> list[RunningPod]:
        """The pods of a part on these nodes that leave something wanted."""
        among, wanted = set(names), self.wanted
        return [pod for pod in part.pods if pod.node in among and any(self.frees(pod)[one] > 0 for one in wanted)]

    def nodes_of_kinds(self) -> list[str]:
        """Nodes that may take some kind."""
        return [name for name in self.nodes if any(name in match for match in self.match)]

    # --- how well each is protected

    def rivals(self) -> bool:
        """Whether queues of one priority have candidates."""
        ranks = [queue_use.priority for queue_use in self.queue_uses.values()]
        return len(set(ranks)) < len(ranks)

    def bands(self, gone: Iterable[Part]) -> dict[str, int]:
        """How many times more than five points a queue's share is below a larger one of its priority."""
        going = [part for part in gone if part in self.contest]
        found = dict.fromkeys(self.queue_uses, 0)
        if not self.rivals():
            return found
        uses: dict[str, Counter[str]] = {name: Counter() for name in self.queue_uses}
        for part in going:
            uses[part.group.queue].update(part.unit.uses)
        left = {part.group.queue for part in self.contest if part not in going}
        for rank in {queue_use.priority for queue_use in self.queue_uses.values()}:
            names = [name for name in left if self.queue_uses[name].priority == rank]
            shares = {name: self.queue_uses[name].share(uses[name]) for name in names}
            band, first = 0, max(shares.values(), default=0)
            for name in sorted(names, key=lambda one: -shares[one]):
                if first - shares[name] > FIVE_POINTS:
                    band, first = band + 1, shares[name]
                found[name] = band
        return found

    def rank(self, part: Part, bands: Mapping[str, int]) -> Any:
        queue = part.group.queue
        return (self.queue_uses[queue].rank(part.unit), part.group.guarded, bands[queue], part.group.priority)

    def price(self, going: Sequence[Part]) -> tuple[list[Any], list[tuple[str, int]]]:
        """What it costs, to be compared by `cheaper`."""
        units = [part.unit for part in going]
        walked = walk(units, [part.unit for part in self.contest], self.queue_uses)
        return walked, sorted((one.group, one.nth) for one in units)


def cheaper(one: tuple[list[Any], Any], other: tuple[list[Any], Any]) -> bool:
    """Whether the first of two prices is the smaller one."""
    return better(one[0], other[0]) or (not better(other[0], one[0]) and one[1] < other[1])


def youth(part: Part, parts: Sequence[Part]) -> int:
    """By age of its gang; the younger has the larger, of equals the one with the smaller uid."""
    groups = sorted({(one.group.created, -at) for at, one in enumerate(_groups(parts))})
    ages = {(one.group.created, -at): one.group.uid for at, one in enumerate(_groups(parts))}
    return [ages[key] for key in groups].index(part.group.uid)


def _groups(parts: Sequence[Part]) -> list[Part]:
    """One part of each gang, by uid."""
    return list({part.group.uid: part for part in sorted(parts, key=lambda one: one.group.uid)}.values())


def clear(ground: Ground) -> tuple[list[Part], list[str]] | None:
    """Who goes, `must` among them, and the node of each pod."""
    helped = {part.group.uid for part in ground.contest if ground.here(part, ground.nodes_of_kinds())}
    allowed = [part for part in ground.contest if part not in ground.must and part.group.uid in helped]
    if not ground.fits([*allowed, *ground.must]):
        return None
    cheapest = None
    anew = Walk(ground, allowed, None)
    if len(ground.kinds) == 1 and not ground.kinds[0].of.host_ports and anew.wide(0):
        cheapest = anew.one_by_one()
        if not ground.rivals():
            return cheapest
    best = Walk(ground, allowed, None).go()
    if best is None or not ground.rivals():
        return best
    turns = {id(part): 0 for part in ground.parts}
    by_name = {(part.unit.group, part.unit.nth): part for part in ground.contest}
    units = [part.unit for part in ground.contest]
    for turn, (_, unit) in enumerate(walk(units, units, ground.queue_uses), start=1):
        turns[id(by_name[unit.group, unit.nth])] = turn
    other = Walk(ground, allowed, turns).go()
    for one in (other, cheapest):
        if one is not None and cheaper(ground.price(one[0]), ground.price(best[0])):
            best = one
    return best


class Walk:
    """One walk from node to node."""

    def __init__(self, ground: Ground, allowed: Sequence[Part], turns: Mapping[int, int] | None) -> None:
        self.ground, self.allowed, self.turns = ground, allowed, turns
        self.going = list(ground.must)
        self.free = ground.after(ground.must)
        self.simple = not any(part.above for part in ground.parts)
        self.counts: list[Counter[str]] = []
        self.bands: Mapping[str, int] | None = None
        self.listed: list[tuple[str, Part, RunningPod]] = []
        self.age = {id(part): youth(part, ground.parts) for part in ground.parts}

    def go(self) -> tuple[list[Part], list[str]] | None:
        ground = self.ground
        for at, kind in enumerate(ground.kinds):
            counts: Counter[str] = Counter()
            self.counts.append(counts)
            left, self.listed, self.bands = len(kind.members), [], None
            while left:
                took = ground.filled(at, self.free, left, counts)
                if not took:
                    names, units = self._next(at, counts, left)
                    if not names:
                        return None
                    for part in units:
                        self.going.append(part)
                        for name, freed in part.unit.frees.items():
                            if name in self.free:
                                self.free[name].update(freed)
                    took = Counter(names)
                counts.update(took)
                for name, count in took.items():
                    for resource, units_of in kind.needs.items():
                        self.free[name][resource] -= units_of * count
                left -= took.total()
        self._spare_alike() if len(ground.kinds) == 1 else self._spare()
        return self._found()

    def one_by_one(self) -> tuple[list[Part], list[str]]:
        """Who goes where what each costs by then is known."""
        from tests.property.reference.onebyone import OneByOne

        self.going = [*self.ground.must, *OneByOne(self.ground, self).go()]
        self._spare_alike()
        return self._found()

    def _found(self) -> tuple[list[Part], list[str]]:
        ground = self.ground
        places = [name for counts in self.counts for name in ground.nodes for _ in range(counts[name])]
        order = {id(part): at for at, part in enumerate(ground.parts)}
        return sorted(self.going, key=lambda part: order[id(part)]), places

    def _level(self, part: Part) -> Any:
        return self.turns[id(part)] if self.turns is not None else self.ground.rank(part, self.bands or {})

    def list_candidates(self, at: int) -> None:
        """Who could go on each node, in the order in which they would."""
        ground, kind = self.ground, self.ground.kinds[at]

        def gain(name: str, part: Part, pod: RunningPod) -> int:
            found, frees = 0, ground.frees(pod)
            for resource, units in kind.needs.items():
                missing = max(units - self.free[name][resource], 0)
                found += min(frees[resource], missing) * FINE // max(missing, 1)
            return found * FINE // max(len(part.pods), 1)

        order = {id(part): nth for nth, part in enumerate(ground.parts)}
        found = [
            (name, part, pod)
            for name in ground.nodes
            if name in ground.match[at]
            for part in self.allowed
            if part not in self.going
            for pod in ground.here(part, [name])
        ]
        place = {name: nth for nth, name in enumerate(ground.nodes)}
        found.sort(
            key=lambda one: (
                place[one[0]],
                self._level(one[1]),
                -gain(*one),
                -self.age[id(one[1])],
                order[id(one[1])],
            )
        )
        self.listed = found

    def _next(self, at: int, counts: Mapping[str, int], left: int) -> tuple[list[str], list[Part]]:
        """The nodes to take, one pod each, and who goes for them."""
        ground, kind = self.ground, self.ground.kinds[at]
        alive = [one for one in self.listed if one[1] not in self.going]
        bands = ground.bands(self.going)
        new = self.bands is None or (self.turns is None and bands != self.bands)
        self.bands = bands if self.turns is None or self.bands is None else self.bands
        if new or len(alive) * 1.25 < len(self.listed):
            self.list_candidates(at)
        offers = []
        for name in ground.nodes:
            here = [one for one in self.listed if one[0] == name]
            full = name in ground.closed[at] or (kind.of.host_ports and counts.get(name))
            free, chosen, oldest = Counter(self.free[name]), [], 0
            for nth, (_, part, pod) in enumerate(here):
                oldest = -self.age[id(part)] if nth == 0 else max(oldest, -self.age[id(part)])
                if part in self.going:
                    continue
                free.update(ground.frees(pod))
                chosen += [part] if part not in chosen else []
                if not full and all(free[resource] >= units for resource, units in kind.needs.items()):
                    level = self._level(part)
                    costs = {id(one): self._price(one) for one in chosen}
                    top = sum(costs[id(one)] for one in chosen if self._level(one) == level)
                    offers.append(((level, top, sum(costs.values()), oldest), name, chosen))
                    break
        if not offers:
            return [], []
        offers.sort(key=lambda one: one[0])
        best = offers[0][0]
        level = [one for one in offers if one[0][0] == best[0]]
        if ground.rivals():
            level = level[: max(1, left // 24)]
        elif self.wide(at):
            level = level[: max(1, left // 6)]
        else:
            level = [one for one in level if one[0][:3] == best[:3]]
        level = level[:left]
        taken = {id(part) for _, _, chosen in level for part in chosen}
        units = [part for part in self.allowed if part not in self.going and self._pulled(part, taken)]
        return [name for _, name, _ in level], units

    def _pulled(self, part: Part, taken: Container[int]) -> bool:
        """Whether it goes: it was taken, or one of its gang that goes later."""
        return any(
            id(one) in taken and one.group is part.group and one.unit.nth >= part.unit.nth for one in self.allowed
        )

    def wide(self, at: int) -> bool:
        """Whether someone goes on several nodes at once, or pulls others along."""
        match = self.ground.match[at]
        nodes = [{pod.node for pod in self.ground.here(part, self.ground.nodes)} & match for part in self.allowed]
        return not self.simple or any(len(one) > 1 for one in nodes)

    def _price(self, part: Part) -> int:
        """Pods that go when it goes: its own, and those of its gang that go before it."""
        if self.simple:
            return len(part.pods)
        return sum(
            len(one.pods)
            for one in self.allowed
            if one.group is part.group and one.unit.nth <= part.unit.nth and one not in self.going
        )

    # --- victims that are not needed

    def _goes_before(self, part: Part) -> bool:
        return any(one.group is part.group and one.unit.nth == part.unit.nth + 1 for one in self.going)

    def _spare_alike(self) -> None:
        ground = self.ground
        pods = len(ground.kinds[0].members)
        turn = self._in_turn()
        spared = True
        while spared:
            spared = False
            for part in turn:
                if part not in self.going or self._goes_before(part):
                    continue
                rest = [one for one in self.going if one is not part]
                free = ground.after(rest)
                if sum(min(pods, ground.room(0, free, name)) for name in ground.nodes) >= pods:
                    self.going, spared = rest, True
        self.counts = [ground.filled(0, ground.after(self.going), pods, {})]

    def _spare(self) -> None:
        ground = self.ground
        used = {name for counts in self.counts for name in counts if counts[name]}
        for part in self._in_turn():
            if self._goes_before(part):
                continue
            left = {name: Counter(self.free[name]) for name in used}
            for pod in ground.here(part, used):
                left[pod.node].subtract(ground.frees(pod))
            nodes = {pod.node for pod in ground.here(part, used)}
            if all(left[name][resource] >= 0 for name in nodes for resource in ground.wanted):
                self.going.remove(part)
                for name in nodes:
                    self.free[name] = left[name]

    def _in_turn(self) -> list[Part]:
        """The best protected first, then the largest, then the oldest."""
        going = [part for part in self.going if part not in self.ground.must]
        bands = self.ground.bands(going)
        levels = sorted({self.ground.rank(part, bands) for part in going}, reverse=True)
        order = {id(part): nth for nth, part in enumerate(self.ground.parts)}

        def key(part: Part) -> Any:
            level = levels.index(self.ground.rank(part, bands))
            return level, -len(part.pods), self.age[id(part)], order[id(part)]

        return sorted(going, key=key)
