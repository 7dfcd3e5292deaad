"""What-if on a frozen picture: place pods, look, undo.

A trial owns a copy of what is left on each node and writes every placement into a journal; `undo` gives back, in
reverse order, exactly what was taken, so every byte returns. Next to the numbers it keeps, per pod class, one column of
*keys*: the node's score for one more such pod, or `NEVER` where none fits. A placement touches few nodes; a class
brings the keys of touched nodes up to date when it is asked again, so a gang costs microseconds a node it lands on.
"""

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.cards import Grant, deal, split
from t9ksched.engine.nodes import LARGEST, FrozenNodes, Int64s, Masks
from t9ksched.engine.placement.feasibility import FeasibilityCache, Mask
from t9ksched.engine.placement.pod_affinity import NOBODY, Crowd, Sight
from t9ksched.engine.placement.scores import FULL, combined, without_cards
from t9ksched.engine.plugins import BEST, Plugins
from t9ksched.engine.policy import Policy
from t9ksched.engine.work import Meter
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.podrules import PodTerm

NEVER: Final = np.iinfo(np.int64).min
"""Key of a node on which no pod of the class fits."""
_MOST_COLUMNS: Final = 512
"""So many classes keep their arrays; beyond, thousands of pods that are all unlike would fill the memory."""
_A_COLUMN: Final = 1_000
"""Units of work to make a column, without its arrays."""
_FEW: Final = 6
"""Up to so many touched nodes are refreshed one by one, more in one sweep."""


class Placement(NamedTuple):
    """Pods of one class on one node: `masks[i]` are pod i's cards, one a card resource of the class.

    With `held` the room is only promised to them; they do not stand there yet.
    """

    column: "ClassFit"
    row: int
    pods: int
    masks: tuple[tuple[int, ...], ...]
    held: bool = False


class Entry(NamedTuple):
    """A line of the journal: a placement made (sign 1) or given back (-1), and ports the node had before."""

    placement: Placement
    sign: int
    ports: tuple[HostPort, ...] | None


class Trial:
    """The room that is left, and the journal of what was taken."""

    def __init__(self, nodes: FrozenNodes, memo: FeasibilityCache, policy: Policy, crowd: Crowd | None = None) -> None:
        self.nodes = nodes
        self.crowd = crowd
        self.affinity_weight = policy.affinity_weight
        self._cardless_weight = policy.cardless_weight
        self.scope: Mask | None = None
        """Only these nodes are looked at; see `within`."""
        self._memo = memo
        self.scores = self.memo.scores(policy.binpack)
        self.plugins = Plugins(policy.plugins, memo.plugged, memo.failures.distrust)
        self.meter = Meter()
        self.free: Int64s = nodes.free()
        self.idle: Masks = nodes.static.usable & ~nodes.cards_used
        self.base: Int64s = self.scores.base(nodes)
        self.ports: dict[str, tuple[HostPort, ...]] = dict(nodes.ports)
        self.journal: list[Entry] = []
        self.touched: list[int] = []
        self.resource_rows = {name: at for at, name in enumerate(nodes.static.resources)}
        self.card_rows = {name: at for at, name in enumerate(nodes.static.card_resources)}
        self._columns: dict[tuple[LabelSelector | None, PodClass], ClassFit] = {}
        self._full: deque[ClassFit] = deque()

    def column(self, selector: LabelSelector | None, pod_class: PodClass) -> "ClassFit":
        """The keys of a class for queues with this node selector; the same object each time."""
        key = (selector, pod_class)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = ClassFit(self, selector, pod_class)
            self.meter.spent += _A_COLUMN
        return found

    def allowed(self, selector: LabelSelector | None, pod_class: PodClass) -> Mask:
        """Nodes on which pods of the class may run in a queue with this selector; not to be written to."""
        mask = self.memo.allowed(selector, pod_class)
        for _, allows in self.plugins.filters(pod_class, self.nodes.static):
            mask = mask & allows
        return mask

    def bias(self, pod_class: PodClass, among: Mask, ruled: bool) -> Int64s | None:
        """What preferences about nodes and plugins add to the score of each node; None when they add nothing.

        The preferences of `ruled` classes are left to `Sight`: they are weighed against those about pods.
        """
        static = self.nodes.static
        points = self.plugins.scores(pod_class, static)
        parts = [
            None if ruled else combined(self.memo.preferred(pod_class), among, self.affinity_weight),
            None if pod_class.accelerated else without_cards(self.memo.bare(), among, self._cardless_weight),
            None if points is None else points * (FULL // BEST),
        ]
        total: Int64s | None = None
        for part in parts:
            if part is not None:
                total = part if total is None else total + part
        return total

    def commit(self) -> None:
        """What was placed stays; there is nothing to undo any more."""
        self.journal.clear()

    def keep(self, column: "ClassFit") -> None:
        """A column has made its arrays; the one that made them longest ago gives its own back when there are many."""
        self._full.append(column)
        if len(self._full) > _MOST_COLUMNS:
            self._full.popleft().drop()

    @property
    def memo(self) -> FeasibilityCache:
        """The memo, at this trial's nodes: between two slices of a plan it may have served another."""
        self._memo.follow(self.nodes)
        return self._memo

    def within(self, scope: Mask | None) -> None:
        """From now on place on these nodes only; None for all."""
        if scope is not self.scope:
            self.scope = scope
            for column in self._columns.values():
                column.rescope()

    def mark(self) -> int:
        """A point to which `undo` returns."""
        return len(self.journal)

    def since(self, mark: int) -> list[Placement]:
        """What was placed after a mark and stands, in order."""
        return [entry.placement for entry in self.journal[mark:] if entry.sign > 0]

    def place(self, column: "ClassFit", row: int, pods: int) -> None:
        """Take room for pods of a class on a node. They must fit; the lowest idle cards are theirs."""
        needs = column.card_needs
        masks: tuple[tuple[int, ...], ...] = ()
        if len(needs) == 1:
            ((at, each),) = needs
            masks, self.idle[at, row] = deal(self.idle.item(at, row), each, pods)
        elif needs:
            masks = tuple(zip(*[split(int(self.idle[at, row]), each, pods) for at, each in needs], strict=True))
            self._take_cards(column, row, masks, 1)
        self._take(column, row, pods)
        self._write_down(Placement(column, row, pods, masks), 1)

    def place_many(self, column: "ClassFit", rows: Int64s, pods: Int64s, held: bool = False) -> None:
        """As `place`, for many nodes at once; `rows` are distinct. Not for classes with host ports.

        With `held` room is promised, whether it is there or not, and no card by index.
        """
        shares: list[tuple[tuple[int, ...], ...]] = [()] * len(rows)
        if column.card_needs and not held:
            by_card = []
            for at, each in column.card_needs:
                idle = self.idle[at, rows].tolist()
                by_card.append([split(mask, each, count) for mask, count in zip(idle, pods.tolist(), strict=True)])
                gone = [idle_mask & ~_union(given) for idle_mask, given in zip(idle, by_card[-1], strict=True)]
                self.idle[at, rows] = np.array(gone, np.uint64)
            shares = [tuple(zip(*given, strict=True)) for given in zip(*by_card, strict=True)]
        self.free[:, rows] -= column.needs_vector[:, None] * pods
        self.base[rows] += column.gains()[rows] * pods
        if column.seen and self.crowd is not None:
            self.crowd.add(column.standing, rows, pods, held)
        where = rows.tolist()
        self.touched.extend(where)
        self.journal.extend(
            Entry(Placement(column, row, count, given, held), 1, None)
            for row, count, given in zip(where, pods.tolist(), shares, strict=True)
        )

    def occupy(self, column: "ClassFit", row: int, cards: Mapping[str, int]) -> Placement:
        """Take room for one pod whether it fits or not: room that is promised.

        Only `cards` that are named are taken by index; of others the number is kept free, whichever they will be.
        """
        masks = [
            cards.get(name, 0) & int(self.idle[at, row])
            for name, (at, _) in zip(column.card_names, column.card_needs, strict=True)
        ]
        placement = Placement(column, row, 1, (tuple(masks),) if masks else (), held=True)
        self._record(placement, 1)
        return placement

    def lend(self, room: Mapping[int, Int64s]) -> None:
        """Let those who are placed next use this much more room, by row; whoever lends takes it back, negative."""
        for row, amounts in room.items():
            self.free[:, row] += amounts
            self.touched.append(row)

    def release(self, placement: Placement) -> None:
        """Give promised room back; undo takes it again."""
        self._record(placement, -1)

    def undo(self, mark: int) -> None:
        """Return to a mark: every number and mask is again what it was."""
        journal = self.journal
        while len(journal) > mark:
            placement, sign, ports = journal.pop()
            self._apply(placement, -sign)
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
            left = list(before)
            if sign > 0:
                left += mine * placement.pods
            else:
                for port in mine * placement.pods:
                    left.remove(port)
            self._set_ports(name, tuple(left))
        self.journal.append(Entry(placement, sign, before))

    def _set_ports(self, name: str, ports: tuple[HostPort, ...]) -> None:
        if ports:
            self.ports[name] = ports
        else:
            self.ports.pop(name, None)

    def _apply(self, placement: Placement, sign: int) -> None:
        column, row, pods, masks, held = placement
        self._take_cards(column, row, masks, sign)
        self._take(column, row, sign * pods, held)

    def _take(self, column: "ClassFit", row: int, pods: int, held: bool = False) -> None:
        """Take room for pods, or give it back (negative): everything but cards by index and ports."""
        self.free[:, row] -= column.needs_vector if pods == 1 else column.needs_vector * pods
        self.base[row] += column.gain_of(row) * pods
        if column.seen and self.crowd is not None:
            self.crowd.add(column.standing, row, pods, held)
        self.touched.append(row)

    def _take_cards(self, column: "ClassFit", row: int, masks: Sequence[tuple[int, ...]], sign: int) -> None:
        for nth, (at, _) in enumerate(column.card_needs):
            taken = _union(shares[nth] for shares in masks)
            idle = int(self.idle[at, row])
            self.idle[at, row] = idle & ~taken if sign > 0 else idle | taken


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


class ClassFit:
    """How well each node suits one more pod of a class, for queues with one node selector.

    Attributes:
        needs: `(row of resource, amount)`; `needs_vector` is the same for all resources.
        card_needs: `(row of card resource, cards a pod)`.
        known: False when it asks for a resource that no node has, or for more than any number we count in.
    """

    def __init__(self, trial: Trial, selector: LabelSelector | None, pod_class: PodClass) -> None:
        self.trial = trial
        self.pod_class = pod_class
        self.selector = selector
        rows = trial.resource_rows
        self.known = all(name in rows and amount <= LARGEST for name, amount in pod_class.requests)
        self.needs = [
            (rows[name], amount) for name, amount in pod_class.requests if name in rows and 0 < amount <= LARGEST
        ]
        self.needs_vector = np.zeros(len(rows), np.int64)
        for at, amount in self.needs:
            self.needs_vector[at] = amount
        self.card_names = tuple(name for name in pod_class.card_counts if name in trial.card_rows)
        self.card_needs = [(trial.card_rows[name], pod_class.card_counts[name]) for name in self.card_names]
        self.ports = pod_class.host_ports
        crowd, rules = trial.crowd, pod_class.rules
        self.standing = crowd.standing(pod_class) if crowd else NOBODY
        self.seen = bool(self.standing)
        """Others' rules may ask where its pods stand."""
        self.ruled = crowd is not None and (
            (rules is not None and bool(rules.terms)) or any(crowd.asks(at) for at in self.standing.counted)
        )
        """Where its next pod may go depends on where pods stand."""
        self.terms = (*(rules.terms if rules else ()), *pod_class.counted) if self.ruled else ()
        """What that depends on."""
        self.written: dict[tuple[int, ...], tuple[tuple[Grant, ...], tuple[tuple[str, int], ...]]] = {}
        """Cards as they are written on pods, by masks; filled by the planner."""
        self._seen = -1
        self._mask: Mask | None = None
        self._gain: Int64s | None = None
        self._key: Int64s | None = None
        self._bias: Int64s | None = None

    def sight(self) -> Sight:
        """What the rules of the class allow now."""
        crowd = self.trial.crowd
        assert crowd is not None
        return Sight(crowd, self.trial.memo, self.pod_class, self.mask, self.trial.affinity_weight)

    def reachable(self, company: Container[PodTerm] = ()) -> Mask:
        """Allowed nodes that its rules about pods permit sooner or later, with those beside it that `company` names."""
        return self.mask & self.sight().reachable(company) if self.ruled else self.mask

    def rescope(self) -> None:
        """The nodes that are looked at have changed."""
        self._key = None
        self._seen = -1

    @property
    def mask(self) -> Mask:
        """Nodes that are allowed at all, shape (nodes,)."""
        if self._mask is None:
            self._mask = self.trial.allowed(self.selector, self.pod_class)
        return self._mask

    @property
    def here(self) -> Mask:
        """Nodes that are allowed and looked at, shape (nodes,)."""
        return self.mask if self.trial.scope is None else self.mask & self.trial.scope

    def gains(self) -> Int64s:
        """What one pod adds to each node's score, shape (nodes,)."""
        if self._gain is None:
            self.trial.meter.spent += len(self.needs_vector) * len(self.trial.nodes)
            self._gain = self.trial.scores.gain(self.needs_vector)
            self._bias = self.trial.bias(self.pod_class, self.mask, self.ruled)
            self.trial.keep(self)
        return self._gain

    @property
    def prefers(self) -> bool:
        """Whether more than room decides which node it suits best: preferences, plugins, rules about pods."""
        self.gains()
        return self.ruled or self._bias is not None

    def gain_of(self, row: int) -> np.int64:
        """What one pod adds to a node's score."""
        if self._gain is None:
            return self.trial.scores.gain_of(self.needs_vector, row)
        gain: np.int64 = self._gain[row]
        return gain

    def drop(self) -> None:
        """Give the arrays back; they are made again when they are needed."""
        self._mask = self._gain = self._key = self._bias = None
        self._seen = -1

    def refresh(self) -> Int64s:
        """The score of each node for one more pod, or `NEVER`; shape (nodes,), brought up to date."""
        touched = self.trial.touched
        fresh = len(touched) - self._seen
        if self._key is None:
            self.gains()
            self._key = np.full(len(self.trial.nodes), NEVER, np.int64)
            self._sweep(None)
        elif not fresh:
            return self._key
        elif fresh * 4 > len(self._key):
            self._sweep(None)
        elif fresh <= _FEW:
            for row in touched[self._seen :]:
                self._key[row] = self.score(row) if self.room(row) > 0 else NEVER
        else:
            self._sweep(np.array(touched[self._seen :], np.intp))
        self._seen = len(touched)
        return self._key

    def score(self, row: int) -> np.int64:
        """The score of a node for one more pod, which must fit."""
        score: np.int64 = self.trial.base[row] + self.gain_of(row)
        return score if self._bias is None else score + self._bias[row]

    def caught_up(self) -> None:
        """The caller has set the keys of the nodes it touched itself."""
        self._seen = len(self.trial.touched)

    def room(self, row: int) -> int:
        """How many pods of the class fit on a node now."""
        if not self.known or not self.mask[row]:
            return 0
        if self.trial.scope is not None and not self.trial.scope[row]:
            return 0
        left = self.trial.free[:, row].tolist()
        room = LARGEST
        for at, amount in self.needs:
            fit = left[at] // amount
            if fit < room:
                room = fit
        if room <= 0:
            return 0
        if self.ports:
            return 0 if self.ports_taken(row) else 1
        return room

    def rooms(self, free: Int64s | None = None) -> Int64s:
        """How many pods of the class fit on each node, on the columns of free room given (default: now)."""
        if not self.known:
            return np.zeros(len(self.trial.nodes), np.int64)
        now = free is None
        columns = self.trial.free if free is None else free
        rooms = np.full(len(self.trial.nodes), LARGEST, np.int64)
        for at, amount in self.needs:
            np.minimum(rooms, columns[at] // amount, out=rooms)
        np.maximum(rooms, 0, out=rooms)
        self.trial.meter.spent += len(rooms) * (1 + len(self.needs))
        rooms[~self.mask] = 0
        if self.trial.scope is not None:
            rooms[~self.trial.scope] = 0
        if self.ports:
            np.minimum(rooms, 1, out=rooms)
            if now:
                for row in np.flatnonzero(rooms).tolist():
                    if self.ports_taken(row):
                        rooms[row] = 0
        return rooms

    def able(self) -> Mask:
        """Nodes that could take one pod if nothing ran there, shape (nodes,)."""
        able: Mask = self.rooms(self.trial.nodes.static.allocatable) > 0
        return able

    def _sweep(self, rows: "np.ndarray[tuple[int], np.dtype[np.intp]] | None") -> None:
        trial, key, gain = self.trial, self._key, self._gain
        assert key is not None
        assert gain is not None
        if not self.known:
            return
        trial.meter.spent += (len(key) if rows is None else len(rows)) * (2 + len(self.needs))
        if rows is None:
            fits = self.here.copy()
            for at, amount in self.needs:
                fits &= trial.free[at] >= amount
            np.add(trial.base, gain, out=key)
            if self._bias is not None:
                key += self._bias
            key[~fits] = NEVER
            candidates = np.flatnonzero(fits).tolist() if self.ports else []
        else:
            fits = self.mask[rows] if trial.scope is None else self.mask[rows] & trial.scope[rows]
            for at, amount in self.needs:
                fits &= trial.free[at][rows] >= amount
            score = trial.base[rows] + gain[rows]
            if self._bias is not None:
                score += self._bias[rows]
            key[rows] = np.where(fits, score, NEVER)
            candidates = rows[fits].tolist() if self.ports else []
        for row in candidates:
            if self.ports_taken(row):
                key[row] = NEVER

    def ports_taken(self, row: int) -> bool:
        """Whether a node's open host ports collide with those of the class."""
        taken = self.trial.ports.get(self.trial.nodes.names[row])
        return taken is not None and any(mine.conflicts(theirs) for mine in self.ports for theirs in taken)
