"""What-if on frozen nodes: place pods, look, undo.

A trial owns a copy of the free room of each node and journals every placement. `undo` gives back, in reverse order,
exactly what was taken, so that every byte is restored. Next to the numbers it keeps a `ClassFit` per pod class.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.card_needs import move_parts
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.cards import IdleCards, Share
from t9ksched.engine.nodes import LARGEST, FrozenNodes
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.link_scores import LinkScores
from t9ksched.engine.placement.packing import CardPacking
from t9ksched.engine.placement.pod_affinity import PodAffinityState
from t9ksched.engine.placement.scores import FULL, combined, without_cards
from t9ksched.engine.placement.shared_volumes import Attached
from t9ksched.engine.plugins import BEST, Plugins
from t9ksched.engine.policy import Policy
from t9ksched.engine.work import Meter
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import HostPort, PodClass, ports_without

_MOST_COLUMNS: Final = 512
"""So many classes keep their arrays; beyond, thousands of pods that are all unlike would fill the memory."""
_BESIDE_USABLE: Final = 16
"""Models count so much less where shapes that only some nodes may run weigh more already: as much again would have pods
break into empty nodes of common models, and leave scarce ones to pods without cards.
"""
_A_COLUMN: Final = 1_000
"""Units of work to make a column, without its arrays."""


class Placement(NamedTuple):
    """Pods of one class on one node: `shares[i]` are pod i's cards, as `engine.cards` keeps them.

    With `held` the room is only reserved for them; they are not there yet.
    """

    column: ClassFit
    row: int
    pods: int
    shares: tuple[Share, ...]
    held: bool = False

    @property
    def takes(self) -> Int64s:
        """What it takes of each column on its node, shape (resources,); not to be written to."""
        return self.column.takes(self.row, self.pods, self.shares, self.held)


class Entry(NamedTuple):
    """A line of the journal: a placement made (sign 1) or given back (-1), and ports the node and the state before."""

    placement: Placement
    sign: int
    ports: tuple[HostPort, ...] | None
    state: int


class Trial:
    """The room that is left, and the journal of what was taken.

    Attributes:
        state: a number that says which room is left; it is the same again when what was taken was given back by `undo`
            or `unshift`.
    """

    def __init__(
        self,
        nodes: FrozenNodes,
        feasibility: FeasibilityCache,
        policy: Policy,
        pod_affinity: PodAffinityState | None = None,
        on_plugin_fault: Callable[[], None] = lambda: None,
        meter: Meter | None = None,
    ) -> None:
        self.nodes = nodes
        self.pod_affinity = pod_affinity
        self.affinity_weight = policy.affinity_weight
        self._cardless_weight = policy.cardless_weight
        self._model_weight = policy.model_weight
        weighs = policy.packing is not None and policy.packing.rule == "usable"
        self._model_part = _BESIDE_USABLE if weighs else 1
        self.scope: Mask | None = None
        """Only these nodes are looked at; see `within`."""
        self._feasibility = feasibility
        self.scores = self.feasibility.scores(policy.binpack)
        self.packing: CardPacking | None = None
        self.plugins = Plugins(policy.plugins, feasibility.plugged, on_plugin_fault)
        self.meter = meter or Meter()
        self.free: Int64s = nodes.free()
        self.cards = IdleCards(nodes.static.cards, nodes.cards_used)
        self.worths: CardWorths | None = None
        """What pods have of cards, where quotas count them; None where none does."""
        self.links = LinkScores(self) if nodes.static.cards.linked else None
        """Where the links of cards are known on some node."""
        self.base: Int64s = self.scores.base(nodes)
        self.ports: dict[str, tuple[HostPort, ...]] = dict(nodes.ports)
        self.journal: list[Entry] = []
        self.touched: list[int] = []
        self.state = self._states = 0
        self.resource_rows = {name: at for at, name in enumerate(nodes.static.resources)}
        self.attached = Attached(nodes, self.resource_rows, self.free)
        self._columns: dict[tuple[LabelSelector | None, PodClass], ClassFit] = {}
        self._full: deque[ClassFit] = deque()

    @property
    def fills(self) -> bool:
        """Whether the score of a node never falls when a pod is placed on it."""
        return self.scores.monotone and self.packing is None

    def column(self, selector: LabelSelector | None, pod_class: PodClass) -> ClassFit:
        """The keys of a class for queues with this node selector; the same object each time."""
        key = (selector, pod_class)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = ClassFit(self, selector, pod_class)
            self.meter.spent += _A_COLUMN
        return found

    def needs(self, pod_class: PodClass) -> Int64s:
        """What one pod takes, shape (resources,). Pods of the class need not be in the view, as for a `column`."""
        found = np.zeros(len(self.resource_rows), np.int64)
        for name, amount in pod_class.requests:
            at = self.resource_rows.get(name)
            if at is not None and 0 < amount <= LARGEST:
                found[at] = amount
        return found

    def counters(self, cards: CardGrant) -> Int64s:
        """What the parts of these cards take of the counters of a node, shape (resources,)."""
        found = np.zeros(len(self.resource_rows), np.int64)
        for name, amount in cards.counters:
            at = self.resource_rows.get(name)
            if at is not None:
                found[at] += amount
        return found

    def allowed(self, selector: LabelSelector | None, pod_class: PodClass) -> Mask:
        """Nodes on which pods of the class may run in a queue with this selector; not to be written to."""
        return self._by_plugins(self.feasibility.allowed(selector, pod_class), pod_class)

    def ever(self, selector: LabelSelector | None, pod_class: PodClass) -> Mask:
        """The same, with nodes that are away for now."""
        return self._by_plugins(self.feasibility.ever(selector, pod_class), pod_class)

    def _by_plugins(self, mask: Mask, pod_class: PodClass) -> Mask:
        for _, allows in self.plugins.filters(pod_class, self.nodes.static):
            mask = mask & allows
        return mask

    def bias(self, pod_class: PodClass, among: Mask, ruled: bool) -> Int64s | None:
        """What preferences about nodes and plugins add to the score of each node; None when they add nothing.

        The preferences of `ruled` classes are left to `ClassAffinity`: they are weighed against those about pods.
        """
        static = self.nodes.static
        points = self.plugins.scores(pod_class, static)
        parts = [
            None if ruled else combined(self.feasibility.preferred(pod_class), among, self.affinity_weight),
            None if pod_class.accelerated else without_cards(self.feasibility.bare(), among, self._cardless_weight),
            None if points is None else points * (FULL // BEST),
            self._models(pod_class, among),
        ]
        total: Int64s | None = None
        for part in parts:
            if part is not None:
                total = part if total is None else total + part
        return total

    def _models(self, pod_class: PodClass, among: Mask) -> Int64s | None:
        """What the models of cards add to the score of each node for pods of which several models will do."""
        resource = next(iter(pod_class.card_counts), "") if self._model_weight else ""
        if resource not in self.resource_rows:
            return None
        have = self.nodes.static.allocatable[self.resource_rows[resource]] > 0
        points = combined(self.feasibility.card_models(resource), among & have, self._model_weight)
        return None if points is None else points // self._model_part

    def commit(self) -> None:
        """What was placed stays; there is nothing to undo any more."""
        self.journal.clear()

    def close(self) -> None:
        """Let go of the columns, which know the trial. Nothing is placed or asked any more."""
        for column in self._columns.values():
            column.close()
        self.links = None

    def keep(self, column: ClassFit) -> None:
        """A column has made its arrays; the one that made them longest ago gives its own back when there are many."""
        self._full.append(column)
        if len(self._full) > _MOST_COLUMNS:
            self._full.popleft().drop()

    @property
    def feasibility(self) -> FeasibilityCache:
        """The cache, at this trial's nodes: between two slices of a plan it may have served another."""
        self._feasibility.follow(self.nodes)
        return self._feasibility

    def within(self, scope: Mask | None) -> None:
        """From now on place on these nodes only; None for all."""
        self.scope = scope

    def mark(self) -> int:
        """A point to which `undo` returns."""
        return len(self.journal)

    def since(self, mark: int) -> list[Placement]:
        """What was placed after a mark and stands, in order."""
        return [entry.placement for entry in self.journal[mark:] if entry.sign > 0]

    def place(self, column: ClassFit, row: int, pods: int, planned: CardGrant = NO_CARDS) -> None:
        """Take room for pods of a class on a node. They must fit; the lowest idle cards are theirs. A single pod gets
        the parts of divided cards that were `planned` for it.
        """
        needs = column.card_needs
        if len(needs) == 1:  # what most classes ask for
            ((at, each),) = needs
            shares = self.cards.take_of(at, each, row, pods)
        else:
            shares = self.cards.take(needs, row, pods) if needs else ()
        if column.part_needs and column.divides(row):
            shares = self._divide(column, row, pods, shares, planned)
        self._take(column, row, pods)
        self._write_down(Placement(column, row, pods, shares), 1)

    def place_many(self, column: ClassFit, rows: Int64s, pods: Int64s, held: bool = False) -> None:
        """As `place`, for many nodes at once; `rows` are distinct. Not for classes that may be shut out.

        With `held` room is promised, whether it is there or not, and no card by index.
        """
        shares: Iterable[tuple[Share, ...]] = [()] * len(rows)
        if column.card_needs and not held:
            shares = self.cards.take_many(column.card_needs, rows, pods)
        if column.part_needs:
            shares = [
                self._divide(column, row, count, given) if column.divides(row) else given
                for row, count, given in zip(rows.tolist(), pods.tolist(), shares, strict=True)
            ]
        self.free[:, rows] -= column.needs_vector[:, None] * pods
        self.base[rows] += column.gains()[rows] * pods
        if column.seen and self.pod_affinity is not None:
            self.pod_affinity.add(column.contribution, rows, pods, held)
        where = rows.tolist()
        self.touched.extend(where)
        self.journal.extend(
            Entry(Placement(column, row, count, given, held), 1, None, self.state)
            for row, count, given in zip(where, pods.tolist(), shares, strict=True)
        )
        self._change()

    def placed(self, rows: Sequence[int]) -> None:
        """Room on these nodes was taken by other means, and stays taken."""
        self.touched.extend(rows)
        self.journal.clear()
        self._change()

    def occupy(self, column: ClassFit, row: int, cards: CardGrant) -> Placement:
        """Take room for one pod whether it fits or not: room that is promised.

        Only `cards` that are named are taken by index; of others the number is kept free, whichever they will be.
        """
        shares = self.cards.share(column.card_needs, column.card_names, row, cards)
        if column.part_needs and column.divides(row):
            shares = column.share_of(row, cards)
        placement = Placement(column, row, 1, shares, held=True)
        self._record(placement, 1)
        return placement

    def lend(self, room: Mapping[int, Int64s]) -> None:
        """Add this much room, by row, for the placements that follow; the caller takes it back with negative
        amounts.
        """
        for row, amounts in room.items():
            self.free[:, row] += amounts
            self.touched.append(row)
        self._change()

    def shift(self, change: Int64s) -> tuple[int, int]:
        """Add this to the free room, shape (resources, nodes), until the caller takes it back by `unshift`, with what
        this returns.
        """
        before = self.state
        self._shift(change)
        return before, self.state

    def unshift(self, change: Int64s, states: tuple[int, int]) -> None:
        """Take a change back."""
        before, then = states
        unchanged = self.state == then
        self._shift(-change)
        if unchanged:
            self.state = before

    def _shift(self, change: Int64s) -> None:
        self.free += change
        self.touched.extend(np.flatnonzero(change.any(axis=0)).tolist())
        self._change()

    def _change(self) -> None:
        """The room that is left has never been this before."""
        self._states += 1
        self.state = self._states

    def release(self, placement: Placement) -> None:
        """Give promised room back; undo takes it again."""
        self._record(placement, -1)

    def undo(self, mark: int) -> None:
        """Return to a mark: every number is again what it was, and every card."""
        journal = self.journal
        while len(journal) > mark:
            placement, sign, ports, state = journal.pop()
            self._apply(placement, -sign)
            self.state = state
            if ports is not None:
                self._set_ports(self.nodes.names[placement.row], ports)

    def _record(self, placement: Placement, sign: int) -> None:
        """Apply and write down."""
        self._apply(placement, sign)
        self._write_down(placement, sign)

    def _write_down(self, placement: Placement, sign: int) -> None:
        """Add a line to the journal, and take or give the host ports."""
        mine = placement.column.ports
        before = None
        if mine:
            name = self.nodes.names[placement.row]
            before = self.ports.get(name, ())
            those = mine * placement.pods
            self._set_ports(name, before + those if sign > 0 else ports_without(before, those))
        self.journal.append(Entry(placement, sign, before, self.state))
        self._change()

    def _set_ports(self, name: str, ports: tuple[HostPort, ...]) -> None:
        if ports:
            self.ports[name] = ports
        else:
            self.ports.pop(name, None)

    def _apply(self, placement: Placement, sign: int) -> None:
        column, row, pods, shares, held = placement
        if column.part_needs and column.divides(row):
            shares = self._move_parts(column, row, shares, sign, held)
        self.cards.move(column.card_needs, row, shares, sign)
        self._take(column, row, sign * pods, held)

    def _divide(
        self, column: ClassFit, row: int, pods: int, shares: tuple[Share, ...], planned: CardGrant = NO_CARDS
    ) -> tuple[Share, ...]:
        """Take parts of cards for pods on a node that divides some. `shares` are those of its other cards; `planned` as
        in `place`.
        """
        by_resource = [[share[at] for share in shares] for at in range(len(column.card_names))]
        for at, need in enumerate(column.part_needs):
            if need is None or not need.on(row):
                continue
            if need.of.resource in planned.resources:
                share = need.share(planned)
                need.move(self.free[:, row], row, share, 1)
                by_resource[at] = [share]
            else:
                card = self.packing.card(column, row) if self.packing is not None and pods == 1 else None
                by_resource[at] = list(need.take(self.free[:, row], row, pods, card))
        return tuple(zip(*by_resource, strict=True))

    def _move_parts(
        self, column: ClassFit, row: int, shares: tuple[Share, ...], sign: int, held: bool
    ) -> tuple[Share, ...]:
        """Take parts of cards (sign 1), or give them back (-1); returns the shares without them."""
        move_parts(column.part_needs, self.free[:, row], row, shares, sign, held)
        divided = [need is not None and need.on(row) for need in column.part_needs]
        return tuple(
            tuple(0 if parts else mask for parts, mask in zip(divided, share, strict=True)) for share in shares
        )

    def _take(self, column: ClassFit, row: int, pods: int, held: bool = False) -> None:
        """Take room for pods, or give it back (negative): everything but cards by index and ports."""
        self.free[:, row] -= column.needs_vector if pods == 1 else column.needs_vector * pods
        self.base[row] += column.gain_of(row) * pods
        if column.volumes is not None:
            self.attached.add(column.pod_class.volumes, row, pods, promised=held)
        if column.seen and self.pod_affinity is not None:
            self.pod_affinity.add(column.contribution, row, pods, held)
        self.touched.append(row)
