"""Where pods go: the best node for one after the other, within a domain where that is asked for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, permutations
from typing import Any

from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from tests.property.reference.moment import NEARLY, Kind, PlacedPod
from tests.property.reference.scoring import Scoring


class Placing(Scoring):
    """Pods put on nodes, and taken off again."""

    def _take(self, kind: Kind, name: str, sign: int = 1, cards: Mapping[str, int] | None = None) -> dict[str, int]:
        """Put a pod on a node, or take it off: room, cards by index and ports. The cards that it has."""
        room = self.rooms[name]
        for resource, units in kind.needs.items():
            room.free[resource] -= sign * units
            room.used[resource] += sign * units
        masks = dict(cards or {})
        for resource, count in kind.of.card_counts.items() if cards is None else ():
            masks[resource] = _lowest(room.idle.get(resource, 0), count)
        for resource, mask in masks.items():
            if resource in room.idle:
                room.idle[resource] = room.idle[resource] & ~mask if sign > 0 else room.idle[resource] | mask
        for port in kind.of.host_ports:
            room.ports.append(port) if sign > 0 else room.ports.remove(port)
        return {resource: mask for resource, mask in masks.items() if mask}

    def _put(self, kind: Kind, name: str) -> tuple[Kind, str, dict[str, int]]:
        masks = self._take(kind, name)
        stands = PlacedPod(name, kind.namespace, kind.labels, kind.rules.apart, kind.rules.prefer_pods)
        self.placed_pods.append(stands)
        return kind, name, masks

    def _off(self, put: list[tuple[Kind, str, dict[str, int]]]) -> None:
        """Take back what was put, the last first."""
        while put:
            kind, name, masks = put.pop()
            self._take(kind, name, -1, masks)
            self.placed_pods.pop()

    def _open(self, queue: str, kind: Kind, scope: set[str] | None) -> list[str]:
        return [
            name
            for name in self.match(queue, kind)
            if (scope is None or name in scope) and self._fits(kind, name) and not self.forbidden(queue, kind, name)
        ]

    def _pack(
        self, queue: str, kind: Kind, pods: int, scope: set[str] | None, picks: Sequence[str] | None
    ) -> list[tuple[Kind, str, dict[str, int]]]:
        """Put up to so many pods, each on the best node; with `picks` on these, if each of them is a best one."""
        put: list[tuple[Kind, str, dict[str, int]]] = []
        for nth in range(pods):
            among = self._open(queue, kind, scope)
            if not among:
                break
            scores = self.scores(queue, kind)
            best = max(scores[name] for name in among)
            good = [name for name in among if scores[name] >= best - NEARLY]
            exact = [name for name in good if self._same(good[0], name) and scores[name] == scores[good[0]]]
            if len(exact) < len(good):
                self.clear = False
            name = good[0]
            if picks is not None and nth < len(picks):
                name = picks[nth]
                if name not in good or any(self._same(other, name) for other in good[: good.index(name)]):
                    break
            put.append(self._put(kind, name))
        return put

    def _same(self, one: str, other: str) -> bool:
        """Whether nothing that rounding could tell apart differs between two nodes."""
        first, second = self.rooms[one], self.rooms[other]
        return first.facts.allocatable == second.facts.allocatable and first.used == second.used

    def _hardness(self, queue: str, kind: Kind) -> tuple[int, int]:
        able = self.able(queue, kind)
        if not able:
            return 0, 0
        largest = {
            resource: max(self.rooms[name].facts.allocatable.get(resource, 0) for name in able)
            for resource in kind.needs
        }
        return len(able), -max(units * 10**6 // largest[resource] for resource, units in kind.needs.items())

    def _together(
        self, queue: str, kinds: Sequence[Kind], scope: set[str] | None, picks: Mapping[int, list[str]] | None
    ) -> list[tuple[Kind, str, dict[str, int]]] | None:
        """Every pod of every kind, or nothing: kind after kind, hardest first, then in other orders, then by search."""
        for order in islice(permutations(kinds), 24):
            put: list[tuple[Kind, str, dict[str, int]]] = []
            for kind in order:
                mine = self._pack(queue, kind, len(kind.members), scope, picks and picks[id(kind)])
                put += mine
                if len(mine) < len(kind.members):
                    break
            else:
                return put
            self._off(put)
            if len(kinds) == 1:
                return None
        return self._search(queue, [kind for kind in kinds for _ in kind.members], scope)

    def _search(
        self, queue: str, pods: list[Kind], scope: set[str] | None
    ) -> list[tuple[Kind, str, dict[str, int]]] | None:
        """Pod after pod on the node with least to spare for it, or that it likes best; wrong ones are taken back."""
        steps = 3000
        wishes = {}
        for kind in pods:
            scores = self.scores(queue, kind)
            of = set(kind.rules.terms) or self._asked(kind)
            wishes[id(kind)] = scores if of or any(self._bias(queue, kind).values()) else None

        def ways(kind: Kind) -> list[str]:
            wish = wishes[id(kind)]

            def spare(name: str) -> Any:
                room = self.rooms[name]
                if wish is not None:
                    return -wish[name]
                return sum(
                    (room.free[resource] - units) * 1000 // max(1, room.facts.allocatable.get(resource, 0))
                    for resource, units in kind.needs.items()
                )

            return sorted(self._open(queue, kind, scope), key=spare)

        put: list[tuple[Kind, str, dict[str, int]]] = []
        seen: set[Any] = set()
        plain = not any(wish for wish in wishes.values()) and not any(kind.rules.terms for kind in pods)

        def place(at: int) -> bool:
            nonlocal steps
            if at == len(pods):
                return True
            if plain:
                state = (at, tuple(tuple(sorted(room.free.items())) for room in self.rooms.values()))
                if state in seen:
                    return False
                seen.add(state)
            for name in ways(pods[at]):
                steps -= 1
                if steps < 0:
                    self.clear = False
                    return False
                put.append(self._put(pods[at], name))
                if place(at + 1):
                    return True
                last = [put.pop()]
                self._off(last)
            return False

        return put if place(0) else None

    # --- domains

    def _domains(self, gang: Gang, kinds: Sequence[Kind], levels: Sequence[str]) -> Iterator[set[str]]:
        """Where all of it may be tried to be together: narrow levels first, then what has least room to leave."""
        needs: Counter[str] = Counter()
        for kind in kinds:
            for resource, units in kind.needs.items():
                needs[resource] += units * len(kind.members)
        whole: Counter[str] = Counter()
        for room in self.rooms.values():
            whole.update(room.facts.allocatable)
        names = self.view.nodes.static.resources
        scarce = max(names, key=lambda name: Fraction(needs[name], max(1, whole[name])), default="")
        homes = [name for name in gang.nodes if name in self.rooms]
        for level in levels:
            values = sorted({value for name in self.rooms if (value := self._domain(level, name)) is not None})
            found = []
            for value in values:
                nodes = {name for name in self.rooms if self._domain(level, name) == value}
                if nodes.issuperset(homes):
                    found.append((sum(max(0, self.rooms[name].free[scarce]) for name in nodes), nodes))
            for _, nodes in sorted(found, key=lambda one: one[0]):
                yield nodes

    def _fit(
        self, gang: Gang, kinds: Sequence[Kind], nodes: set[str] | None, picks: Mapping[int, list[str]] | None
    ) -> list[tuple[Kind, str, dict[str, int]]] | None:
        """The whole of it, within a domain if it wants that."""
        queue, levels = gang.queue, list(gang.levels)
        if gang.topology == "None":
            put = self._together(queue, kinds, nodes, picks)
            if put is not None:
                return put
            levels = []
            for kind in kinds:
                for term in kind.rules.together:
                    own = self._speaks(term, kind.namespace, kind.labels)
                    levels += [term.topology_key] if own and term.topology_key not in levels else []
        for domain in self._domains(gang, kinds, levels):
            put = self._together(queue, kinds, domain if nodes is None else domain & nodes, picks)
            if put is not None:
                self.scopes[gang.uid] = domain
                return put
        return self._together(queue, kinds, nodes, picks) if gang.topology == "Preferred" else None


def _lowest(idle: int, count: int) -> int:
    mask = 0
    for index in range(idle.bit_length()):
        if idle >> index & 1 and mask.bit_count() < count:
            mask |= 1 << index
    return mask


def grants(of: PodClass, masks: Mapping[str, int]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """Which container gets which cards: main containers and sidecars their own, init containers what is not running."""
    found = {}
    for resource, mask in masks.items():
        idle, running = mask, 0
        for at, one in enumerate(of.cards):
            if one.resource == resource and one.kind != "init":
                found[at] = _lowest(idle, one.count)
                idle &= ~found[at]
        for at, one in enumerate(of.cards):
            if one.resource == resource and one.kind == "init":
                found[at] = _lowest(mask & ~running, one.count)
            elif one.resource == resource and one.kind == "sidecar":
                running |= found[at]
    return tuple(
        (one.container, one.resource, tuple(i for i in range(found[at].bit_length()) if found[at] >> i & 1))
        for at, one in enumerate(of.cards)
        if at in found
    )
