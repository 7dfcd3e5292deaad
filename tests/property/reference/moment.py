"""A cluster at one moment in plain values: what is left where, who pays, and which nodes take which pods."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.cardmode import NOT_READY
from t9ksched.model.gang import Gang, Member
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, PodTerm, Spread
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation

NEARLY = Fraction(1, 10_000)
"""Scores, of which 1 is a full one, that differ by less may be told apart by rounding."""
CORDON = "node.kubernetes.io/unschedulable"
NO_RULES = PodRules()
Told = tuple[str, dict[str, int], dict[str, int], dict[str, int]]
"""Code, needs, has and nodes of a reason."""


class Differs(AssertionError):
    """The plan is another one."""


@dataclass
class PlacedPod:
    """A pod that stands somewhere, as far as rules about pods are concerned."""

    node: str
    namespace: str
    labels: Mapping[str, str]
    apart: tuple[PodTerm, ...]
    preferred_terms: tuple[tuple[int, PodTerm], ...]
    leaving: bool = False
    room: bool = False
    """Only room that is held for such a pod."""


@dataclass
class Kind:
    """Pods of one gang that are alike."""

    of: PodClass
    namespace: str
    labels: Mapping[str, str]
    members: list[Member] = field(default_factory=list)
    spoken: tuple[bool, ...] = ()

    @property
    def rules(self) -> PodRules:
        return self.of.rules or NO_RULES

    @property
    def needs(self) -> dict[str, int]:
        return {name: units for name, units in self.of.requests if units > 0}


@dataclass
class Room:
    """What is left on a node."""

    facts: NodeFacts
    free: Counter[str]
    used: Counter[str]
    idle: dict[str, int]
    ports: list[Any]


@dataclass
class Ask:
    """What gangs that ask for the same were told in this cycle."""

    over: list[Told] = field(default_factory=list)
    no_room: list[Told] = field(default_factory=list)
    behind: list[Told] = field(default_factory=list)


class Unclear(Exception):
    """Rounding decided between nodes, and what came of it cannot be foreseen."""


class Moment:
    """What there is, and which nodes are allowed at all."""

    def __init__(self, view: View, policy: Policy, now: int) -> None:
        self.view, self.policy, self.now = view, policy, now
        self.rooms: dict[str, Room] = {}
        nodes = view.nodes
        for row, facts in enumerate(nodes.static.facts):
            used = Counter({name: int(nodes.used[at, row]) for at, name in enumerate(nodes.static.resources)})
            given = {name: int(nodes.cards_used[at, row]) for at, name in enumerate(nodes.static.cards.names)}
            self.rooms[facts.name] = self._room(facts, used, given, list(nodes.ports.get(facts.name, ())))
        self.placed_pods = [
            PlacedPod(node, group.namespace, dict(group.labels), group.apart, group.preferred_terms, group.leaving)
            for group in view.neighbours
            for node, count in group.nodes
            for _ in range(count)
            if node in self.rooms
        ]
        classes = [one.pod_class for gang in view.gangs for one in gang.waiting]
        self.asked = [term for of in classes for term in (of.rules or NO_RULES).apart]
        self.asked += [term for of in classes for _, term in (of.rules or NO_RULES).prefer_pods]
        self.asked += [
            term for one in self.placed_pods for term in (*one.apart, *(term for _, term in one.preferred_terms))
        ]
        self.terms = list(dict.fromkeys([*self.asked, *(t for of in classes for t in (of.rules or NO_RULES).terms)]))
        self.charged = {name: Counter(state.used) for name, state in view.queues.items()}
        self.strict: dict[str, list[tuple[list[Kind], Ask]]] = {}
        self.waiting: dict[str, list[tuple[Gang, list[Told]]]] = {}
        self.short: list[tuple[str, list[Told]]] = []
        self.asks: dict[Any, Ask] = {}
        self.scopes: dict[str, set[str]] = {}
        self.clear = True
        """No choice so far was decided by rounding."""
        self.holds: dict[str, list[tuple[Reservation, dict[str, int]]]] = {}
        """Room that is held on nodes, with the cards that it names, by owner."""
        self.promises: dict[str, Counter[str]] = {}
        self.leave: set[str] = set()
        """Gangs that have to go: no room is sought that they could come back to."""
        self.promised_to: set[str] = set()
        """Gangs for which room of victims is held."""
        self.missing: dict[str, list[Reservation]] = {}
        self.owed: dict[str, tuple[str, Counter[str]]] = {}
        self.found: list[tuple[str, str]] = []
        self._hold()

    def _room(self, facts: NodeFacts, used: Counter[str], given: dict[str, int], ports: list[Any]) -> Room:
        free = Counter(facts.allocatable)
        free.subtract(used)
        free.subtract(facts.cordoned)
        idle = {}
        for name, count in facts.cards.counts.items():
            well = ((1 << count) - 1) & ~dict(facts.cards.withdrawn.masks).get(name, 0)
            idle[name] = well & ~given.get(name, 0)
            strangers = max(0, used[name] - given.get(name, 0).bit_count())
            free[name] = min(free[name], idle[name].bit_count() - strangers)
        return Room(facts, free, Counter(used), idle, ports)

    def _kinds(self, members: Iterable[Member]) -> list[Kind]:
        """Members by kind, in the order in which kinds appear: alike, and spoken of by the same rules."""
        found: dict[Any, Kind] = {}
        for one in members:
            spoken = tuple(self._speaks(term, one.namespace, dict(one.labels)) for term in self.terms)
            kind = found.setdefault((one.pod_class, spoken), Kind(one.pod_class, one.namespace, dict(one.labels)))
            kind.spoken = spoken
            kind.members.append(one)
        return list(found.values())

    # --- queues and quotas

    def share(self, name: str) -> Fraction:
        """The dominant share of a queue, as it is now."""
        spec = self.view.queues[name].spec
        parts = [Fraction(0)]
        measures: Counter[str] = Counter(spec.quota)
        if not spec.quota:
            for room in self.rooms.values():
                if room.facts.ready and not room.facts.deleting and _selected(spec, room.facts):
                    measures.update(room.facts.allocatable)
        for resource, whole in measures.items():
            used = self.charged[name][resource]
            if used > 0 and whole > 0:
                parts.append(Fraction(used, whole))
            elif used > 0 and spec.quota:
                parts.append(Fraction(1 << 62))
        return max(parts)

    def _best(self, names: Iterable[str]) -> str:
        def key(name: str) -> tuple[Any, ...]:
            spec = self.view.queues[name].spec
            compared: dict[str, Any] = {"basic": -spec.priority, "resource": self.share(name)}
            for use in self.policy.plugins:
                if hasattr(use.plugin, "queue_rank"):
                    compared[use.name] = use.plugin.queue_rank(name, spec, self.charged[name])
            return (*(compared[one] for one in self.policy.queue_order), name)

        return min(names, key=key)

    def _shortfalls(self, queue: str, demand: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """By resource, what is asked for and what is left of the quota, where that is less."""
        found = {}
        for resource, most in self.view.queues[queue].spec.quota.items():
            left = most - self.charged[queue][resource]
            if 0 < demand.get(resource, 0) > left:
                found[resource] = (demand[resource], left)
        return found

    # --- nodes

    def removes(self, queue: str, kind: Kind, facts: NodeFacts, *, prepared: bool = False) -> str:
        """The first thing about a node that is against such pods, whatever room it has; empty when nothing is. With
        `prepared` as if its accelerators were ready.
        """
        of = kind.of
        if not _selected(self.view.queues[queue].spec, facts):
            return "queue"
        affinity = of.node_affinity
        wrong = any(facts.labels.get(key) != value for key, value in of.node_selector)
        if wrong or (affinity is not None and not affinity.matches(facts.labels, facts.name)):
            return "selector"
        if not all(one.matches(facts.labels, facts.name) for one in of.volume_affinity):
            return "volumes"
        if of.accelerated and not prepared and (facts.mode == NOT_READY or facts.unready is not None):
            return "accelerators not ready"
        if not facts.ready or facts.deleting:
            return "not ready"
        if facts.unschedulable and not self._tolerates_cordon(kind):
            return "unschedulable"
        if not self._tolerates_all(kind, facts):
            return "taints"
        if of.accelerated and facts.unsure:
            return "card holders"
        if of.cards and of.unrecorded and facts.honours:
            return "database"
        against = (one.name for one in self.policy.plugins if hasattr(one.plugin, "allows"))
        return next((f"plugin {one}" for one in against if not self._plugin(one).allows(of, facts)), "")

    def _tolerates_cordon(self, kind: Kind) -> bool:
        return any(one.key in ("", CORDON) and one.effect in ("", "NoSchedule") for one in kind.of.tolerations)

    def _tolerates_all(self, kind: Kind, facts: NodeFacts) -> bool:
        against = [one for one in facts.taints if one.effect != "PreferNoSchedule" and one.key != CORDON]
        return all(any(one.tolerates(taint) for one in kind.of.tolerations) for taint in against)

    def match_ever(self, queue: str, kind: Kind) -> list[str]:
        """Nodes that may run such pods once what passes by itself is over."""
        found = []
        for name, room in self.rooms.items():
            taints = tuple(one for one in room.facts.taints if not one.key.startswith("node.kubernetes.io/"))
            well = replace(
                room.facts, ready=True, deleting=False, unschedulable=False, unsure=False, taints=taints, card_mode=""
            )
            found += [] if self.removes(queue, kind, well, prepared=True) else [name]
        return found

    def _plugin(self, name: str) -> Any:
        return next(one.plugin for one in self.policy.plugins if one.name == name)

    def match(self, queue: str, kind: Kind) -> list[str]:
        """Nodes that may run such pods, by name."""
        return [name for name in self.rooms if not self.removes(queue, kind, self.rooms[name].facts)]

    def unprepared(self, queue: str, kind: Kind) -> int:
        """How many more nodes could run such pods if their accelerators were ready."""
        against = [self.removes(queue, kind, room.facts, prepared=True) for room in self.rooms.values()]
        return against.count("") - len(self.match(queue, kind))

    def _fits(self, kind: Kind, name: str, *, empty: bool = False) -> int:
        """How many such pods fit on a node now, or would if nothing ran there."""
        room = self.rooms[name]
        free = Counter(room.facts.allocatable) if empty else room.free
        most = min(free[resource] // units for resource, units in kind.needs.items())
        if kind.of.host_ports:
            taken = not empty and any(mine.conflicts(other) for mine in kind.of.host_ports for other in room.ports)
            most = min(most, 0 if taken else 1)
        return max(0, most)

    def able(self, queue: str, kind: Kind) -> set[str]:
        """Nodes that could take one if nothing ran there."""
        return {name for name in self.match(queue, kind) if self._fits(kind, name, empty=True)}

    # --- rules about pods

    def _domain(self, key: str, name: str) -> str | None:
        return self.rooms[name].facts.labels.get(key)

    def _speaks(self, term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
        known = self.view.namespaces.get(namespace) or {"kubernetes.io/metadata.name": namespace}
        for peers in term.peers:
            there = namespace in peers.namespaces
            among = peers.namespace_selector
            if peers.selector is None or not (there or (among is not None and among.matches(known))):
                return False
            if not peers.selector.matches(labels):
                return False
        return True

    def _near(self, term: PodTerm, name: str, *, staying: bool = False, rooms: bool = False) -> int:
        """Pods that a term speaks of in the domain of a node."""
        domain = self._domain(term.topology_key, name)
        return sum(
            self._speaks(term, one.namespace, one.labels)
            for one in self.placed_pods
            if domain is not None
            and self._domain(term.topology_key, one.node) == domain
            and not (staying and one.leaving)
            and (rooms or not one.room)
        )

    def forbidden(self, queue: str, kind: Kind, name: str) -> list[str]:
        """The rules about pods that keep a pod off a node now."""
        found = []
        rules, mine = kind.rules, (kind.namespace, kind.labels)
        first = all(self._speaks(term, *mine) for term in rules.together) and not any(
            self._speaks(term, one.namespace, one.labels) and self._domain(term.topology_key, one.node) is not None
            for term in rules.together
            for one in self.placed_pods
            if not one.room
        )
        for term in rules.together:
            if self._domain(term.topology_key, name) is None or not (first or self._near(term, name)):
                found.append("pod affinity")
        if any(self._near(term, name, rooms=True) for term in rules.apart):
            found.append("pod anti-affinity")
        for one in self.placed_pods:
            for term in one.apart:
                domain = self._domain(term.topology_key, one.node)
                if domain is not None and domain == self._domain(term.topology_key, name):
                    found += ["pod anti-affinity"] if self._speaks(term, *mine) else []
        for one in rules.spread:
            if not one.hard:
                continue
            key, within = one.term.topology_key, self._counting(kind, one)
            counts = Counter(
                self._domain(key, pod.node)
                for pod in self.placed_pods
                if pod.node in within
                and not (pod.leaving or pod.room)
                and self._speaks(one.term, pod.namespace, pod.labels)
            )
            domains = {self._domain(key, other) for other in within}
            fewest = min(counts[domain] for domain in domains) if len(domains) >= max(1, one.min_domains) else 0
            here = self._domain(key, name)
            if here is None or counts[here] + self._speaks(one.term, *mine) - fewest > one.max_skew:
                found.append("topology spread")
        return found

    def _counting(self, kind: Kind, one: Spread) -> set[str]:
        """The nodes whose pods a spread constraint counts."""
        alike = [each.term.topology_key for each in kind.rules.spread if each.hard == one.hard]
        return {
            name
            for name, room in self.rooms.items()
            if all(room.facts.labels.get(key) is not None for key in alike)
            and not (one.own_nodes and self._not_own(kind, room.facts))
            and not (one.untainted and self._tainted(kind, room.facts))
        }

    def _not_own(self, kind: Kind, facts: NodeFacts) -> bool:
        affinity = kind.of.node_affinity
        wrong = any(facts.labels.get(key) != value for key, value in kind.of.node_selector)
        return wrong or (affinity is not None and not affinity.matches(facts.labels, facts.name))

    def _tainted(self, kind: Kind, facts: NodeFacts) -> bool:
        """Whether a spread that honours taints leaves a node out, cordoned nodes by the taint that they have."""
        against = [one for one in facts.taints if one.effect != "PreferNoSchedule"]
        return not all(any(one.tolerates(taint) for one in kind.of.tolerations) for taint in against)

    def _asked(self, kind: Kind) -> bool:
        """Whether rules of others, placed or waiting, speak of such pods."""
        return any(self._speaks(term, kind.namespace, kind.labels) for term in self.asked)


def _selected(spec: QueueSpec, facts: NodeFacts) -> bool:
    return spec.node_selector is None or spec.node_selector.matches(facts.labels)
