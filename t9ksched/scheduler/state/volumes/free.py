"""Where free volumes lie, by what claims ask for.

Claims that ask alike share one answer. A volume that comes, changes or goes is compared once with each answer of its
class, and changes those that it makes a difference to.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable
from weakref import WeakValueDictionary

from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector, NodeSelectorTerm
from t9ksched.model.volumes import Asked, PersistentVolume

Terms = tuple[NodeSelectorTerm, ...] | None
"""Where volumes lie; None for volumes that are reached from anywhere."""


class FreePlaces:
    """Where the free volumes of a class lie that are kept for none and fit claims that ask alike."""

    __slots__ = ("__weakref__", "_anywhere", "_count", "_selectors", "_terms")

    def __init__(self, volumes: Iterable[Terms]) -> None:
        self._count: Counter[NodeSelectorTerm] = Counter()
        self._anywhere = 0
        self._terms: list[NodeSelectorTerm] = []
        """Each once, in the order of their texts."""
        self._selectors: dict[Terms, NodeSelector | None] = {}
        for terms in volumes:
            self._anywhere += terms is None
            self._count.update(terms or ())
        self._terms = sorted(self._count, key=str)

    def change(self, gone: Terms, come: Terms) -> bool:
        """A volume that lay there is gone, and one that lies here has come; empty stands for none.

        Returns:
            Whether other nodes are meant now.
        """
        anywhere, moved = self._anywhere > 0, False
        self._anywhere += (come is None) - (gone is None)
        self._count.subtract(gone or ())
        self._count.update(come or ())
        for term in dict.fromkeys((*(gone or ()), *(come or ()))):
            at = bisect_left(self._terms, str(term), key=str)
            while at < len(self._terms) and self._terms[at] != term and str(self._terms[at]) == str(term):
                at += 1
            known = at < len(self._terms) and self._terms[at] == term
            if known != (self._count[term] > 0):
                moved = True
                if known:
                    del self._terms[at]
                else:
                    self._terms.insert(at, term)
            if self._count[term] <= 0:
                del self._count[term]
        if moved or anywhere != (self._anywhere > 0):
            self._selectors.clear()
        return anywhere != (self._anywhere > 0) or (moved and not anywhere)

    def selector(self, besides: Terms) -> NodeSelector | None:
        """The nodes from which one of them is reached, or that the other terms mean; None for all nodes. It has no
        terms where there are none.
        """
        if besides not in self._selectors:
            self._selectors[besides] = self._select(besides)
        return self._selectors[besides]

    def with_own(self, besides: Terms, own: Terms) -> NodeSelector | None:
        """The same with volumes that are kept for one claim."""
        found = self.selector(besides)
        return None if own is None or found is None else _joined(found.terms, own)

    def _select(self, besides: Terms) -> NodeSelector | None:
        return None if besides is None or self._anywhere else _joined(self._terms, besides)


class FreeVolumes:
    """The volumes that are not bound and kept for no claim, by class. Answers are kept as long as someone has them."""

    def __init__(self) -> None:
        self._volumes: defaultdict[str, dict[str, tuple[PersistentVolume, Terms]]] = defaultdict(dict)
        self._places: defaultdict[str, WeakValueDictionary[Asked, FreePlaces]] = defaultdict(WeakValueDictionary)

    def places(self, kind: str, asked: Asked) -> FreePlaces:
        """Where those of a class lie that fit; the answer follows what changes as long as it is kept."""
        found = self._places[kind].get(asked)
        if found is None:
            volumes = self._volumes.get(kind, {}).values()
            found = FreePlaces(terms for volume, terms in volumes if asked.met_by(volume, kind))
            self._places[kind][asked] = found
        return found

    def change(self, before: PersistentVolume | None, now: PersistentVolume | None) -> list[FreePlaces]:
        """A volume came, changed or went. Returns the answers that are others now."""
        kinds = [volume.spec.storage_class_name for volume in (before, now) if volume is not None]
        return [places for kind in dict.fromkeys(kinds) for places in self._change(kind, before, now)]

    def _change(self, kind: str, before: PersistentVolume | None, now: PersistentVolume | None) -> list[FreePlaces]:
        volumes = self._volumes[kind]
        old = volumes.pop(before.metadata.name, None) if before is not None else None
        new = None
        if now is not None and now.spec.storage_class_name == kind and _free(now):
            new = volumes[now.metadata.name] = now, lies(now)
        if old is None and new is None:
            return []
        changed = []
        for asked, places in list(self._places[kind].items()):
            gone = old[1] if old is not None and asked.met_by(old[0], kind) else ()
            come = new[1] if new is not None and asked.met_by(new[0], kind) else ()
            if places.change(gone, come):
                changed.append(places)
        return changed


def _free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase != "Bound"


def lies(volume: PersistentVolume) -> Terms:
    """The terms of its node affinity; none where that is malformed."""
    try:
        affinity = volume.affinity()
    except Invalid:
        return ()
    return None if affinity is None else affinity.terms


def _joined(ordered: Iterable[NodeSelectorTerm], more: Iterable[NodeSelectorTerm]) -> NodeSelector:
    """All of them, each once, in the order of their texts, which the first have already."""
    terms = list(ordered)
    known = set(terms) if more else ()
    for term in dict.fromkeys(more):
        if term not in known:
            insort(terms, term, key=str)
    return NodeSelector(tuple(terms))
