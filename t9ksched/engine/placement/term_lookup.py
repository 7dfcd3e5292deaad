"""Finds terms by the pods that they select, and pods by the terms that select them, through their labels.

A term is filed under one of its requirements: the values of a label that it asks for, in its namespaces. Only terms
filed under a label of a pod are asked whether they select it, and only pods with such a label are asked about a term.
What is found is what a look at everything finds.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Generic, TypeVar

from t9ksched.model.podrules import Peers, PodTerm

T = TypeVar("T", bound=Hashable)
_ANY: Final = ""
"""In place of a namespace: of any; no namespace has this name."""
_MOST_PLACES: Final = 64
"""A term that would be filed in more places than this is filed under fewer of its conditions."""

_MOST_KEYS: Final = 64
"""So many labels of the pods of a namespace are filed."""
_Place = tuple[str, str | None, str | None]
"""Namespace, label and its value; no label for all pods there, no value for any value of the label."""


def _spaces(peers: Iterable[Peers]) -> tuple[str, ...] | None:
    """The namespaces that all of these name; None where some namespace is selected by its labels."""
    found: set[str] | None = None
    for one in peers:
        if one.namespace_selector is None:
            found = set(one.namespaces) if found is None else found & set(one.namespaces)
    return None if found is None else tuple(found)


def _conditions(term: PodTerm) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """Labels that each pod of the term has: with one of these values, or with any for None."""
    for one in term.peers:
        for requirement in one.selector.requirements if one.selector is not None else ():
            if requirement.operator == "In":
                yield requirement.key, requirement.values
            elif requirement.operator == "Exists":
                yield requirement.key, None


def _selects_none(term: PodTerm) -> bool:
    return any(one.selector is None for one in term.peers)


class TermLookup(Generic[T]):
    """Terms, each with what it stands for to the caller."""

    def __init__(self) -> None:
        self._filed: defaultdict[_Place, dict[T, PodTerm]] = defaultdict(dict)
        self._places: dict[T, tuple[_Place, ...]] = {}

    def add(self, term: PodTerm, one: T) -> None:
        """File a term; `one` stands for it, and is not known yet."""
        places = () if _selects_none(term) else self._choose(term)
        self._places[one] = places
        for place in places:
            self._filed[place][one] = term

    def remove(self, one: T) -> None:
        """Forget the term that this stands for."""
        for place in self._places.pop(one):
            filed = self._filed[place]
            del filed[one]
            if not filed:
                del self._filed[place]

    def _choose(self, term: PodTerm) -> tuple[_Place, ...]:
        """Where to file a term: under few values, where few others are filed."""
        spaces = _spaces(term.peers)
        if spaces is None or len(spaces) > _MOST_PLACES:
            spaces = (_ANY,)
        best: tuple[_Place, ...] = tuple((space, None, None) for space in spaces)
        cost = -1
        for key, values in _conditions(term):
            if values is None:
                places: tuple[_Place, ...] = tuple((space, key, None) for space in spaces)
            elif len(values) * len(spaces) <= _MOST_PLACES:
                places = tuple((space, key, value) for space in spaces for value in values)
            else:
                places = tuple((_ANY, key, value) for value in values)
            # A label's values tell more than that it is there, and that more than a namespace.
            crowd = sum(len(self._filed.get(place, ())) for place in places) + (values is None) * (1 << 40)
            if cost < 0 or crowd < cost:
                best, cost = places, crowd
        return best

    def selecting(self, namespace: str, labels: Mapping[str, str], around: Mapping[str, str]) -> list[T]:
        """What stands for the terms that select a pod with these labels, in a namespace with the labels `around`."""
        filed = self._filed
        if not filed:
            return []
        places: list[_Place] = [(namespace, None, None), (_ANY, None, None)]
        for key, value in labels.items():
            places += (namespace, key, value), (_ANY, key, value), (namespace, key, None), (_ANY, key, None)
        return [
            one
            for place in places
            if place in filed
            for one, term in filed[place].items()
            if term.matches(namespace, labels, around)
        ]


class PodLookup(Generic[T]):
    """Pods, or kinds of pods, by namespace and labels. A label is filed from when some term asks for it."""

    def __init__(self) -> None:
        self._of: dict[str, dict[T, Mapping[str, str]]] = {}
        self._filed: dict[tuple[str, str], dict[str, dict[T, None]]] = {}
        """By namespace and label, by value."""
        self._keys: defaultdict[str, set[str]] = defaultdict(set)
        """The labels that are filed in each namespace."""

    def add(self, one: T, namespace: str, labels: Mapping[str, str]) -> None:
        """A pod that is not known yet; its labels must not be changed."""
        self._of.setdefault(namespace, {})[one] = labels
        for key in self._keys.get(namespace, ()):
            if (value := labels.get(key)) is not None:
                self._filed[namespace, key].setdefault(value, {})[one] = None

    def remove(self, one: T, namespace: str) -> None:
        """The pod is gone."""
        those = self._of.get(namespace, {})
        labels = those.pop(one, None)
        if labels is None:
            return
        for key in self._keys.get(namespace, ()):
            if (value := labels.get(key)) is not None:
                filed = self._filed[namespace, key]
                del filed[value][one]
                if not filed[value]:
                    del filed[value]
        if not those:
            del self._of[namespace]
            for key in self._keys.pop(namespace, ()):
                del self._filed[namespace, key]

    def within(self, namespace: str) -> Mapping[T, Mapping[str, str]]:
        """The pods of a namespace, with their labels."""
        return self._of.get(namespace, {})

    def selected(self, term: PodTerm, around: Callable[[str], Mapping[str, str]]) -> Iterator[T]:
        """The pods that a term selects; `around` gives the labels of a namespace. None may come or go meanwhile."""
        if _selects_none(term):
            return
        spaces = _spaces(term.peers)
        for space in self._of if spaces is None else spaces:
            those = self._of.get(space)
            if those is not None:
                there = around(space)
                for one in self._asked(term, space):
                    if term.matches(space, those[one], there):
                        yield one

    def expect(self, term: PodTerm) -> None:
        """File the labels that a term asks for from now on: for pods that come that is done one by one."""
        for space in _spaces(term.peers) or ():
            for key, _ in _conditions(term):
                self._by_value(space, key)

    def _asked(self, term: PodTerm, space: str) -> Iterable[T]:
        """Pods of a namespace that a term may select: the fewest by any of its conditions."""
        best: list[dict[T, None]] | None = None
        fewest = len(self._of[space])
        for key, values in _conditions(term):
            by_value = self._by_value(space, key)
            those = list(by_value.values()) if values is None else [by_value[v] for v in values if v in by_value]
            count = sum(map(len, those))
            if best is None or count < fewest:
                best, fewest = those, count
        return self._of[space] if best is None else chain.from_iterable(best)

    def _by_value(self, space: str, key: str) -> dict[str, dict[T, None]]:
        filed = self._filed.get((space, key))
        if filed is None:
            if len(self._keys[space]) >= _MOST_KEYS:
                for other in self._keys.pop(space):
                    del self._filed[space, other]
            filed = self._filed[space, key] = {}
            self._keys[space].add(key)
            for one, labels in self._of.get(space, {}).items():
                if (value := labels.get(key)) is not None:
                    filed.setdefault(value, {})[one] = None
        return filed
