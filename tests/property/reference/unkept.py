"""How many pods an emptied cluster takes at most, and the rules about pods that it could not keep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from t9ksched.model.podrules import Spread
from tests.property.reference.moment import Kind, Told
from tests.property.reference.placing import Placing


class Unkept(Placing):
    """Bounds."""

    def _most(
        self, queue: str, kinds: Sequence[Kind], match_of: Callable[[str, Kind], list[str]], nodes: set[str]
    ) -> int:
        """How many of the pods these nodes take at most with nothing on them."""
        fits = [
            {name: min(len(kind.members), self._fits(kind, name, empty=True)) for name in match_of(queue, kind)}
            for kind in kinds
        ]
        fits = [{name: fit for name, fit in one.items() if fit and name in nodes} for one in fits]
        pods = sum(len(kind.members) for kind in kinds)
        found = sum(min(len(kind.members), sum(one.values())) for kind, one in zip(kinds, fits, strict=True))
        for term in {term for kind in kinds for term in self._apart(kind)}:
            those = [at for at, kind in enumerate(kinds) if term in self._apart(kind)]
            domains = {self._domain(term.topology_key, name) for at in those for name in fits[at]} - {None}
            outside = sum(
                fit for at in those for name, fit in fits[at].items() if not self._domain(term.topology_key, name)
            )
            others = pods - sum(len(kinds[at].members) for at in those)
            found = min(found, len(domains) + outside + others)
        if len(kinds) < 2:
            return found
        for resource in self.view.nodes.static.resources:
            needs = sum(kind.needs.get(resource, 0) * len(kind.members) for kind in kinds)
            where = {name for kind, one in zip(kinds, fits, strict=True) if kind.needs.get(resource) for name in one}
            if needs > sum(self.rooms[name].facts.allocatable.get(resource, 0) for name in where):
                found = min(found, pods - 1)
        for first in range(2, len(kinds) + 1):
            those, count = kinds[:first], sum(len(kind.members) for kind in kinds[:first])
            least = {name: min(kind.needs.get(name, 0) for kind in those) for name in those[0].needs}
            fit = 0
            for name in {name for one in fits[:first] for name in one}:
                has = self.rooms[name].facts.allocatable
                fit += min(count, *(has.get(resource, 0) // units for resource, units in least.items() if units))
            found = min(found, min(fit, count) + pods - count)
        return found

    def _apart(self, kind: Kind) -> list[Any]:
        return [term for term in kind.rules.apart if self._speaks(term, kind.namespace, kind.labels)]

    def _keys(self, kind: Kind) -> list[str]:
        """Labels that rules of such pods want of nodes."""
        terms = [*kind.rules.together, *(one.term for one in kind.rules.spread if one.hard)]
        return [term.topology_key for term in terms]

    def _has_all(self, kind: Kind, name: str) -> bool:
        return all(self._domain(key, name) is not None for key in self._keys(kind))

    def _counts(self, term: Any, kind: Kind) -> bool:
        return bool(self._speaks(term, kind.namespace, kind.labels))

    def _is_counted(self, term: Any) -> bool:
        """Whether a pod that is somewhere is selected by a term."""
        return any(self._speaks(term, one.namespace, one.labels) for one in self.placed_pods if not one.room)

    def _unkept(
        self,
        queue: str,
        kinds: Sequence[Kind],
        match_of: Callable[[str, Kind], list[str]],
        able: Mapping[int, set[str]],
    ) -> Told | None:
        """Which rule an emptied cluster could not keep: labels, affinity to pods of their own, spread."""

        def never(those: Sequence[Kind], has: int) -> Told | None:
            pods = sum(len(kind.members) for kind in those)
            match = set().union(*(match_of(queue, kind) for kind in those))
            return ("NeverFits", {"members": pods}, {"members": has}, {"match": len(match)}) if has < pods else None

        def parts(key: str) -> dict[str, set[str]]:
            """The nodes of each domain of a label."""
            values = {self._domain(key, name) for name in self.rooms} - {None}
            return {str(one): {name for name in self.rooms if self._domain(key, name) == one} for one in values}

        def labelled(_: str, kind: Kind) -> list[str]:
            return [name for name in able[id(kind)] if self._has_all(kind, name)]

        for kind in kinds:
            count = len(kind.members)
            fit = sum(min(count, self._fits(kind, name, empty=True)) for name in labelled(queue, kind))
            if self._keys(kind) and (told := never([kind], fit)) is not None:
                return told
        for term in dict.fromkeys(term for kind in kinds for term in kind.rules.together):
            those = [kind for kind in kinds if self._counts(term, kind)]
            if not those or self._is_counted(term) or not all(term in kind.rules.together for kind in those):
                continue
            domains = parts(term.topology_key).values()
            best = max((self._most(queue, those, labelled, nodes) for nodes in domains), default=0)
            if (told := never(those, best)) is not None:
                return told
        for spread in dict.fromkeys(one for kind in kinds for one in kind.rules.spread if one.hard):
            counting = [kind for kind in kinds if self._counts(spread.term, kind)]
            those = [kind for kind in counting if spread in kind.rules.spread]
            if not those or self._is_counted(spread.term):
                continue
            domains = parts(spread.term.topology_key)
            everyone = {name: self._most(queue, counting, labelled, nodes) for name, nodes in domains.items()}
            fewest = max(self._fewest(spread, kind, everyone) for kind in those)
            has = 0
            for nodes in domains.values():
                has += min(self._most(queue, those, labelled, nodes), spread.max_skew + fewest)
            if (told := never(those, has)) is not None:
                return told
        return None

    def _fewest(self, spread: Spread, kind: Kind, everyone: Mapping[str, int]) -> int:
        """How many pods the domain takes that takes fewest of those that count; taints that pass may count or not."""
        hard = [one.term.topology_key for one in kind.rules.spread if one.hard]
        now, ever = set(), set()
        for name, room in self.rooms.items():
            facts = room.facts
            lasting = tuple(one for one in facts.taints if not one.key.startswith("node.kubernetes.io/"))
            if any(facts.labels.get(key) is None for key in hard) or (spread.own_nodes and self._not_own(kind, facts)):
                continue
            domain = str(self._domain(spread.term.topology_key, name))
            if not (spread.untainted and self._tainted(kind, replace(facts, taints=lasting))):
                ever.add(domain)
            if not (spread.untainted and self._tainted(kind, facts)):
                now.add(domain)
        if len(ever) < max(spread.min_domains, 1):
            return 0
        return min(everyone[domain] for domain in now or ever)
