"""Pod affinity and anti-affinity: counts of the pods that terms select, by node, and the nodes that rules allow.

A `PodAffinityState` exists only in cycles in which some pod has rules about other pods. It has what stood when the
cycle began (`standing.py`), and what the trial placed and took back since. `ClassAffinity` has what the rules of one
class allow while its pods are placed one by one.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import repeat

import msgspec
import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.placement.constraints import NotAvoided, Selected, Untainted
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.scores import POD_AFFINITY, SPREAD, Source, combined
from t9ksched.engine.placement.standing import COUNTS, HOLDERS, LEAVING, PROMISED, WEIGHTS, Column, Standing, shift
from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, PodTerm, Spread


class AffinityContribution(msgspec.Struct, frozen=True):
    """What a placed pod of a class adds on its node: terms that select it, its anti-affinity, and its preferences with
    their weights.
    """

    counted: tuple[Standing, ...] = ()
    apart: tuple[Standing, ...] = ()
    preferred: tuple[tuple[Standing, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.counted or self.apart or self.preferred)


NO_CONTRIBUTION = AffinityContribution()
Moved = dict[int, dict[int, int]]
"""What the trial added to the numbers of a term (`standing.py`), by what they say, and by row; no 0 is kept."""


class PodAffinityState:
    """Counts of the pods that the terms in use select.

    Attributes:
        gangs: those that wait, with classes that know which terms select them.
        version: the number of the cycle among those with the same memory.
    """

    def __init__(
        self, standing: Mapping[PodTerm, Standing], index: Mapping[str, int], gangs: tuple[Gang, ...], version: int
    ) -> None:
        """`standing` are the terms in use, `index` the rows of nodes by name."""
        self.gangs = gangs
        self.version = version
        self._standing = standing
        self._index = index
        self._others: dict[PodTerm, Standing] = {}
        """Terms that no pod of the view has, asked for all the same."""
        self._moved: dict[Standing, Moved] = {}
        self._begun: dict[Standing, Moved] = {}

    def of(self, terms: Iterable[PodTerm]) -> tuple[Standing, ...]:
        """What stands by these terms."""
        return tuple([self._of(term) for term in terms])

    def _of(self, term: PodTerm) -> Standing:
        found = self._standing.get(term) or self._others.get(term)
        if found is None:
            found = self._others[term] = Standing(term)
        return found

    def contribution(self, pod_class: PodClass) -> AffinityContribution:
        """What a placed pod of the class adds on its node."""
        rules = pod_class.rules
        return AffinityContribution(
            self.of(pod_class.counted),
            self.of(rules.apart) if rules else (),
            tuple((self._of(term), weight) for weight, term in rules.prefer_pods) if rules else (),
        )

    def begin(self) -> dict[PodTerm, Moved]:
        """Begin to track changes. Returns what has been added by now, for what is reserved, by term."""
        self._begun = {one: {what: dict(rows) for what, rows in moved.items()} for one, moved in self._moved.items()}
        return {one.term: moved for one, moved in self._begun.items()}

    def is_unchanged(self, one: Standing) -> bool:
        """Whether the counts of a term are as they were at `begin`."""
        return self._moved.get(one) == self._begun.get(one)

    def columns(self, one: Standing, what: int) -> Iterator[Column]:
        """Columns that sum up to these numbers of a term now."""
        yield one.column(what, self._index)
        moved = self._moved.get(one)
        if moved and (rows := moved.get(what)):
            yield np.fromiter(rows, np.intp, len(rows)), np.fromiter(rows.values(), np.int64, len(rows))

    def add(
        self, contribution: AffinityContribution, rows: "int | Int64s", pods: "int | Int64s", held: bool = False
    ) -> None:
        """Pods came to nodes, or left them (negative); with `held` only room for them did."""
        where: list[int] = rows.tolist() if isinstance(rows, np.ndarray) else [rows]
        count: Iterable[int] = pods.tolist() if isinstance(pods, np.ndarray) else repeat(pods, len(where))
        numbers = list(zip(where, count, strict=True))
        for one in contribution.counted:
            self._add(one, PROMISED if held else COUNTS, numbers)
        for one in contribution.apart:
            self._add(one, HOLDERS, numbers)
        for one, weight in contribution.preferred:
            self._add(one, WEIGHTS, [(row, weight * number) for row, number in numbers])

    def _add(self, one: Standing, what: int, numbers: Sequence[tuple[int, int]]) -> None:
        moved = self._moved.setdefault(one, {})
        rows = moved.setdefault(what, {})
        for row, number in numbers:
            shift(rows, row, number)
        if not rows:
            del moved[what]
            if not moved:
                del self._moved[one]


class _TermCounts:
    """One term as counts by domain; the last entry stands for nodes without the label."""

    def __init__(
        self, feasibility: FeasibilityCache, key: str, columns: Iterable[Column], mine: int, within: Mask | None = None
    ) -> None:
        """What columns say of the nodes `within` is summed up."""
        self.of, names = feasibility.domains(key)
        self.size = len(names)
        self.count: Int64s = np.zeros(self.size + 1, np.int64)
        for rows, values in columns:
            if within is not None:
                rows, values = rows[within[rows]], values[within[rows]]
            np.add.at(self.count, self.of[rows], values)
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

        def counts_of(term: PodTerm, *more: int) -> _TermCounts:
            (one,) = pod_affinity.of((term,))
            columns = [column for what in (COUNTS, *more) for column in pod_affinity.columns(one, what)]
            return _TermCounts(feasibility, term.topology_key, columns, term in counted)

        def staying_counts(term: PodTerm, within: Mask) -> _TermCounts:
            (one,) = pod_affinity.of((term,))
            columns = [*pod_affinity.columns(one, COUNTS)]
            columns += [(rows, -pods) for rows, pods in pod_affinity.columns(one, LEAVING)]
            return _TermCounts(feasibility, term.topology_key, columns, term in counted, within)

        def of_placed(what: int, own: Mapping[PodTerm, int]) -> list[_TermCounts]:
            """What placed pods hold against pods of this class, or for them, by domain, where they do."""
            found = []
            for one in pod_affinity.of(pod_class.counted):
                columns, mine = list(pod_affinity.columns(one, what)), own.get(one.term, 0)
                if mine or any(len(rows) for rows, _ in columns):
                    found.append(_TermCounts(feasibility, one.term.topology_key, columns, mine))
            return found

        self._together = [counts_of(term) for term in rules.together] if rules else []
        self._first = rules is not None and all(term in counted for term in rules.together)
        self._apart = [counts_of(term, PROMISED) for term in rules.apart] if rules else []
        # Required anti-affinity of pods there against this class; pods of the class are added as they are placed.
        self._anti_affinity_of_placed = of_placed(HOLDERS, dict.fromkeys(rules.apart, 1) if rules else {})
        self._spread: list[tuple[Spread, _TermCounts, Mask]] = []
        self._soft: list[_TermCounts] = []
        spread = rules.spread if rules else ()
        for one in spread:
            within = self._counting(feasibility, pod_class, one, spread)
            view = staying_counts(one.term, within)
            if one.hard:
                present = np.zeros(view.size + 1, np.bool_)
                present[view.of[within]] = True
                present[view.size] = False
                self._spread.append((one, view, present))
            else:
                self._soft.append(view)
        self._preferred = [(weight, counts_of(term)) for weight, term in rules.prefer_pods] if rules else []
        # Preferences of pods there about this class, and of pods of the class once they are placed.
        own_weights: dict[PodTerm, int] = {}
        for points, term in rules.prefer_pods if rules else ():
            own_weights[term] = own_weights.get(term, 0) + points
        self._preferred_by_placed = of_placed(WEIGHTS, own_weights)

    def _counting(
        self, feasibility: FeasibilityCache, pod_class: PodClass, one: Spread, spread: Sequence[Spread]
    ) -> Mask:
        """Nodes whose pods count for a constraint: those with every label that the ones as hard as it name."""
        within = np.ones(len(self._usable), np.bool_)
        for other in spread:
            if other.hard == one.hard:
                of, names = feasibility.domains(other.term.topology_key)
                within &= of < len(names)
        if one.own_nodes:
            within &= feasibility.column(Selected(pod_class.node_selector, pod_class.node_affinity))
            if pod_class.avoided:
                within &= feasibility.column(NotAvoided(pod_class.avoided))
        if one.untainted:
            within &= feasibility.column(Untainted(pod_class.tolerations))
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
