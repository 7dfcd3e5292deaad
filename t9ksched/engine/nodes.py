"""The nodes of the cluster as columns of whole numbers.

`NodeTable` is live: the scheduler updates it event by event; a node keeps its row. `freeze()` gives `FrozenNodes`, on
which one cycle plans: an independent copy of the numbers, in order of node names, so that the order of events cannot
change a plan. What placing pods does not change (`Static`) is shared between copies until a node itself changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Masks
from t9ksched.engine.card_needs import divided_cards
from t9ksched.engine.card_parts import DividedCards
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.cards import CardColumns, HeldCards
from t9ksched.engine.fact_columns import FactColumns
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import HostPort, PodClass, SharedVolume, ports_without

LARGEST: Final = 1 << 53
"""The largest amount of one resource that is counted (8 PiB); more is cut off, so that sums stay inside 64 bits."""


class Static(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What placing pods does not change, nodes in order of names.

    Attributes:
        names, facts: one a node.
        index: row by name.
        generation: one a node, larger after each change of its facts.
        resources: names of the rows of `allocatable`, sorted; shape (resources, nodes), each row contiguous. Counters
            of divided cards are among them.
        cards: which cards there are, and which of them take work.
        withdrawn: how many take no work, as rows of `allocatable`, of resources that are counted by number; None when
            nowhere any.
        divided: the divided cards by resource; empty where no node divides cards.
        card_kinds: what one unit of a card resource is on the nodes that have any (`model.cardchoice`).
        cordoned_rows: nodes with cordoned cards.
    """

    names: tuple[str, ...]
    facts: tuple[NodeFacts, ...]
    index: Mapping[str, int]
    generation: tuple[int, ...]
    resources: tuple[str, ...]
    allocatable: Int64s
    cards: CardColumns
    withdrawn: Int64s | None
    divided: Mapping[str, DividedCards]
    card_kinds: frozenset[str]
    cordoned_rows: tuple[int, ...]

    @cached_property
    def worths(self) -> CardWorths:
        """What pods have of the cards of each node."""
        return CardWorths(self.facts)


class FrozenNodes(msgspec.Struct, frozen=True, eq=False):
    """The nodes at one moment; never written to.

    Attributes:
        static: shared with other copies while no node changed.
        used: shape (resources, nodes), as `static.allocatable`.
        cards_used: the cards with a known holder, shape (card resources, nodes), read by `static.cards`.
        ports: taken host ports by node name, nodes without any left out.
        volumes: how many pods use each shared volume, by node name. What of them a node has is counted in `used`.
    """

    static: Static
    used: Int64s
    cards_used: Masks
    ports: Mapping[str, tuple[HostPort, ...]] = msgspec.field(default_factory=dict)
    volumes: Mapping[str, Mapping[SharedVolume, int]] = msgspec.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, sorted."""
        return self.static.names

    def row(self, name: str) -> int:
        """Row of a node. Raises KeyError for an unknown name."""
        return self.static.index[name]

    def __len__(self) -> int:
        return len(self.static.names)

    def free(self) -> Int64s:
        """What is left, shape (resources, nodes); a fresh array, negative where a node is overcommitted.

        Where cards have indices, at most the cards without a holder are free. Pods whose cards are unknown (another
        scheduler placed them, or the node's device plugin chose) may hold any of those, so their number is subtracted
        too.
        """
        static = self.static
        free = static.allocatable - self.used
        if static.withdrawn is not None:
            free -= static.withdrawn
        for resource in static.cards.names:
            column = static.resources.index(resource)
            left, indexed = static.cards.free(self.cards_used, resource, self.used[column])
            np.minimum(free[column], left, out=free[column], where=indexed)
        return free


class NodeTable:
    """The live nodes: their facts as last seen, and the room that pods take on them."""

    def __init__(self) -> None:
        self.generation: list[int] = []
        """One a row; grows by one with each change of the node's facts, across removal too."""
        self.charged: list[int] = []
        """One a row; grows by one with each charge and discharge."""
        self.touched: dict[str, None] = {}
        """Names of nodes whose facts or room changed, until who follows them clears it."""
        self._rows: dict[str, int] = {}
        self._facts: list[NodeFacts | None] = []
        self._spare: list[int] = []
        self._resources: dict[str, int] = {}
        self._used: Int64s = np.zeros((8, 64), np.int64)
        self._cards = HeldCards(64)
        self._columns = FactColumns(64, LARGEST)
        self._ports: dict[str, tuple[HostPort, ...]] = {}
        self._volumes: dict[str, Mapping[SharedVolume, int]] = {}
        self._static: Static | None = None
        self._order: Indices = np.zeros(0, np.intp)
        self._names: tuple[str, ...] | None = ()
        """In order; None while nodes came or went."""
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    @property
    def names(self) -> list[str]:
        """Names of the nodes, sorted."""
        return sorted(self._rows)

    def row(self, name: str) -> int:
        """The node's row; it keeps it until it is removed. Raises KeyError for an unknown name."""
        return self._rows[name]

    def facts(self, name: str) -> NodeFacts:
        """The node's facts as last given. Raises KeyError for an unknown name."""
        facts = self._facts[self._rows[name]]
        assert facts is not None
        return facts

    def find(self, name: str) -> NodeFacts | None:
        """The node's facts as last given; None for an unknown name."""
        row = self._rows.get(name)
        return None if row is None else self._facts[row]

    def upsert(self, facts: NodeFacts) -> int:
        """Take a node in, or its changed facts; room taken on it stays taken. Returns its row."""
        row = self._rows.get(facts.name)
        if row is None:
            row = self._new_row()
            self._rows[facts.name] = row
            self._names = None
        elif self._facts[row] == facts:
            return row
        self._columns.write(row, facts, self._facts[row])
        self._facts[row] = facts
        self.generation[row] += 1
        self.touched[facts.name] = None
        for resource in (*facts.allocatable, *facts.cards.counters):
            self._column(resource)
        for resource in facts.cards.resources:
            self._know_cards(resource)
        self._static = None
        return row

    def remove(self, name: str) -> None:
        """Forget a node and what was charged on it; unknown names are ignored."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._columns.write(row, None, self._facts[row])
        self._facts[row] = None
        self._names = None
        self.generation[row] += 1
        self.touched[name] = None
        self._used[:, row] = 0
        self._cards.clear(row)
        self._ports.pop(name, None)
        self._volumes.pop(name, None)
        self._spare.append(row)
        self._static = None

    def charge(self, row: int, pod_class: PodClass, cards: CardGrant = NO_CARDS) -> None:
        """Take room for a pod that holds these cards; none where they are not known."""
        self.charged[row] += 1
        self.touched[self._name(row)] = None
        self._take(row, pod_class.requests)
        if cards:
            if cards.parts:
                self._take(row, cards.counters)
            if not self._cards.knows(cards):
                for resource in cards.resources:
                    self._know_cards(resource)
            self._cards.hold(row, cards)
        if pod_class.host_ports:
            name = self._name(row)
            self._ports[name] = self._ports.get(name, ()) + pod_class.host_ports
        if pod_class.volumes:
            self._use(row, pod_class.volumes, 1)

    def _use(self, row: int, volumes: Iterable[SharedVolume], sign: int) -> None:
        """One more pod, or one fewer, uses these volumes: each is attached for the first, and until the last is gone.
        What is known already of the node is not changed, since frozen nodes have it, too.
        """
        name = self._name(row)
        known = dict(self._volumes.get(name, {}))
        for volume in volumes:
            before = known.get(volume, 0)
            known[volume] = before + sign
            if not known[volume]:
                del known[volume]
            if not before or not known.get(volume):
                column = self._column(volume.limit)  # may make `_used` anew
                self._used[column, row] += sign
        if known:
            self._volumes[name] = known
        else:
            self._volumes.pop(name, None)

    def restore(self, name: str, volumes: Mapping[SharedVolume, int]) -> None:
        """So many pods use these shared volumes on a node; that it has them was charged already."""
        if volumes:
            self._volumes[name] = dict(volumes)

    def _take(self, row: int, amounts: Iterable[tuple[str, int]]) -> None:
        columns, used = self._resources, self._used
        for resource, amount in amounts:
            if resource not in columns:
                self._column(resource)
                used = self._used
            column = columns[resource]
            used[column, row] = used.item(column, row) + (amount if amount < LARGEST else LARGEST)

    def discharge(self, row: int, pod_class: PodClass, cards: CardGrant = NO_CARDS) -> None:
        """Give back what `charge` took with the same arguments."""
        self.charged[row] += 1
        self.touched[self._name(row)] = None
        for resource, amount in pod_class.requests:
            self._used[self._column(resource), row] -= min(amount, LARGEST)
        for resource, amount in cards.counters:
            self._used[self._column(resource), row] -= min(amount, LARGEST)
        self._cards.release(row, cards)
        if pod_class.host_ports:
            name = self._name(row)
            if left := ports_without(self._ports.get(name, ()), pod_class.host_ports):
                self._ports[name] = left
            else:
                self._ports.pop(name, None)
        if pod_class.volumes:
            self._use(row, pod_class.volumes, -1)

    def used(self, name: str) -> dict[str, int]:
        """What pods take on a node, in units by resource, zeros left out."""
        row = self._rows[name]
        amounts = {resource: int(self._used[column, row]) for resource, column in sorted(self._resources.items())}
        return {resource: amount for resource, amount in amounts.items() if amount}

    def cards_used(self, name: str) -> CardGrant:
        """The cards of a node with a known holder, of the resources that have indices there."""
        return self._cards.on(self._rows[name], self.facts(name).cards.resources)

    def cards_taken(self, name: str, cards: CardGrant) -> bool:
        """Whether one of these cards has a known holder. Raises KeyError when the node is unknown."""
        return self._cards.taken(self._rows[name], cards)

    def still_fits(self, name: str, generation: int, pod_class: PodClass, cards: CardGrant = NO_CARDS) -> bool:
        """Whether the node is there, has not changed since it had this generation, and has room as `has_room` says."""
        row = self._rows.get(name)
        return row is not None and self.generation[row] == generation and self._has_room(row, pod_class, cards)

    def has_room(self, name: str, pod_class: PodClass, cards: CardGrant = NO_CARDS) -> bool:
        """Whether the node can take such a pod on these cards now. Raises KeyError when unknown."""
        return self._has_room(self._rows[name], pod_class, cards)

    def _has_room(self, row: int, pod_class: PodClass, cards: CardGrant) -> bool:
        facts = self._facts[row]
        assert facts is not None
        allocatable, cordoned = facts.allocatable, facts.cordoned
        columns, used = self._resources, self._used.item
        for resource, amount in pod_class.requests:
            taken = used(columns[resource], row) if resource in columns else 0
            left = allocatable.get(resource, 0) - taken
            if amount > (left - cordoned.get(resource, 0) if cordoned else left):
                return False
        if pod_class.volumes and not self._attaches(row, pod_class):
            return False
        if cards.parts:
            counters = facts.cards.counters
            if any(self._taken(row, name) + amount > counters.get(name, 0) for name, amount in cards.counters):
                return False
            cards = cards.undivided
        return not self._cards.taken(row, cards)

    def _attaches(self, row: int, pod_class: PodClass) -> bool:
        """Whether the node can attach the shared volumes of a pod that it has not yet, beside the pod's own."""
        facts = self._facts[row]
        assert facts is not None
        there, own = self._volumes.get(facts.name, {}), dict(pod_class.requests)
        lacks = Counter(volume.limit for volume in pod_class.volumes if volume not in there)
        return all(
            own.get(limit, 0) + count <= facts.allocatable.get(limit, 0) - self._taken(row, limit)
            for limit, count in lacks.items()
        )

    def _taken(self, row: int, resource: str) -> int:
        column = self._resources.get(resource)
        return 0 if column is None else self._used.item(column, row)

    def freeze(self) -> FrozenNodes:
        """The present moment as a value of its own."""
        static = self._static or self._freeze_static()
        order = self._order
        used = np.empty((len(static.resources), len(order)), np.int64)
        for at, resource in enumerate(static.resources):
            np.take(self._used[self._resources[resource]], order, out=used[at], mode="clip")
        return FrozenNodes(static, used, self._cards.freeze(order), self._ports.copy(), self._volumes.copy())

    def _freeze_static(self) -> Static:
        if self._names is None:
            self._names = tuple(sorted(self._rows))
            self._index = {name: row for row, name in enumerate(self._names)}
            self._order = np.array([self._rows[name] for name in self._names], np.intp)
        order = self._order.tolist()
        facts = tuple(fact for fact in map(self._facts.__getitem__, order) if fact is not None)
        resources = tuple(sorted(self._resources))
        columns = self._columns
        allocatable = columns.allocatable(resources, self._order)
        divided: Mapping[str, DividedCards] = {}
        if columns.divides:
            index = {resource: at for at, resource in enumerate(resources)}
            divided = divided_cards([fact.cards for fact in facts], index, allocatable)
        self._static = Static(
            self._names,
            facts,
            self._index,
            tuple(map(self.generation.__getitem__, order)),
            resources,
            allocatable,
            columns.cards(self._cards.names, self._order),
            columns.withdrawn(resources, self._order),
            divided,
            columns.kinds,
            columns.cordoned(self._order),
        )
        return self._static

    def _new_row(self) -> int:
        if self._spare:
            return self._spare.pop()
        self._facts.append(None)
        self.generation.append(0)
        self.charged.append(0)
        row = len(self._facts) - 1
        if row >= self._used.shape[1]:
            self._used = _doubled(self._used, axis=1)
            self._cards.double()
            self._columns.double()
        return row

    def _column(self, resource: str) -> int:
        column = self._resources.get(resource)
        if column is None:
            column = self._resources[resource] = len(self._resources)
            if column >= self._used.shape[0]:
                self._used = _doubled(self._used, axis=0)
            self._static = None
        return column

    def _know_cards(self, resource: str) -> None:
        if self._cards.know(resource):
            self._column(resource)
            self._static = None

    def _name(self, row: int) -> str:
        facts = self._facts[row]
        assert facts is not None
        return facts.name


def _doubled(array: Int64s, axis: int) -> Int64s:
    return np.concatenate([array, np.zeros_like(array)], axis=axis)
