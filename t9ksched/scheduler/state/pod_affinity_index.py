"""Placed pods that rules about pods select, kept event by event.

Most clusters have few rules, which select few pods: only pods that a rule selects, or that have rules of their own, are
handed to the engine. A new rule is matched with the pods that have a label which it asks for, a new pod with the rules
that ask for one of its labels; any other event of a pod is matched with none.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from t9ksched.engine.gang_changes import differing
from t9ksched.engine.members import with_kinds
from t9ksched.engine.placement.term_lookup import PodLookup, TermLookup
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.podrules import PodRules, PodTerm, namespace_labels
from t9ksched.scheduler.state.namespaces import Namespaces
from t9ksched.scheduler.state.records import PodRecord

_Labels = tuple[tuple[str, str], ...]
_Key = tuple[str, _Labels, int, bool]
"""Namespace, labels, identity of the rules, and whether the pods are leaving."""

_A_STEP: Final = 200
"""Waiting gangs and their pods whose labels are told in one step: some milliseconds."""


class _Group:
    """Placed pods that are alike, by node."""

    __slots__ = ("nodes", "rules", "told")

    def __init__(self, rules: PodRules | None) -> None:
        self.rules = rules
        self.nodes: dict[str, int] = {}
        self.told: Neighbours | None = None
        """As the engine was told of them last; None if they changed since."""

    def add(self, node: str, pods: int) -> None:
        count = self.nodes.get(node, 0) + pods
        if count:
            self.nodes[node] = count
        else:
            del self.nodes[node]
        self.told = None

    def tell(self, namespace: str, labels: _Labels, *, leaving: bool) -> Neighbours:
        if self.told is None:
            rules = self.rules
            apart, preferred = (rules.apart, rules.prefer_pods) if rules is not None else ((), ())
            nodes = tuple(sorted(self.nodes.items()))
            self.told = Neighbours(namespace, labels, nodes, apart, preferred, leaving)
        return self.told


class PodAffinityIndex:
    """Which pods the affinity rules of others select, and which rules there are. `pods` are all known pods, by uid."""

    def __init__(self, pods: Mapping[str, PodRecord], namespaces: Namespaces) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._rules: dict[str, PodRules] = {}
        """Of each pod that has rules about pods."""
        self._shared: dict[int, int] = {}
        """How many pods have rules, by identity."""
        self._terms: dict[PodTerm, int] = {}
        """How many rules have a term."""
        self._forget()

    def _forget(self) -> None:
        self._lookup: TermLookup[PodTerm] = TermLookup()
        self._known: PodLookup[str] = PodLookup()
        """All pods, while there are rules."""
        self._matched: dict[str, tuple[str, Mapping[str, str]]] = {}
        """Namespace and labels with which each was matched."""
        self._selected: dict[str, int] = {}
        """By how many terms a pod is selected; of those that are."""
        self._places: dict[str, tuple[_Key, str]] = {}
        self._groups: dict[_Key, _Group] = {}
        self._told: tuple[Neighbours, ...] | None = ()
        self._around: dict[str, Mapping[str, str]] = {}
        """The labels that namespaces had when their pods were matched."""
        self._seen: tuple[Gang, ...] = ()
        """The waiting gangs of the latest view …"""
        self._labelled: tuple[Gang, ...] = ()
        """… and the same with their members' labels."""
        self._relabelled: set[str] = set()
        """Gangs of which pods have other labels since."""
        self._ahead: dict[int, tuple[Gang, Gang]] = {}
        """By identity: gangs that came since that view, and the same with labels."""

    def __bool__(self) -> bool:
        return bool(self._terms)

    # ---- events

    def seen(self, pod: PodRecord) -> None:
        """A pod appeared or changed, or got or lost its place."""
        rules = pod.pod_class.rules if pod.pod_class is not None else None
        if rules is not None and pod.finished:
            rules = None
        if rules is not self._rules.get(pod.uid):
            self._swap(pod.uid, rules)
        if self._terms:
            matched = self._matched.get(pod.uid)
            if matched is None or matched[1] is not pod.labels:
                self._match(pod)
            self._settle(pod)

    def gone(self, uid: str) -> None:
        """A pod was deleted."""
        matched = self._matched.pop(uid, None)
        if matched is not None:
            self._move(uid, None)
            self._selected.pop(uid, None)
            self._known.remove(uid, matched[0])
        self._swap(uid, None)

    def namespace_changed(self, name: str) -> None:
        """Labels of a namespace changed: terms that select namespaces may select its pods now, or no longer."""
        if name not in self._around:
            return
        before, now = self._around[name], self._labels_of(name)
        selectors = {
            peers.namespace_selector
            for term in self._terms
            for peers in term.peers
            if peers.namespace_selector is not None
        }
        self._around[name] = now
        if any(one.matches(before) != one.matches(now) for one in selectors):
            for uid in list(self._known.within(name)):
                self._match(self._pods[uid])
                self._settle(self._pods[uid])

    # ---- terms

    def _swap(self, uid: str, rules: PodRules | None) -> None:
        """The pod has these rules now."""
        before = self._rules.pop(uid, None)
        if rules is not None:
            self._rules[uid] = rules
            self._shared[id(rules)] = self._shared.get(id(rules), 0) + 1
            if self._shared[id(rules)] == 1:
                self._take(rules.terms)
        if before is not None:
            self._shared[id(before)] -= 1
            if not self._shared[id(before)]:
                del self._shared[id(before)]
                self._let_go(before.terms)

    def _take(self, terms: Iterable[PodTerm]) -> None:
        for term in terms:
            known = self._terms.get(term, 0)
            self._terms[term] = known + 1
            if known:
                continue
            if len(self._terms) == 1:
                self._begin()
            self._lookup.add(term, term)
            for uid in self._known.selected(term, self._labels_then):
                self._selected[uid] = self._selected.get(uid, 0) + 1
                self._settle(self._pods[uid])

    def _let_go(self, terms: Iterable[PodTerm]) -> None:
        for term in terms:
            self._terms[term] -= 1
            if self._terms[term]:
                continue
            del self._terms[term]
            if not self._terms:
                self._forget()
                return
            self._lookup.remove(term)
            for uid in self._known.selected(term, self._labels_then):
                left = self._selected.pop(uid) - 1
                if left:
                    self._selected[uid] = left
                self._settle(self._pods[uid])

    def _begin(self) -> None:
        """There are rules from now on: all pods are filed."""
        for pod in self._pods.values():
            self._file(pod)

    # ---- pods

    def _file(self, pod: PodRecord) -> None:
        self._known.add(pod.uid, pod.namespace, pod.labels)
        self._matched[pod.uid] = pod.namespace, pod.labels
        if pod.namespace not in self._around:
            self._around[pod.namespace] = self._labels_of(pod.namespace)

    def _match(self, pod: PodRecord) -> None:
        """Find out how many terms select the pod."""
        if (known := self._matched.get(pod.uid)) is not None:
            self._known.remove(pod.uid, pod.namespace)
            if pod.gang is not None and known[1] != pod.labels:
                self._relabelled.add(pod.gang.uid)
        self._file(pod)
        count = len(self._lookup.selecting(pod.namespace, pod.labels, self._around[pod.namespace]))
        if count:
            self._selected[pod.uid] = count
        else:
            self._selected.pop(pod.uid, None)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        return namespace_labels(namespace, self._namespaces.labels)

    def _labels_then(self, namespace: str) -> Mapping[str, str]:
        return self._around[namespace]

    def _settle(self, pod: PodRecord) -> None:
        """Count the pod where it stands, if that matters."""
        rules, uid = self._rules.get(pod.uid), pod.uid
        speaks = rules is not None and (rules.apart or rules.prefer_pods)
        place = pod.node or pod.assumed
        if not place or pod.finished or not (speaks or uid in self._selected):
            self._move(uid, None)
            return
        key = (pod.namespace, own_labels(pod), id(rules) if speaks else 0, pod.deleting)
        if self._places.get(uid) != (key, place):
            self._move(uid, (key, place), rules if speaks else None)

    def _move(self, uid: str, to: tuple[_Key, str] | None, rules: PodRules | None = None) -> None:
        known = self._places.pop(uid, None)
        if known is None and to is None:
            return
        self._told = None
        if to is not None:
            key, node = self._places[uid] = to
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(rules)
            group.add(node, 1)
        if known is not None:
            key, node = known
            group = self._groups[key]
            group.add(node, -1)
            if not group.nodes:
                del self._groups[key]

    # ---- views

    def present(self) -> tuple[Neighbours, ...]:
        """The selected pods that have a place, for one view; the same value while nothing changes."""
        if self._told is None:
            self._told = tuple(
                group.tell(namespace, labels, leaving=leaving)
                for (namespace, labels, _, leaving), group in self._groups.items()
            )
        return self._told

    def label(self, gangs: Iterable[Gang]) -> Iterator[None]:
        """Prepare `labelled` of gangs that have all their pods, in steps: many may have come at once. Those that come
        or change between two steps are left to `labelled`.
        """
        seen = set(map(id, self._seen)) if self else set()
        work = 0
        for gang in tuple(gangs) if self else ():
            if id(gang) in seen or id(gang) in self._ahead or not all(one.uid in self._pods for one in gang.waiting):
                continue
            self._ahead[id(gang)] = gang, self._with_labels(gang)
            work += 1 + len(gang.waiting)
            if work >= _A_STEP:
                work = 0
                yield

    def labelled(self, gangs: Iterable[Gang]) -> tuple[Gang, ...]:
        """Waiting gangs with their members' labels, which rules about pods read; those that stay the same are, and so
        is the tuple while all do. Only gangs that came since the last call are looked at.
        """
        gangs = tuple(gangs)
        places, rest = finish(differing(self._seen, gangs, Meter()))
        other, self._relabelled = self._relabelled, set()
        if places or rest.gone or rest.come or other:
            told = list(self._labelled)
            for old, gone, new, come in reversed((*places, rest)):
                there = slice(old, old + gone)
                known = dict(zip(map(id, self._seen[there]), told[there], strict=True))
                told[there] = [known.get(id(gang)) or self._labelled_ahead(gang) for gang in gangs[new : new + come]]
            for at, gang in enumerate(gangs) if other else ():
                if gang.uid in other:
                    told[at] = self._with_labels(gang)
            self._labelled = tuple(told)
        self._seen = gangs
        self._ahead.clear()
        return self._labelled

    def _labelled_ahead(self, gang: Gang) -> Gang:
        ahead = self._ahead.get(id(gang))
        return ahead[1] if ahead is not None else self._with_labels(gang)

    def _with_labels(self, gang: Gang) -> Gang:
        """The gang with its members' labels; those with equal ones have the same object."""
        shared: dict[_Labels, _Labels] = {}
        members: list[Member] = []
        for one in gang.waiting:
            labels = own_labels(self._pods[one.uid])
            members.append(structs.replace(one, labels=shared.setdefault(labels, labels)))
        return structs.replace(gang, waiting=with_kinds(members))


def own_labels(pod: PodRecord) -> tuple[tuple[str, str], ...]:
    """A pod's labels as a value."""
    return tuple(sorted(pod.labels.items()))
