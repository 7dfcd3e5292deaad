"""Cards that pods hold on record and that cannot all be theirs: gone from their node, or held by several pods.

Nodes that give the cards that are named to them are looked at card by card. On others a device plugin chooses: there
pods are found whose node was laid out anew under them (`model.card_units`), as from whole cards to MIG slices. What is
found is told (event `CardDrift`, a metric, `nodes`), and never gives a card to a pod: every holder stays charged, and
the node may give no cards meanwhile (`card_doubts.py`). Cards that were followed to other indices (`card_moves.py`) are
told besides.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from t9ksched.model.card_identity import strayed
from t9ksched.model.card_table import CardTable
from t9ksched.model.card_units import reshaped
from t9ksched.model.cards import are_disjoint
from t9ksched.model.node import Node, NodeFacts
from t9ksched.scheduler.state.card_moves import CardMoves
from t9ksched.scheduler.state.change_feed import Log
from t9ksched.scheduler.state.charges import Charge, Charges
from t9ksched.scheduler.state.records import PodRecord


def lost(charge: Charge, facts: NodeFacts) -> tuple[tuple[str, int], ...]:
    """Resource and index of cards that a pod holds on record and that its node, which is ready, does not have. A node
    that offers none of a resource at the moment, as while its device plugin starts anew, has lost none.
    """
    if not charge.cards or not facts.honours or facts.unready is not None:
        return ()
    return charge.cards.beyond(facts.cards.counts)


def exchanged(charge: Charge, facts: NodeFacts) -> tuple[tuple[str, int], ...]:
    """Resource and index of cards that a pod holds and that are other devices than those that it was given, by what
    its node, which is ready, says of them.
    """
    if not charge.devices or not facts.honours or facts.unready is not None:
        return ()
    return tuple((one.resource, one.index) for one in strayed(facts, charge.devices))


_A_STEP: Final = 200
"""Nodes that are looked at in a step, at 10 to 20 µs each where nothing is wrong."""


class CardAudit:
    """Finds them, node by node, when a node or what its pods hold has changed. `pods`, `nodes`, `charges` and `moves`
    are those of the state.
    """

    def __init__(
        self,
        pods: Mapping[str, PodRecord],
        nodes: Mapping[str, tuple[Node, NodeFacts]],
        charges: Charges,
        moves: CardMoves,
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._charges = charges
        self._moves = moves
        self._changed: dict[str, None] = {}
        self._found: dict[str, dict[str, str]] = {}
        """By node and UID of the pod."""
        self.drifts: Log[tuple[PodRecord, str]] = Log()
        """What was found, each once as long as it lasts."""

    def note(self, node: str) -> None:
        """The node, or what its pods hold, has changed."""
        self._changed[node] = None

    def settle(self) -> None:
        """Look at the nodes that have changed."""
        for _ in self.settling():
            pass

    def settling(self) -> Iterator[None]:
        """The same in steps."""
        while self._changed:
            for node in list(islice(self._changed, _A_STEP)):
                self._look(node)
            yield

    def of(self, node: str) -> Mapping[str, str]:
        """What is wrong with cards of pods on a node, as sentences, by UID."""
        if node in self._changed:
            self._look(node)
        return self._found.get(node, {})

    def __len__(self) -> int:
        """How many pods hold such cards."""
        self.settle()
        return sum(map(len, self._found.values()))

    def _look(self, node: str) -> None:
        self._changed.pop(node, None)
        known, before = self._nodes.get(node), self._found.pop(node, {})
        if known is None or not known[1].accelerated:
            return
        found: dict[str, str] = {}
        told = (*self._gone(known[1]), *self._several(known[1])) if known[1].honours else self._laid_out(known[1])
        for uid, what in told:
            found.setdefault(uid, what)
        for uid, what in found.items():
            record = self._pods.get(uid)
            if record is not None and before.get(uid) != what:
                self.drifts.add((record, what))
        if found:
            self._found[node] = found

    def _gone(self, facts: NodeFacts) -> Iterator[tuple[str, str]]:
        ready = facts.unready is None
        for charge in self._charges.on_node(facts.name):
            for resource, index in lost(charge, facts)[:1] if ready and charge.cards else ():
                has = facts.cards.counts[resource]
                yield charge.uid, f"card {index} of {resource}, which it holds, is gone: node {facts.name} has {has}"
            for resource, index in exchanged(charge, facts)[:1] if ready and charge.devices else ():
                yield (
                    charge.uid,
                    f"card {index} of {resource} of node {facts.name}, which it holds, is another device now, by its"
                    " UUID: the node gives no cards until the pod is gone",
                )
            if what := self._moves.of(charge):
                yield charge.uid, what

    def _laid_out(self, facts: NodeFacts) -> Iterator[tuple[str, str]]:
        """Pods that hold cards of a node which has laid them out anew since."""
        had = {charge.units for charge in self._charges.on_node(facts.name)}  # mostly of one kind
        anew = {units: what for units in had if (what := reshaped(facts, units))}
        for charge in self._charges.on_node(facts.name) if anew else ():
            if charge.units in anew:
                yield charge.uid, f"{anew[charge.units]}: the node gives no cards until the pod is gone"

    def _several(self, facts: NodeFacts) -> Iterator[tuple[str, str]]:
        """Pods that hold a card that another one holds whole, or of which together more is held than there is."""
        if are_disjoint(charge.cards for charge in self._charges.on_node(facts.name)):
            return
        holders: dict[tuple[str, int], list[Charge]] = {}
        for charge in self._charges.on_node(facts.name):
            for resource in charge.cards.resources:
                for index in charge.cards.indices(resource):
                    holders.setdefault((resource, index), []).append(charge)
        for (resource, index), those in sorted(holders.items(), key=lambda item: item[0]):
            if len(those) > 1 and not _fit(facts.cards, resource, index, those):
                for charge in those:
                    # Without their names: they may be of other users.
                    others = "another pod holds" if len(those) == 2 else f"{len(those) - 1} other pods hold"
                    yield charge.uid, f"{others} card {index} of {resource} of node {facts.name}, which it holds, too"


def _fit(cards: CardTable, resource: str, index: int, holders: list[Charge]) -> bool:
    """Whether all of them have a part of the card, and it is as large as these."""
    parts = [part for one in holders for part in one.cards.parts if (part.resource, part.index) == (resource, index)]
    sizes = cards.divided.get(resource, ())
    if len(parts) < len(holders) or index >= len(sizes):
        return False
    size = sizes[index]
    return sum(part.cores for part in parts) <= size.cores and sum(part.memory for part in parts) <= size.memory
