"""The search for victims that have companions elsewhere, once more: node after node, the cheapest one by then.

For each node it is listed who has to go there so that one more pod fits, and behind it who for the next one. What costs
least goes next; of the first few that cost the same, what leaves the cheapest one behind. The search begins anew from
each of the cheapest ones as often as its bound allows; the last time neither that nor age counts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.property.reference.searching import Ground, Part, Walk

TIES = 8
RUNS = 10
MOST = 60_000


@dataclass(eq=False)
class Opening:
    """Who goes so that `pods` more fit on a node, where those of `before` have gone."""

    nth: int
    parts: list[Part]
    pods: int
    age: int
    before: "Opening | None"
    behind: "list[Opening]" = field(default_factory=list)
    """The next one of its node, if there is one, and so on."""


class OneByOne:
    """All searches for the pods of one kind."""

    def __init__(self, ground: Ground, walk: Walk) -> None:
        self.ground, self.walk = ground, walk
        self.base = ground.after(ground.must)
        walk.bands = ground.bands(ground.must)
        walk.list_candidates(0)
        self.all: list[Opening] = []
        for name in ground.nodes:
            self._on(name)
        levels = sorted({ground.rank(part, walk.bands) for part in walk.allowed})
        whole = 1 + sum(len(part.pods) for part in walk.allowed)
        self.weight = {
            id(part): len(part.pods) * whole ** levels.index(ground.rank(part, walk.bands)) for part in walk.allowed
        }
        firsts = [one for one in self.all if one.before is None]
        self.firsts = sorted(firsts, key=lambda one: (self.cost(one, ()), one.age, one.nth))
        pods = len(ground.kinds[0].members)
        self.missing = pods - sum(min(pods, ground.room(0, self.base, name)) for name in ground.nodes)

    def _on(self, name: str) -> None:
        ground, pods = self.ground, len(self.ground.kinds[0].members)
        free = {name: Counter(self.base[name])}
        room = min(pods, ground.room(0, free, name))
        parts: list[Part] = []
        chain: list[Opening] = []
        for where, part, pod in self.walk.listed:
            if where != name:
                continue
            free[name].update(ground.frees(pod))
            along = [one for one in self.walk.allowed if one.group is part.group and one.unit.nth <= part.unit.nth]
            parts += [one for one in along if one not in parts]
            now = min(pods, ground.room(0, free, name))
            if now > room:
                age = max(-self.walk.age[id(one)] for one in parts)
                made = Opening(len(self.all), parts, now - room, age, chain[-1] if chain else None)
                for one in chain:
                    one.behind.append(made)
                chain.append(made)
                self.all.append(made)
                parts, room = [], now

    def cost(self, one: Opening, gone: Iterable[Part]) -> int:
        return sum(self.weight[id(part)] for part in one.parts if part not in gone)

    def go(self) -> list[Part]:
        """Who goes beside those that must."""
        size = sum(len(one.parts) for one in self.all)
        units = {id(part) for one in self.all for part in one.parts}
        steps = min(max(self.missing, 0), len(units))
        closely = size + steps * TIES * size * size // max(len(self.all) * len(units), 1)
        looks = closely <= MOST
        runs = max(1, min(RUNS, len(self.firsts), MOST // max(closely if looks else 2 * size, 1)))
        best: Any = None
        for nth in range(runs):
            last = nth == max(runs - 1, 1)
            going = self._search([] if last or not nth else [self.firsts[nth]], looks and not last, last)
            weight = sum(self.weight[id(part)] for part in going)
            if best is None or weight < best[0]:
                best = weight, going
        return best[1] if best else []

    def _search(self, begin: list[Opening], looks: bool, by_place: bool) -> list[Part]:
        gone: list[Part] = []
        opened: list[Opening] = []

        def able() -> list[Opening]:
            return [one for one in self.all if one not in opened and (one.before is None or one.before in opened)]

        while sum(one.pods for one in opened) < self.missing:
            costs = {id(one): self.cost(one, gone) for one in able()}
            order = sorted(able(), key=lambda one: (costs[id(one)], 0 if by_place else one.age, one.nth))
            ties = [one for one in order if costs[id(one)] == costs[id(order[0])]][: TIES if looks else 1]
            chosen = begin.pop() if begin else self._closely(ties, able(), gone)
            gone += [part for part in chosen.parts if part not in gone]
            while free := [one for one in able() if not self.cost(one, gone)]:
                opened += free
        return self._needed(gone, opened)

    def _closely(self, ties: Sequence[Opening], able: Sequence[Opening], gone: list[Part]) -> Opening:
        best, least = ties[0], -1
        for one in ties if len(ties) > 1 else ():
            left = [part for part in one.parts if part not in gone]
            near = [other for other in able if other is not one and any(part in left for part in other.parts)]
            cheapest = min((self.cost(other, [*gone, *left]) for other in near), default=-1)
            if cheapest >= 0 and (least < 0 or cheapest < least):
                best, least = one, cheapest
        return best

    def _needed(self, gone: list[Part], opened: list[Opening]) -> list[Part]:
        order = {id(part): nth for nth, part in enumerate(self.ground.parts)}
        more = sum(one.pods for one in opened) - self.missing
        begun = more > 0

        def closes(part: Part) -> list[Opening]:
            found = [one for one in self.all if part in one.parts]
            return [one for one in opened if one in found or any(one in other.behind for other in found)]

        while gone and begun:
            loss = {id(part): sum(one.pods for one in closes(part)) for part in gone}
            part = min(gone, key=lambda one: (loss[id(one)], -self.weight[id(one)], order[id(one)]))
            if loss[id(part)] > more:
                break
            more -= loss[id(part)]
            opened = [one for one in opened if one not in closes(part)]
            gone = [one for one in gone if one is not part]
        return gone
