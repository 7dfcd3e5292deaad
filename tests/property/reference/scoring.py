"""How well each node suits a pod, in fractions: 1 is a full score."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from t9ksched.model.podrules import Spread
from tests.property.reference.moment import Kind, Moment


class Scoring(Moment):
    """The nodes compared."""

    def scores(self, queue: str, kind: Kind) -> dict[str, Fraction]:
        """How well each matching node suits one more such pod, preferences included; 1 is a full score."""
        match = self.match(queue, kind)
        found = {name: self._binpack(kind, name) for name in match}
        for name, points in self._bias(queue, kind).items():
            found[name] += points
        return found

    def _binpack(self, kind: Kind, name: str) -> Fraction:
        policy, room = self.policy.binpack, self.rooms[name]
        if policy is None:
            return Fraction(0)
        weights = {"cpu": 1, "memory": 1} | dict(policy.resources)
        parts, whole = Fraction(0), 0
        for resource, weight in weights.items():
            has = room.facts.allocatable.get(resource, 0)
            if has > 0:
                part = Fraction(room.used[resource] + kind.needs.get(resource, 0), has)
                parts += weight * (part if policy.strategy == "MostAllocated" else 1 - part)
                whole += weight
        return (
            parts / whole * policy.weight if whole else Fraction(policy.weight * (policy.strategy != "MostAllocated"))
        )

    def _cardless(self, kind: Kind, match: Sequence[str]) -> dict[str, Fraction]:
        bare = [name for name in match if not self.rooms[name].facts.accelerated]
        if kind.of.accelerated or len(bare) == len(match):
            return {}
        return dict.fromkeys(bare, Fraction(self.policy.cardless_weight))

    def _preferences(self, kind: Kind, match: Sequence[str]) -> dict[str, Fraction]:
        """Each source from 0 to 1, their mean by the weights that kube-scheduler has, times the plugin's weight."""
        rules = kind.rules
        nodes: dict[str, int] = Counter()
        taints: dict[str, int] = Counter()
        for name in match:
            facts = self.rooms[name].facts
            nodes[name] = sum(weight for weight, one in rules.prefer_nodes if one.matches(facts.labels, name))
            soft = [taint for taint in facts.taints if taint.effect == "PreferNoSchedule"]
            taints[name] = -sum(not any(one.tolerates(taint) for one in kind.of.tolerations) for taint in soft)
        sources = [(3, taints, True), (2, nodes, True), (2, self._pod_preferences(kind, match), False)]
        if even := [one for one in rules.spread if not one.hard]:
            sources.append((2, self._spread(kind, even, match), False))
        telling = []
        for weight, raw, zero in sources:
            low, high = min(raw.values(), default=0), max(raw.values(), default=0)
            if low != high:
                low, high = (min(low, 0), max(high, 0)) if zero else (low, high)
                telling.append((weight, {name: Fraction(raw[name] - low, high - low) for name in match}))
        whole = sum(weight for weight, _ in telling)
        return {
            name: self.policy.affinity_weight
            * sum((weight * points[name] for weight, points in telling), Fraction(0))
            / whole
            for name in match
            if whole
        }

    def _pod_preferences(self, kind: Kind, match: Sequence[str]) -> dict[str, int]:
        """Pods that it likes in the domain of a node, and those there that like it."""
        found: dict[str, int] = {}
        for name in match:
            found[name] = sum(weight * self._near(term, name) for weight, term in kind.rules.prefer_pods)
            for one in self.placed_pods:
                for weight, term in one.preferred_terms:
                    domain = self._domain(term.topology_key, one.node)
                    if domain is not None and domain == self._domain(term.topology_key, name):
                        found[name] += weight * self._speaks(term, kind.namespace, kind.labels)
        return found

    def _spread(self, kind: Kind, even: Iterable[Spread], match: Sequence[str]) -> dict[str, int]:
        """Minus the pods that soft constraints count; a node without the label has one more than any domain."""
        found: dict[str, int] = dict.fromkeys(match, 0)
        for one in even:
            term, within = one.term, self._counting(kind, one)
            counts = Counter(
                self._domain(term.topology_key, pod.node)
                for pod in self.placed_pods
                if pod.node in within
                and not (pod.leaving or pod.room)
                and self._speaks(term, pod.namespace, pod.labels)
            )
            for name in match:
                domain = self._domain(term.topology_key, name)
                found[name] -= max(counts.values(), default=0) + 1 if domain is None else counts[domain]
        return found

    def _bias(self, queue: str, kind: Kind) -> dict[str, Fraction]:
        match = self.match(queue, kind)
        found = {name: Fraction(0) for name in match}
        for part in (self._preferences(kind, match), self._cardless(kind, match)):
            for name, points in part.items():
                found[name] += points
        for use in self.policy.plugins:
            for name in match if hasattr(use.plugin, "score") else ():
                found[name] += Fraction(use.weight * self._plugin(use.name).score(kind.of, self.rooms[name].facts), 100)
        return found
