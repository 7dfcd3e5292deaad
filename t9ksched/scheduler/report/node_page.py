"""What the metrics page says of nodes: what is asked for on each, and how many cards are in which state.

Both are kept by node and made anew only for nodes whose facts or charges changed since the last page.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from t9ksched.model.card_models import card_model
from t9ksched.model.node import NodeFacts
from t9ksched.model.resources import PODS
from t9ksched.model.volumes import counts_volumes
from t9ksched.scheduler.report import families
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.serving.exposition import Sample

SHAPES: Final = (1, 2, 4, 8)
"""Cards of a pod, as most pods ask for them."""
NODE_STATES: Final = ("ready", "unschedulable", "not_ready")
_Version = tuple[int, int, int]


class _NodeTold(msgspec.Struct):
    """What the page says of a node that was so when it was looked at."""

    version: _Version | None = None
    state: str = ""
    lines: str = ""
    cards: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    unusable: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)


class NodePage:
    """The nodes of `state`. `looked` counts how often a node was looked at."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._told: dict[str, _NodeTold] = {}
        self.looked = 0
        self._cards: Counter[tuple[str, str, str]] = Counter()
        self._unusable: Counter[tuple[str, str, str]] = Counter()
        self._states: Counter[str] = Counter()

    def refresh(self, name: str) -> str:
        """The lines of a node, in step with what is said of cards."""
        nodes = self._state.nodes
        version = None
        if name in nodes:
            row = nodes.row(name)
            version = (row, nodes.generation[row], nodes.charged[row])
        told = self._told.get(name)
        if told is None or version is None or told.version != version:
            self._forget(name)
            told = self._told[name] = self._look(name, version)
            self._cards += told.cards
            self._unusable += told.unusable
            self._states[told.state] += 1
        return told.lines

    def drop_gone(self) -> None:
        """Forget nodes that are not there any more."""
        for name in self._told.keys() - self._state.node_objects.keys():
            self._forget(name)

    def states(self) -> Iterator[Sample]:
        """How many nodes are in which state."""
        return (((state,), self._states[state]) for state in NODE_STATES)

    def cards(self) -> Iterator[Sample]:
        """How many cards of a resource and model are in which state; those of pods in drift are told apart."""
        found = Counter(self._cards)
        for uid in self._state.cards.drifting:
            charge = self._state.charges.get(uid)
            known = self._state.node_objects.get(charge.node) if charge is not None else None
            if charge is None or known is None:
                continue
            for resource in charge.cards.resources:
                for index in charge.cards.indices(resource):
                    model = _model(known[1], resource, index)
                    if found[resource, model, "held"]:  # several pods may have parts of one card
                        found[resource, model, "held"] -= 1
                        found[resource, model, "drift"] += 1
        return ((key, count) for key, count in sorted(found.items()))

    def unusable(self) -> Iterator[Sample]:
        """How many free cards of a resource and model are of no use to pods of a shape."""
        return ((key, count) for key, count in sorted(self._unusable.items()))

    def _forget(self, name: str) -> None:
        if (told := self._told.pop(name, None)) is not None:
            self._cards -= told.cards
            self._unusable -= told.unusable
            self._states[told.state] -= 1

    def _look(self, name: str, version: _Version | None) -> _NodeTold:
        self.looked += 1
        facts = self._state.node_objects[name][1]
        charges = list(self._state.charges.on_node(name))
        used: defaultdict[str, int] = defaultdict(int)
        for charge in charges:
            for resource, amount in charge.pod_class.requests:
                used[resource] += amount
        asked = {one: amount for one, amount in used.items() if one != PODS and not counts_volumes(one)}
        samples = (families.NODE_REQUESTS.sample(*one) for one in amounts(name, asked))
        state = "not_ready" if not facts.ready else "unschedulable" if facts.unschedulable else "ready"
        by_state: Counter[tuple[str, str, str]] = Counter()
        unusable: Counter[tuple[str, str, str]] = Counter()
        for resource, model, card_state, count in _cards(facts, charges, used):
            if count:
                by_state[resource, model, card_state] += count
            if count and card_state == "free":
                for shape in SHAPES:
                    unusable[resource, model, str(shape)] += count % shape
        return _NodeTold(version, state, "\n".join(samples), by_state, +unusable)


def amounts(of: str, found: Mapping[str, int]) -> Iterator[Sample]:
    """Amounts of resources of a node or a queue, in base units."""
    for resource, amount in sorted(found.items()):
        yield (of, resource, families.unit_of(resource)), families.in_base_units(resource, amount)


def _model(facts: NodeFacts, resource: str, index: int) -> str:
    return facts.cards.model(resource, index) or card_model(facts.labels) or resource


def _cards(facts: NodeFacts, charges: list[Charge], used: dict[str, int]) -> Iterator[tuple[str, str, str, int]]:
    """Resource, model, state and number of the cards of a node."""
    away = not facts.ready or facts.unschedulable or facts.unready is not None
    product = card_model(facts.labels)
    for resource in facts.cards.resources:
        held = {index for charge in charges for index in charge.cards.indices(resource)}
        # Others may hold any of the rest: device plugins choose, other schedulers do not say which.
        unknown = 0 if resource in facts.cards.divided else max(0, used.get(resource, 0) - len(held))
        states: Counter[tuple[str, str]] = Counter()
        for index in facts.cards.all.indices(resource):
            model = facts.cards.model(resource, index) or product or resource
            if index in held:
                states[model, "held"] += 1
            elif index in facts.unhealthy:
                states[model, "unhealthy"] += 1
            elif facts.cards.withdrawn.has(resource, index):
                states[model, "cordoned"] += 1
            elif unknown:
                unknown -= 1
                states[model, "held"] += 1
            else:
                states[model, "away" if away else "free"] += 1
        yield from ((resource, model, state, count) for (model, state), count in states.items())
    for resource, count in facts.counted.items():
        taken = min(count, used.get(resource, 0))
        out = min(count - taken, facts.cordoned.get(resource, 0))
        model = product or resource
        yield resource, model, "held", taken
        yield resource, model, "cordoned", out
        yield resource, model, "away" if away else "free", count - taken - out
