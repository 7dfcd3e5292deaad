"""Events of nodes, volumes and namespaces."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from t9ksched.model.card_slices import CardLayout
from t9ksched.model.names import CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION
from t9ksched.model.node import Node, NodeFacts, node_facts
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.pod import Pod
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.validations import Validations

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_CORDON_MARKS: Final = frozenset((CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION))


class NodeEvents:
    """Takes in what the watches bring of nodes and what depends on them. Events may come twice or late without harm."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._validations = Validations()
        self._layouts: Counter[CardLayout] = Counter()
        self.card_layouts: frozenset[CardLayout] = frozenset()
        """The ways in which nodes have cards."""
        self.cordon_marks: OrderedSet[str] = OrderedSet()
        """Nodes with annotations about cordoned cards."""

    def upsert(self, node: Node) -> None:
        """A node appeared or changed."""
        cordons = self._state.card_cordons.get(node.metadata.name) or {}
        failing = self._validations.on(node.metadata.name)
        own = self._state.reported_cards.of(node.metadata.name)
        dra = self._state.dra.on(node.metadata.name, node.metadata.labels or {})
        facts = self._state.storage.limit(node_facts(node, cordons, failing, dra, own))
        name = facts.name
        moved = self._state.cards.moves.follow(facts)
        if why := self._state.cards.doubts.on(facts):
            facts = replace(facts, unsure=True, why_unsure=why)
        known = self._state.node_objects.get(name)
        self._state.node_objects[name] = (node, facts)
        if node.metadata.annotations and not _CORDON_MARKS.isdisjoint(node.metadata.annotations):
            self.cordon_marks.add(name)
        else:
            self.cordon_marks.discard(name)
        if known is not None and known[1] == facts:
            return
        if known is not None and known[1].uid != facts.uid:
            self._drop(name)
        self._note_layout(None if known is None else known[1], facts)
        if known is None or _shown(known[1]) != _shown(facts):
            self._state.feed.nodes.note(name)
        if facts.links_fault and (known is None or known[1].links_fault != facts.links_fault):
            self._state.feed.misread_links.add((name, facts.uid, facts.links_fault))
        if facts.cards_fault and (known is None or known[1].cards_fault != facts.cards_fault):
            self._state.feed.misread_cards.add((name, facts.uid, facts.cards_fault))
        self._state.nodes.upsert(facts)
        self._state.charges.node_appeared(name)
        self._state.cards.node_changed(facts)
        self._state.card_audit.note(name)
        if known is not None and (moved or known[1].cards.withdrawn != facts.cards.withdrawn):
            for charge in self._state.charges.on_node(name):  # what they leave to others is another number of cards
                if (record := self._state.pods.get(charge.uid)) is not None:
                    self._state.changes.gang_changed(record.gang)
        if known is None:
            self._state.storage.node_changed(name)
        self._state.wake()

    def labelled(self) -> Iterable[tuple[str, Mapping[str, str]]]:
        """All nodes with their labels."""
        return ((name, facts.labels) for name, (_, facts) in self._state.node_objects.items())

    def remove(self, name: str) -> None:
        """A node was deleted, and its columns with it; pods on it stay charged until they are deleted too."""
        self._state.dra.node_gone(name)
        self.cordon_marks.discard(name)
        if (known := self._state.node_objects.pop(name, None)) is not None:
            self._note_layout(known[1], None)
            self._state.feed.nodes.note(name)
            self._state.card_audit.note(name)
            self._drop(name)
            self._state.storage.node_changed(name)
            self._state.wake()

    def _note_layout(self, before: NodeFacts | None, now: NodeFacts | None) -> None:
        old, new = (facts.card_layout if facts is not None and facts.accelerated else None for facts in (before, now))
        if old == new:
            return
        self._layouts.update([new] if new is not None else ())
        self._layouts.subtract([old] if old is not None else ())
        self._layouts = +self._layouts
        self.card_layouts = frozenset(self._layouts)

    def cordon_cards(self, cordons: Mapping[str, Mapping[int, str]]) -> None:
        """Take over which cards are cordoned, with their reasons, by node and index."""
        before, self._state.card_cordons = self._state.card_cordons, dict(cordons)
        for name in sorted(before.keys() | cordons.keys()):
            if before.get(name) != cordons.get(name):
                self.look_at(name)

    def validated(self, pod: Pod) -> None:
        """A pod was seen: it may be one with which the GPU operator tries a node."""
        for name in self._validations.seen(pod):
            self.look_at(name)

    def validator_gone(self, uid: str) -> None:
        """A pod is gone, which may have been one of these."""
        for name in self._validations.gone(uid):
            self.look_at(name)

    def look_at(self, name: str) -> None:
        """What others say of a node changed: what DRA hands out, or what cards it reports."""
        if (known := self._state.node_objects.get(name)) is not None:
            self.upsert(known[0])

    def _drop(self, name: str) -> None:
        self._state.charges.node_gone(name)
        self._state.nodes.remove(name)
        self._state.reservations.node_gone(name)

    def namespace_changed(self, name: str) -> None:
        """Labels or annotations of a namespace changed, which queues and rules about pods select by."""
        self._state.affinity_index.namespace_changed(name)
        self._state.permissions.changed(namespaces=(name,))
        self._state.wake()

    def limits_changed(self, name: str) -> None:
        """What storage drivers can attach, or which volumes are free, changed on a node: nothing else of it did."""
        known = self._state.node_objects.get(name)
        if known is not None and (facts := self._state.storage.limit(known[1])) != known[1]:
            self._state.node_objects[name] = (known[0], facts)
            self._state.nodes.upsert(facts)
            self._state.wake()

    def look_again(self, records: Iterable[PodRecord]) -> None:
        """What the claims of these pods mean may have changed."""
        for record in records:
            meaning = self._state.storage.claimants.meaning(record)
            if record.exclusive != meaning.exclusive:  # whoever has a place counts, too
                record.exclusive = meaning.exclusive
                self._changed(record)
            if record.pod_class is None:
                continue
            if record.assumed or record.node:
                self._attach(record, meaning.attached(record.pod_class))
                continue
            pod_class = self._state._sharing.intern(meaning.on(record.pod_class))
            if (pod_class, meaning.reasons, meaning.unbound) != (record.pod_class, record.unbound, record.to_bind):
                record.pod_class = pod_class
                meaning.note(record)
                self._changed(record)

    def _attach(self, record: PodRecord, pod_class: PodClass) -> None:
        """The volumes of a pod that has a place are counted in another way from now on."""
        if pod_class is record.pod_class:
            return
        record.pod_class = self._state._sharing.intern(pod_class)
        if self._state.charges.counts_as(record.uid, record.pod_class):
            self._changed(record)

    def _changed(self, record: PodRecord) -> None:
        self._state.changes.gang_changed(record.gang)
        self._state.wake()


def _shown(facts: NodeFacts) -> tuple[bool, bool]:
    """What history tells of a node."""
    return facts.ready, facts.unschedulable
