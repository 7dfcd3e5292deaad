"""Placed pods that rules about pods select, kept event by event.

Most clusters have few rules, which select few pods: only pods that a rule selects, or that have rules of their own, are
handed to the engine. A new rule is matched once with every pod; after that each event costs the match of one pod.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from t9ksched.model.gang import Neighbours
from t9ksched.model.podrules import PodTerm, namespace_labels
from t9ksched.scheduler.state.namespaces import Namespaces
from t9ksched.scheduler.state.records import PodRecord

_Key = tuple[str, tuple[tuple[str, str], ...], tuple[PodTerm, ...], tuple[tuple[int, PodTerm], ...], bool]


class PodAffinityIndex:
    """Which pods the affinity rules of others select, and which rules there are. `pods` are all known pods, by uid."""

    def __init__(self, pods: Mapping[str, PodRecord], namespaces: Namespaces) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._terms: Counter[PodTerm] = Counter()
        self._of: dict[str, tuple[PodTerm, ...]] = {}
        """Terms of each pod that has rules."""
        self._near: dict[str, _Key] = {}

    def __bool__(self) -> bool:
        return bool(self._terms)

    def seen(self, pod: PodRecord) -> None:
        """A pod appeared or changed."""
        rules = pod.pod_class.rules if pod.pod_class else None
        terms = rules.terms if rules and not pod.finished else ()
        if terms != self._of.get(pod.uid, ()):
            self._swap(pod.uid, terms)
        if self._terms:
            self._look(pod)

    def namespace_changed(self, name: str) -> None:
        """Labels of a namespace changed: terms that select namespaces may select its pods now, or no longer."""
        if any(peers.namespace_selector is not None for term in self._terms for peers in term.peers):
            for pod in self._pods.values():
                if pod.namespace == name:
                    self._look(pod)

    def gone(self, uid: str) -> None:
        """A pod was deleted."""
        self._near.pop(uid, None)
        if uid in self._of:
            self._swap(uid, ())

    def _swap(self, uid: str, terms: tuple[PodTerm, ...]) -> None:
        before = set(self._terms)
        self._terms.subtract(self._of.pop(uid, ()))
        self._terms.update(terms)
        self._terms = +self._terms
        if terms:
            self._of[uid] = terms
        if set(self._terms) - before:
            for pod in self._pods.values():
                self._look(pod)
        elif not self._terms:
            self._near.clear()

    def _look(self, pod: PodRecord) -> None:
        rules = pod.pod_class.rules if pod.pod_class else None
        apart = rules.apart if rules else ()
        preferred = rules.prefer_pods if rules else ()
        around = namespace_labels(pod.namespace, self._namespaces.labels)
        matters = apart or preferred or any(term.matches(pod.namespace, pod.labels, around) for term in self._terms)
        if matters and not pod.finished:
            self._near[pod.uid] = (pod.namespace, own_labels(pod), apart, preferred, pod.deleting)
        else:
            self._near.pop(pod.uid, None)

    def present(self) -> tuple[Neighbours, ...]:
        """The selected pods that have a place, for one view."""
        groups: defaultdict[_Key, Counter[str]] = defaultdict(Counter)
        for uid, key in self._near.items():
            pod = self._pods.get(uid)
            if pod is not None and (place := pod.node or pod.assumed):
                groups[key][place] += 1
        ordered = sorted(groups.items(), key=lambda item: (*item[0][:2], str(item[0][2:])))
        return tuple(
            Neighbours(namespace, labels, tuple(sorted(nodes.items())), apart, preferred, leaving)
            for (namespace, labels, apart, preferred, leaving), nodes in ordered
        )


def own_labels(pod: PodRecord) -> tuple[tuple[str, str], ...]:
    """A pod's labels as a value."""
    return tuple(sorted(pod.labels.items()))
