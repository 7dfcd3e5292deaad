"""How well each node suits one more pod of a class.

A class keeps one column of *keys*: each node's score for one more such pod, or `NEVER` where none fits. A placement
touches few nodes; the keys of touched nodes are brought up to date when the class is asked again, so that a gang costs
microseconds a node it lands on.
"""

from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.card_needs import grant_of, move_parts, part_needs
from t9ksched.engine.cards import Share, granted, share_of
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_keys import NEVER, ClassKeys
from t9ksched.engine.placement.class_rooms import ClassRooms
from t9ksched.engine.placement.given_cards import Given
from t9ksched.engine.placement.packing_shapes import Asked
from t9ksched.engine.placement.pod_affinity import NO_CONTRIBUTION, ClassAffinity
from t9ksched.engine.placement.shared_volumes import SharedVolumes
from t9ksched.engine.placement.standing import Standing
from t9ksched.engine.work import Work
from t9ksched.model.cards import CardGrant
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodTerm
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Reason

if TYPE_CHECKING:
    from t9ksched.engine.placement.trial import Trial

Amounts = tuple[tuple[str, int], ...]
MOST_ROOMS: Final = 1 << 31
"""More pods are not counted."""
_FEW: Final = 6
"""Up to so many touched nodes are refreshed one by one, more in one sweep."""


class ClassFit:
    """How well each node suits one more pod of a class, for queues with one node selector.

    Attributes:
        needs: `(row of resource, amount)`; `needs_vector` is the same for all resources.
        card_needs: `(row of card resource, cards a pod)`.
        known: False when it asks for a resource that no node has, or for more than any number we count in.
        said: why so many pods do not fit now, by their number (`engine.explain`); it lasts as long as `rooms` does.
    """

    def __init__(self, trial: "Trial", selector: LabelSelector | None, pod_class: PodClass) -> None:
        self.trial = trial
        self.pod_class = pod_class
        self.selector = selector
        rows = trial.resource_rows
        self.known = all(name in rows and amount <= LARGEST for name, amount in pod_class.asks)
        self.needs = [
            (rows[name], amount) for name, amount in pod_class.requests if name in rows and 0 < amount <= LARGEST
        ]
        self.needs_vector = trial.needs(pod_class)
        card_rows = trial.nodes.static.cards.row_of
        self.card_names = tuple(name for name in pod_class.card_counts if name in card_rows)
        self.card_needs = [(card_rows[name], pod_class.card_counts[name]) for name in self.card_names]
        divided = trial.nodes.static.divided
        only = pod_class.choice.single if pod_class.choice is not None else None
        counts = {name: pod_class.card_counts[name] for name in self.card_names}
        needs = part_needs(divided, counts, pod_class.cards, only)
        self.part_needs = needs if any(needs) else ()
        """By card resource, what it needs where cards are divided; empty where nowhere."""
        self.divided = [need for need in needs if need is not None]
        """The same without the resources of which no node divides cards."""
        self.ports = pod_class.host_ports
        self.volumes = SharedVolumes(self) if pod_class.volumes else None
        self.shuts = bool(pod_class.host_ports or pod_class.volumes)
        """What pods have open or attached, beside room, may shut a node to its pods."""
        pod_affinity, rules = trial.pod_affinity, pod_class.rules
        self.contribution = pod_affinity.contribution(pod_class) if pod_affinity else NO_CONTRIBUTION
        self.seen = bool(self.contribution)
        """Terms of other pods may select its pods."""
        self.ruled = pod_affinity is not None and (
            (rules is not None and bool(rules.terms)) or any(one.used for one in self.contribution.counted)
        )
        """The nodes allowed for its next pod depend on where pods are."""
        self.terms: tuple[Standing, ...] = ()
        if pod_affinity is not None and self.ruled:
            self.terms = pod_affinity.of((*(rules.terms if rules else ()), *pod_class.counted))
        """The terms that this depends on."""
        self._written = Given(self, 0)
        self._written_on: dict[tuple[int, ...], Given] = {}
        self._seen = -1
        self._mask: Mask | None = None
        self._gain: Int64s | None = None
        self._key: Int64s | None = None
        self._bias: Int64s | None = None
        self._keys = ClassKeys(self)
        self._class_rooms = ClassRooms(self)
        self._rooms_state = -1
        self._rooms: Int64s | None = None
        self._rooms_scope: Mask | None = None
        self._total: int | None = None
        self._kept = False
        self._empty: tuple[Mask | None, Int64s] | None = None
        self._total_empty: int | None = None
        self._ever: Mask | None = None
        self._levels: Sequence[int] | None = None
        self._at_best: tuple[Mask | None, Int64s] | None = None
        self.said: dict[int, Reason | None] = {}
        """Why so many of its pods find no room now; filled by `explain`."""
        self.away: list[tuple[str, Mapping[str, int], tuple[str, ...]]] | None = None
        """What of the nodes takes none of its pods for now; filled by `explain`."""

    @cached_property
    def scarcest(self) -> int:
        """The resource of which its pods need the largest part of all there is, by row."""
        whole = self.trial.feasibility.whole()
        return max(sorted(self.needs), key=lambda need: need[1] / whole.item(need[0]), default=(0, 0))[0]

    @cached_property
    def asked(self) -> Asked:
        """What one pod takes, as packing counts it."""
        return Asked.of(self.pod_class)

    @property
    def demand(self) -> Amounts:
        """What the queue of one pod pays for: what it asks for and, where quotas count cards, the most it may have."""
        if (worths := self.trial.worths) is None:
            return self.pod_class.requests
        return self._paid(worths.most_among(self.pod_class, self.mask))

    @property
    def card_levels(self) -> Sequence[int]:
        """What a pod may have of cards at most on nodes that could take it, each amount once, ascending; empty where no
        quota counts cards.
        """
        worths = self.trial.worths
        if worths is None or not self.pod_class.accelerated:
            return ()
        if self._levels is None:
            self._levels = worths.levels(self.pod_class, self.able())
        return self._levels

    def demand_on(self, row: int) -> Amounts:
        """The same for a pod on the node of this row."""
        worths = self.trial.worths
        return self._paid(worths.most_on(self.pod_class, row) if worths is not None else 0)

    def _paid(self, cards: int) -> Amounts:
        requests = self.pod_class.requests
        return (*requests, (CARDS, cards)) if cards else requests

    def affinity(self) -> ClassAffinity:
        """What the rules of the class allow now."""
        pod_affinity = self.trial.pod_affinity
        assert pod_affinity is not None
        return ClassAffinity(
            pod_affinity, self.trial.feasibility, self.pod_class, self.mask, self.trial.affinity_weight
        )

    def reachable(self, co_placed_terms: Container[PodTerm] = ()) -> Mask:
        """Nodes that its rules about pods allow sooner or later; `co_placed_terms` as in `ClassAffinity`."""
        return self.mask & self.affinity().reachable(co_placed_terms) if self.ruled else self.mask

    def prepare(self) -> Work[None]:
        """Find out in slices which nodes are allowed at all."""
        if self._mask is None:
            yield from self.trial.feasibility.prepare(self.selector, self.pod_class, self.trial.meter)

    @property
    def mask(self) -> Mask:
        """Nodes that are allowed at all, shape (nodes,)."""
        if self._mask is None:
            self._mask = self.trial.allowed(self.selector, self.pod_class)
        return self._mask

    @property
    def ever(self) -> Mask:
        """Nodes that would be allowed if none were away, shape (nodes,)."""
        if self._ever is None:
            found = self.trial.ever(self.selector, self.pod_class)
            self._ever = self.mask if np.array_equal(found, self.mask) else found
        return self._ever

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
            self._keep()
        return self._gain

    @property
    def bias(self) -> Int64s | None:
        """What is added to each node's score besides, shape (nodes,); None for nothing."""
        self.gains()
        return self._bias

    def _keep(self) -> None:
        """It has arrays: the trial knows, and has them dropped when too many classes do."""
        if not self._kept:
            self._kept = True
            self.trial.keep(self)

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
        self._mask = self._gain = self._key = self._bias = self._rooms = self._empty = None
        self._ever = self._at_best = None
        self._class_rooms.drop()
        self._keys.drop()
        self.away = None
        self._seen = -1
        self._kept = False

    def close(self) -> None:
        """Let go of the trial, and of what knows the column."""
        del self.trial, self._keys, self._class_rooms, self._written, self._written_on, self.volumes

    def refresh(self) -> Int64s:
        """The score of each node for one more pod, or `NEVER`; shape (nodes,), brought up to date. Within a scope it is
        a copy.
        """
        key, scope = self._refresh(), self.trial.scope
        return key if scope is None else np.where(scope, key, NEVER)

    def _refresh(self) -> Int64s:
        touched = self.trial.touched
        fresh = len(touched) - self._seen
        if self._key is None:
            self.gains()
            self._key = np.full(len(self.trial.nodes), NEVER, np.int64)
            self._keys.write(self._key, None)
        elif not fresh:
            return self._key
        elif fresh * 4 > len(self._key):
            self._keys.write(self._key, None)
        elif fresh <= _FEW and self.trial.packing is None:
            for row in touched[self._seen :]:
                self._key[row] = self.score(row) if self._class_rooms.one(row) > 0 else NEVER
        else:
            self._keys.write(self._key, np.array(touched[self._seen :], np.intp))
        self._seen = len(touched)
        return self._key

    def scored(self) -> Int64s:
        """The score of each node for one more pod, whether it fits or not; shape (nodes,), a fresh array."""
        found: Int64s = self.trial.base + self.gains()
        if self._bias is not None:
            found += self._bias
        return found

    def score(self, row: int) -> np.int64:
        """The score of a node for one more pod, which must fit."""
        score: np.int64 = self.trial.base[row] + self.gain_of(row)
        if self.trial.packing is not None:
            score += self.trial.packing.points(self)[row]
        return score if self._bias is None else score + self._bias[row]

    def divides(self, row: int) -> bool:
        """Whether the node of this row divides cards that the class asks for."""
        return bool(self.divided) and any(parts.on(row) for parts in self.divided)

    def written_on(self, row: int) -> Given:
        """What pods with a share on a node are given: where cards are divided, a share of nodes with unlike cards is
        not the same grant.
        """
        if not self.divided:
            return self._written
        kinds = tuple([parts.of.kind(row) for parts in self.divided])
        found = self._written_on.get(kinds)
        if found is None:
            found = self._written_on[kinds] = Given(self, row)
        return found

    def grant(self, row: int, share: Share) -> CardGrant:
        """The cards of a pod with this share on a node."""
        if not self.divides(row):
            return granted(self.card_names, share)
        return grant_of(self.part_needs, self.card_names, row, share)

    def share_of(self, row: int, cards: CardGrant) -> tuple[Share, ...]:
        """The share of one pod that has these cards of a node."""
        if not (self.card_names and self.divides(row)):
            return share_of(cards, self.card_names)
        ((*shares,),) = share_of(cards, self.card_names)
        for at, need in enumerate(self.part_needs):
            if need is not None and need.on(row):
                shares[at] = need.share(cards)
        return (tuple(shares),)

    def takes(self, row: int, pods: int, shares: Sequence[Share], held: bool = False) -> Int64s:
        """What pods take on a node, the counters of the divided cards of their shares included; shape (resources,)."""
        if not (shares and self.divided and self.divides(row)):
            return self.needs_vector if pods == 1 else self.needs_vector * pods
        left = self.needs_vector * -pods
        move_parts(self.part_needs, left, row, shares, 1, held)
        return -left

    def caught_up(self) -> None:
        """The caller has set the keys of the nodes it touched itself; within a scope it had a copy of them."""
        if self.trial.scope is None:
            self._seen = len(self.trial.touched)

    def room(self, row: int) -> int:
        """How many pods of the class fit on a node now."""
        scope = self.trial.scope
        return self._class_rooms.one(row) if scope is None or scope[row] else 0

    def rooms(self, free: Int64s | None = None) -> Int64s:
        """How many pods of the class fit on each node, on the columns of free room given (default: now).

        The answer for now is kept until something is placed; it is not to be written to. Columns that are given may
        speak of another time, and have what is left of divided cards then.
        """
        if free is not None:
            return self._class_rooms.on(free, self.here)
        scope = self.trial.scope
        if self._rooms is None or self._rooms_state != self.trial.state or self._rooms_scope is not scope:
            self._keep()
            rooms = self._class_rooms.now()
            self._rooms = rooms if scope is None else np.where(scope, rooms, 0)
            self._rooms.flags.writeable = False
            self._rooms_state, self._rooms_scope = self.trial.state, scope
            self._total = self.away = None
            self.said.clear()
        return self._rooms

    def total(self) -> int:
        """How many pods of the class fit on all nodes now, each node for itself."""
        rooms = self.rooms()
        if self._total is None:
            self._total = int(rooms.sum())
        return self._total

    def rooms_empty(self) -> Int64s:
        """How many pods of the class would fit on each node if nothing ran there; not to be written to."""
        scope = self.trial.scope
        if self._empty is None or self._empty[0] is not scope:
            self._keep()
            self._empty = scope, self._class_rooms.on(self.trial.nodes.static.allocatable, self.here, empty=True)
            self._total_empty = None
        return self._empty[1]

    def total_empty(self) -> int:
        """How many pods of the class would fit on all nodes if nothing ran there; at least 2**31 count as that many."""
        rooms = self.rooms_empty()
        if self._total_empty is None:
            self._total_empty = min(int(np.minimum(rooms, MOST_ROOMS).sum()), MOST_ROOMS)
        return self._total_empty

    def rooms_ever(self) -> Int64s:
        """How many pods of the class would fit on each node if nothing ran there and no node were away; not to be
        written to.
        """
        scope = self.trial.scope
        if self.ever is self._mask:
            return self.rooms_empty()
        if self._at_best is None or self._at_best[0] is not scope:
            self._keep()
            among = self.ever if scope is None else self.ever & scope
            self._at_best = scope, self._class_rooms.on(self.trial.nodes.static.allocatable, among, empty=True)
        return self._at_best[1]

    def total_ever(self) -> int:
        """How many that would be on all nodes; at least 2**31 count as that many."""
        if self.ever is self._mask:
            return self.total_empty()
        return min(int(np.minimum(self.rooms_ever(), MOST_ROOMS).sum()), MOST_ROOMS)

    def able(self) -> Mask:
        """Nodes that could take one pod if nothing ran there, shape (nodes,)."""
        able: Mask = self.rooms_empty() > 0
        return able

    def ports_taken(self, row: int) -> bool:
        """Whether a node's open host ports collide with those of the class."""
        taken = self.trial.ports.get(self.trial.nodes.names[row])
        return taken is not None and any(mine.conflicts(theirs) for mine in self.ports for theirs in taken)
