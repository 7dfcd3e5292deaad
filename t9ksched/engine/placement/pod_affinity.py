"""Pod affinity and anti-affinity: counts of the pods that terms select, by node, and the nodes that rules allow.

A `PodAffinityState` exists only in cycles in which some pod has rules about other pods. The trial updates it at every
placement and every undo. `ClassAffinity` has what the rules of one class allow while its pods are placed one by one.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.placement.constraints import Selected, Tolerated
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.scores import POD_AFFINITY, SPREAD, Source, combined
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Member
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, PodTerm, Spread, namespace_labels


@dataclass(frozen=True, slots=True)
class AffinityContribution:
    """What a placed pod of a class adds on its node, by position of terms: terms that select it, its anti-affinity, and
    its preferences with their weights.
    """

    counted: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    preferred: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.counted or self.apart or self.preferred)


NO_CONTRIBUTION = AffinityContribution()


class PodAffinityState:
    """Counts of the pods that the terms in use select.

    Attributes:
        terms: those in use, by position.
        counts: pods that a term selects, shape (terms, nodes).
        leaving: those of them that are being deleted.
        promised: room reserved for such pods: it counts for anti-affinity, and not yet for affinity.
        holders: pods with required anti-affinity to those a term selects, shape (terms, nodes).
        preference_weights: summed weights of the preferences of placed pods for pods that a term selects, shape (terms,
            nodes).
    """

    def __init__(self, view: View, terms: Iterable[PodTerm]) -> None:
        self._namespaces = view.namespaces
        self.terms = {term: at for at, term in enumerate(dict.fromkeys(terms))}
        self._tallies: Int64s = np.zeros((5, len(self.terms), len(view.nodes)), np.int64)
        self.counts, self.leaving, self.promised, self.holders, self.preference_weights = self._tallies
        self._begun = self._tallies
        self._selecting: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[PodTerm, ...]] = {}
        self._derived: dict[tuple[int, tuple[PodTerm, ...]], tuple[PodClass, PodClass]] = {}
        self._used: set[int] = set()
        index = view.nodes.static.index
        for group in view.neighbours:
            rows = [(index[name], count) for name, count in group.nodes if name in index]
            selecting = self.ids(self.terms_selecting(group.namespace, group.labels))
            for row, count in rows:
                self.counts[selecting, row] += count
                if group.leaving:
                    self.leaving[selecting, row] += count
                self.holders[self.ids(group.apart), row] += count
                for weight, term in group.preferred_terms:
                    self.preference_weights[self.terms[term], row] += weight * count

    def is_used(self, at: int) -> bool:
        """True if any pod's affinity or anti-affinity, placed or waiting, selects pods by this term."""
        return at in self._used

    def contribution(self, pod_class: PodClass) -> AffinityContribution:
        """What a placed pod of the class adds on its node."""
        rules = pod_class.rules
        return AffinityContribution(
            tuple(self.ids(pod_class.counted)),
            tuple(self.ids(rules.apart)) if rules else (),
            tuple((self.terms[term], weight) for weight, term in rules.prefer_pods) if rules else (),
        )

    @classmethod
    def of(cls, view: View) -> "PodAffinityState | None":
        """The state of a view, None when no pod has rules that need one."""
        # A hundred thousand pods may wait: no loop of Python's own looks at each.
        waiting = chain.from_iterable(map(attrgetter("waiting"), view.gangs))
        listed = list(map(attrgetter("pod_class"), waiting))
        classes = dict(zip(map(id, listed), listed, strict=True))
        classes |= {id(hold.pod_class): hold.pod_class for hold in view.reservations}
        terms = [term for one in classes.values() if one.rules is not None for term in one.rules.terms]
        terms += [term for hold in view.reservations for term in hold.pod_class.counted]
        used = [term for one in classes.values() if one.rules is not None for term in one.rules.apart]
        used += [term for one in classes.values() if one.rules is not None for _, term in one.rules.prefer_pods]
        used += [term for group in view.neighbours for term in group.apart]
        used += [term for group in view.neighbours for _, term in group.preferred_terms]
        if not terms and not used:
            return None
        found = cls(view, (*terms, *used))
        found._used.update(found.ids(used))
        return found

    def begin(self) -> dict[PodTerm, Int64s]:
        """Begin to track changes. Returns the present counts by term."""
        self._begun = self._tallies.copy()
        return {term: self._begun[:, at] for term, at in self.terms.items()}

    def is_unchanged(self, term: PodTerm) -> bool:
        """Whether the counts of a term are as they were at `begin`."""
        at = self.terms[term]
        return np.array_equal(self._begun[:, at], self._tallies[:, at])

    def ids(self, terms: Iterable[PodTerm]) -> list[int]:
        """Positions of terms."""
        return [self.terms[term] for term in terms]

    def terms_selecting(self, namespace: str, labels: tuple[tuple[str, str], ...]) -> tuple[PodTerm, ...]:
        """The terms that select a pod."""
        key = (namespace, labels)
        found = self._selecting.get(key)
        if found is None:
            by_key, around = dict(labels), namespace_labels(namespace, self._namespaces)
            found = tuple(term for term in self.terms if term.matches(namespace, by_key, around))
            self._selecting[key] = found
        return found

    def derive(self, gangs: Sequence[Gang]) -> Iterator[Gang]:
        """The gangs, with classes that know which terms select them."""
        # By identity, as members of one gang mostly share their labels; the gangs keep all of it alive.
        known: dict[tuple[int, int, str], PodClass] = {}
        for gang in gangs:
            members = []
            for member in gang.waiting:
                ident = (id(member.pod_class), id(member.labels), member.namespace)
                of = known.get(ident)
                if of is None:
                    of = known[ident] = self._class_of(member)
                members.append(member if of is member.pod_class else structs.replace(member, pod_class=of))
            yield structs.replace(gang, waiting=tuple(members))

    def _class_of(self, member: Member) -> PodClass:
        """The class of a member, which knows the terms that select it."""
        selecting = self.terms_selecting(member.namespace, member.labels)
        if not selecting:
            return member.pod_class
        key = (id(member.pod_class), selecting)
        if key not in self._derived:
            self._derived[key] = (replace(member.pod_class, counted=selecting), member.pod_class)
        return self._derived[key][0]

    def add(
        self, contribution: AffinityContribution, rows: "int | Int64s", pods: "int | Int64s", held: bool = False
    ) -> None:
        """Pods came to nodes, or left them (negative); with `held` only room for them did."""
        for at in contribution.counted:
            (self.promised if held else self.counts)[at, rows] += pods
        for at in contribution.apart:
            self.holders[at, rows] += pods
        for at, weight in contribution.preferred:
            self.preference_weights[at, rows] += weight * pods


class _TermCounts:
    """One term as counts by domain; the last entry stands for nodes without the label."""

    def __init__(
        self, feasibility: FeasibilityCache, key: str, by_node: Int64s, mine: int, within: Mask | None = None
    ) -> None:
        self.of, names = feasibility.domains(key)
        self.size = len(names)
        weights = by_node if within is None else np.where(within, by_node, 0)
        self.count: Int64s = np.bincount(self.of, weights=weights, minlength=self.size + 1).astype(np.int64)
        self.mine = mine
        """What a pod of this class adds here itself."""

    def add(self, row: int) -> None:
        """A pod of this class was placed on a node."""
        self.count[self.of[row]] += self.mine


class ClassAffinity:
    """The rules of one class: which nodes they allow for the next pod, and how much they prefer each."""

    def __init__(
        self,
        pod_affinity: PodAffinityState,
        feasibility: FeasibilityCache,
        pod_class: PodClass,
        usable: Mask,
        weight: int,
    ) -> None:
        rules, counted = pod_class.rules, set(pod_class.counted)
        self._rules = rules or PodRules()
        self._usable = usable
        self._weight = weight
        self._nodes = feasibility.preferred(pod_class) if weight else []
        terms = pod_affinity.terms

        def counts_of(term: PodTerm, promised: bool = False) -> _TermCounts:
            there = pod_affinity.counts[terms[term]]
            if promised:
                there = there + pod_affinity.promised[terms[term]]
            return _TermCounts(feasibility, term.topology_key, there, term in counted)

        def staying_counts(term: PodTerm, within: Mask | None = None) -> _TermCounts:
            staying = pod_affinity.counts[terms[term]] - pod_affinity.leaving[terms[term]]
            return _TermCounts(feasibility, term.topology_key, staying, term in counted, within)

        self._together = [counts_of(term) for term in rules.together] if rules else []
        self._first = rules is not None and all(term in counted for term in rules.together)
        self._apart = [counts_of(term, promised=True) for term in rules.apart] if rules else []
        # Required anti-affinity of pods there against this class; pods of the class are added as they are placed.
        own = set(rules.apart) if rules else set()
        self._anti_affinity_of_placed = [
            _TermCounts(feasibility, term.topology_key, pod_affinity.holders[terms[term]], term in own)
            for term in pod_class.counted
            if term in own or pod_affinity.holders[terms[term]].any()
        ]
        self._spread: list[tuple[Spread, _TermCounts, Mask]] = []
        self._soft: list[_TermCounts] = []
        spread = rules.spread if rules else ()
        for one in spread:
            if one.hard:
                within = self._counting(feasibility, pod_class, one, spread)
                view = staying_counts(one.term, within)
                present = np.zeros(view.size + 1, np.bool_)
                present[view.of[within]] = True
                present[view.size] = False
                self._spread.append((one, view, present))
            else:
                self._soft.append(staying_counts(one.term))
        self._preferred = [(weight, counts_of(term)) for weight, term in rules.prefer_pods] if rules else []
        # Preferences of pods there about this class, and of pods of the class once they are placed.
        own_weights: dict[PodTerm, int] = {}
        for points, term in rules.prefer_pods if rules else ():
            own_weights[term] = own_weights.get(term, 0) + points
        self._preferred_by_placed = [
            _TermCounts(
                feasibility, term.topology_key, pod_affinity.preference_weights[terms[term]], own_weights.get(term, 0)
            )
            for term in pod_class.counted
            if own_weights.get(term) or pod_affinity.preference_weights[terms[term]].any()
        ]

    def _counting(
        self, feasibility: FeasibilityCache, pod_class: PodClass, one: Spread, spread: Sequence[Spread]
    ) -> Mask:
        """Nodes whose pods count for a constraint: those with every label that the hard ones name."""
        within = np.ones(len(self._usable), np.bool_)
        for other in spread:
            if other.hard:
                of, names = feasibility.domains(other.term.topology_key)
                within &= of < len(names)
        if one.own_nodes:
            within &= feasibility.column(Selected(pod_class.node_selector, pod_class.node_affinity))
        if one.untainted:
            within &= feasibility.column(Tolerated(pod_class.tolerations))
        return within

    def checks(self) -> Iterator[tuple[str, Mask]]:
        """Each rule that filters, in words, and the nodes it allows for the next pod."""
        for view in self._together:
            near = view.count > 0
            if self._first and not any(other.count[: other.size].any() for other in self._together):
                near = np.ones_like(near)  # the first of pods that want to be together may be anywhere
            near[view.size] = False
            yield "pod affinity", near[view.of]
        for view in (*self._apart, *self._anti_affinity_of_placed):
            far = view.count == 0
            far[view.size] = True
            yield "pod anti-affinity", far[view.of]
        for one, view, present in self._spread:
            existing = view.count[present]
            fewest = int(existing.min()) if len(existing) >= max(one.min_domains, 1) else 0
            even = view.count + view.mine - fewest <= one.max_skew
            even[view.size] = False
            yield "topology spread", even[view.of]

    def allowed(self) -> Mask:
        """Nodes that every rule allows for the next pod."""
        mask: Mask | None = None
        for _, allows in self.checks():
            mask = allows if mask is None else mask & allows
        return self._usable if mask is None else mask

    def reachable(self, co_placed_terms: Container[PodTerm] = ()) -> Mask:
        """Nodes that may take pods of the class sooner or later: spread opens domains as others fill.

        `co_placed_terms` are terms that select pods placed together with the class: those are near on every node.
        """
        mask: Mask = np.ones(len(self._usable), np.bool_)
        along = any(term in co_placed_terms for term in self._rules.together)
        for label, allows in self.checks():
            if label != "topology spread" and not (along and label == "pod affinity"):
                mask &= allows
        return mask

    def preference_scores(self) -> Int64s | None:
        """What all preferences of the class add to the score of each node for the next pod; None when nothing."""
        sources = list(self._nodes)
        if self._preferred or self._preferred_by_placed:
            raw = np.zeros(len(self._usable), np.int64)
            for weight, view in (*self._preferred, *((1, view) for view in self._preferred_by_placed)):
                count = view.count.copy()
                count[view.size] = 0
                raw += weight * count[view.of]
            sources.append(Source(POD_AFFINITY, raw))
        if self._soft:
            raw = np.zeros(len(self._usable), np.int64)
            for view in self._soft:
                count = view.count.copy()
                count[view.size] = count.max() + 1
                raw -= count[view.of]
            sources.append(Source(SPREAD, raw))
        return combined(sources, self._usable, self._weight) if sources else None

    def placed(self, row: int) -> None:
        """A pod of the class came to a node."""
        for view in (
            *self._together,
            *self._apart,
            *self._anti_affinity_of_placed,
            *self._soft,
            *self._preferred_by_placed,
        ):
            view.add(row)
        for _, view, _ in self._spread:
            view.add(row)
        for _, view in self._preferred:
            view.add(row)
