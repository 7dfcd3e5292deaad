"""Which pods the terms of rules about pods select, and where they stand, kept from cycle to cycle.

A cycle brings it up to its view: only pods and gangs that came, went or changed are matched with terms, and only terms
that came with pods, through their labels (`term_lookup.py`). What is kept grows with the pods that terms select, not
with terms times nodes. What a cycle was given is never written to, so another cycle may begin before it has ended. A
fresh one gives the same plans.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.members import kinds
from t9ksched.engine.placement.derived_gangs import DerivedGangs, PodKind
from t9ksched.engine.placement.pod_affinity import PodAffinityState
from t9ksched.engine.placement.standing import Standing
from t9ksched.engine.placement.term_lookup import PodLookup, TermLookup
from t9ksched.engine.placement.used_terms import UsedTerm, UsedTerms
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Labels, Neighbours
from t9ksched.model.podrules import PodTerm, namespace_labels

_A_LOOK: Final = 50
"""Units of work to look at a gang, or at the labels of a pod."""
_A_MATCH: Final = 400
"""Units of work to match labels with terms."""
_A_NODE: Final = 15
"""Units of work to count pods on a node."""


class StandingPods:
    """What is kept. `follow` must be carried to its end; one that was not is to be thrown away."""

    def __init__(self) -> None:
        self._gangs: Sequence[Gang] = ()
        self._terms = UsedTerms()
        self._namespaces: Mapping[str, Mapping[str, str]] = {}
        self._changed: dict[UsedTerm, Standing | None] = {}
        """What was known of terms before this cycle; None for one that came."""
        self._standing: dict[PodTerm, Standing] = {}
        """What cycles are given; copied before it is changed."""
        self._empty()

    def _empty(self) -> None:
        """No pod has been matched with terms."""
        self._active = False
        self._lookup: TermLookup[UsedTerm] = TermLookup()
        self._kinds: dict[tuple[str, Labels], PodKind] = {}
        self._pods: PodLookup[PodKind] = PodLookup()
        self._stale: dict[str, Gang] = {}
        """Gangs of which other terms select pods than before, by UID."""
        self._derived = DerivedGangs()

    # ---- a cycle

    def follow(self, view: View, meter: Meter, version: int) -> Work[PodAffinityState | None]:
        """What stands in this view, for one cycle; None if no pod has rules that need it. Each cycle has a larger
        version than those before it.
        """
        came, went = yield from came_and_went(self._gangs, view.gangs, meter)
        self._gangs = view.gangs
        terms = self._terms
        yield from terms.follow_gangs(came, went, meter)
        fresh, gone = yield from terms.follow_neighbours(view.neighbours, meter)
        terms.follow_reservations({id(one.pod_class): one.pod_class for one in view.reservations})
        if not terms:
            terms.clear()
            self._standing = {}
            self._changed.clear()
            self._empty()
            return None
        if self._active and self._other_namespaces(view.namespaces):
            self._empty()
        self._namespaces = view.namespaces
        if not self._active:
            self._active = True
            came, went, fresh, gone = list(view.gangs), [], list(terms.groups.values()), []
            for term in terms.all.values():
                if term not in terms.appeared:
                    self._touch(term)
                    term.standing = Standing(term.term)
                    terms.appeared[term] = None
                    meter.spent += _A_MATCH
                    if meter.due():
                        yield
        for term in terms.turned:
            self._touch(term)
            meter.spent += _A_LOOK
            if meter.due():
                yield
        terms.turned.clear()
        yield from self._leave(went, gone, meter)
        yield from self._drop_terms(meter)
        yield from self._take_terms(meter)
        yield from self._come(came, fresh, meter)
        stale, self._stale = self._stale, {}
        yield from self._derived.derive(stale.values(), self._kinds, meter)
        yield from self._settle(version, meter)
        gangs = yield from self._derived.tell(view.gangs, meter, changed=bool(came or went))
        return PodAffinityState(self._standing, view.nodes.static.index, gangs, version)

    def _other_namespaces(self, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether terms may select other pods, because namespaces have other labels."""
        if namespaces is self._namespaces or namespaces == self._namespaces:
            return False
        return any(one.namespace_selector is not None for term in self._terms.all for one in term.peers)

    def _around(self, namespace: str) -> Mapping[str, str]:
        return namespace_labels(namespace, self._namespaces)

    # ---- which pods they select

    def _touch(self, term: UsedTerm) -> Standing:
        """What is known of the term, to be changed in this cycle."""
        if term not in self._changed:
            known = term.term in self._standing
            self._changed[term] = term.standing if known else None
            term.standing = term.standing.copy()
        return term.standing

    def _leave(self, gangs: Iterable[Gang], groups: Iterable[Neighbours], meter: Meter) -> Work[None]:
        for gang in gangs:
            for key in (yield from _kinds(gang, meter)):
                kind = self._kinds[key]
                del kind.gangs[gang.uid]
                self._forget_unused(kind)
                meter.spent += _A_LOOK
                if meter.due():
                    yield
            self._derived.forget(gang.uid)
            self._stale.pop(gang.uid, None)
        for group in groups:
            kind = self._kinds[group.namespace, group.labels]
            del kind.groups[id(group)]
            yield from self._count(kind.terms, group, -1, meter)
            yield from self._hold(group, -1, meter)
            self._forget_unused(kind)

    def _forget_unused(self, kind: PodKind) -> None:
        if not (kind.gangs or kind.groups):
            del self._kinds[kind.namespace, kind.labels]
            self._pods.remove(kind, kind.namespace)

    def _count(self, terms: Iterable[UsedTerm], group: Neighbours, sign: int, meter: Meter) -> Work[None]:
        """These terms select the pods of a group, or do not any more."""
        for term in terms:
            self._touch(term).move(group, sign)
            meter.spent += _A_MATCH + _A_NODE * len(group.nodes)
            if meter.due():
                yield

    def _hold(self, group: Neighbours, sign: int, meter: Meter) -> Work[None]:
        """The pods of a group keep others away, or draw them."""
        for one in group.apart:
            self._touch(self._terms.all[one]).keep_away(group, sign)
            meter.spent += _A_MATCH + _A_NODE * len(group.nodes)
            if meter.due():
                yield
        for weight, one in group.preferred_terms:
            self._touch(self._terms.all[one]).draw(group, sign * weight)
            meter.spent += _A_MATCH + _A_NODE * len(group.nodes)
            if meter.due():
                yield

    def _drop_terms(self, meter: Meter) -> Work[None]:
        """Terms that no pod has any more."""
        vanished, self._terms.vanished = self._terms.vanished, {}
        if vanished:
            self._standing = self._standing.copy()
        for term in vanished:
            del self._terms.all[term.term]
            self._changed.pop(term, None)
            self._standing.pop(term.term, None)
            if self._terms.appeared.pop(term, term) is term:  # else it selects no pod yet
                self._lookup.remove(term)
                yield from self._select(term, meter, selects=False)
            meter.spent += _A_LOOK
            if meter.due():
                yield

    def _take_terms(self, meter: Meter) -> Work[None]:
        """Terms that came."""
        appeared, self._terms.appeared = self._terms.appeared, {}
        for term in appeared:
            self._touch(term)
            self._lookup.add(term.term, term)
            yield from self._select(term, meter, selects=True)
            meter.spent += _A_MATCH
            if meter.due():
                yield

    def _select(self, term: UsedTerm, meter: Meter, *, selects: bool) -> Work[None]:
        """The term selects the pods that it matches, or no longer."""
        for kind in self._pods.selected(term.term, self._around):
            if selects:
                kind.terms[term] = None
                for group in kind.groups.values():
                    yield from self._count((term,), group, 1, meter)
            else:
                del kind.terms[term]
            kind.counted = None
            self._stale.update(kind.gangs)
            meter.spent += _A_MATCH
            if meter.due():
                yield

    def _come(self, gangs: Iterable[Gang], groups: Iterable[Neighbours], meter: Meter) -> Work[None]:
        for group in groups:
            kind = self._kind((group.namespace, group.labels), meter)
            kind.groups[id(group)] = group
            yield from self._count(kind.terms, group, 1, meter)
            yield from self._hold(group, 1, meter)
            meter.spent += _A_LOOK
            if meter.due():
                yield
        for gang in gangs:
            for key in (yield from _kinds(gang, meter)):
                kind = self._kind(key, meter)
                kind.gangs[gang.uid] = gang
                if kind.terms:
                    self._stale[gang.uid] = gang
                meter.spent += _A_LOOK
                if meter.due():
                    yield

    def _kind(self, key: tuple[str, Labels], meter: Meter) -> PodKind:
        kind = self._kinds.get(key)
        if kind is None:
            namespace, labels = key
            by_key = dict(labels)
            meter.spent += _A_MATCH
            kind = PodKind(namespace, labels, self._lookup.selecting(namespace, by_key, self._around(namespace)))
            self._kinds[key] = kind
            self._pods.add(kind, namespace, by_key)
        return kind

    # ---- what a cycle is given

    def _settle(self, version: int, meter: Meter) -> Work[None]:
        """What changed in this cycle is told to later ones; terms whose counts are as they were are the same object."""
        changed, self._changed = self._changed, {}
        fresh: dict[PodTerm, Standing] = {}
        for term, before in changed.items():
            now = term.standing
            now.used = term.uses > 0
            if before is not None and now.equals(before):
                term.standing = before
            else:
                now.version = version
                fresh[term.term] = now
            meter.spent += _A_LOOK
            if meter.due():
                yield
        if fresh:
            self._standing = self._standing | fresh


def _kinds(gang: Gang, meter: Meter) -> Work[dict[tuple[str, Labels], None]]:
    space = gang.name.partition("/")[0]
    # Of thousands most share their labels, which cost more to compare than to count.
    each = {id(one.labels): one.labels for one in (yield from kinds(gang.waiting, meter))}
    return {(space, labels): None for labels in each.values()}
