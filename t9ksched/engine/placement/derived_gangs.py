"""Waiting gangs with classes that know which terms of rules about pods select them, kept from cycle to cycle."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from t9ksched.engine.members import OfClass, with_kinds
from t9ksched.engine.members import kinds as kinds_of
from t9ksched.engine.placement.used_terms import UsedTerm
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Labels, Member, Neighbours
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodTerm

_MANY: Final = 256
"""So many members of a gang are derived at once."""
_A_MEMBER: Final = 100
"""Units of work to derive a pod."""
_A_PART: Final = 2048
"""So many gangs that stay as they are are looked at in one step."""
_MOST_CLASSES: Final = 4096
"""So many classes are kept for gangs that have gone."""


class PodKind:
    """Pods that are alike in namespace and labels.

    Attributes:
        terms: those that select them.
        gangs: gangs that have some that wait, by UID.
        groups: groups of those that have places, by identity.
        counted: the terms in their order; None until that is asked for.
    """

    __slots__ = ("counted", "gangs", "groups", "labels", "namespace", "terms")

    def __init__(self, namespace: str, labels: Labels, terms: Iterable[UsedTerm]) -> None:
        self.namespace, self.labels = namespace, labels
        self.terms = dict.fromkeys(terms)
        self.counted: tuple[PodTerm, ...] | None = None
        self.gangs: dict[str, Gang] = {}
        self.groups: dict[int, Neighbours] = {}


Kinds = Mapping[tuple[str, Labels], PodKind]


class DerivedGangs:
    """The gangs of the latest cycle. A gang of which no term selects a pod is the one of the view."""

    def __init__(self) -> None:
        self._derived: dict[str, Gang] = {}
        self._told: tuple[Gang, ...] = ()
        self._counted: dict[tuple[UsedTerm, ...], tuple[PodTerm, ...]] = {}
        self._classes: dict[tuple[int, int], tuple[PodClass, PodClass, tuple[PodTerm, ...]]] = {}

    def forget(self, gang: str) -> None:
        """The gang with this UID does not wait any more."""
        self._derived.pop(gang, None)

    def derive(self, stale: Iterable[Gang], kinds: Kinds, meter: Meter) -> Work[None]:
        """Other terms select pods of these gangs than before."""
        for gang in stale:
            waiting = yield from self._members(gang, kinds, meter)
            if waiting is not gang.waiting:
                self._derived[gang.uid] = structs.replace(gang, waiting=waiting)
            else:
                self._derived.pop(gang.uid, None)
            self._told = ()
            meter.spent += 2 * _A_MEMBER
            if meter.due():
                yield
        if len(self._classes) > _MOST_CLASSES + 2 * len(self._derived):
            self._classes.clear()
            self._counted.clear()
            for kind in kinds.values():
                kind.counted = None

    def _members(self, gang: Gang, kinds: Kinds, meter: Meter) -> Work[Sequence[Member]]:
        """The members of a gang; the very same where no term selects any."""
        space, members = gang.name.partition("/")[0], gang.waiting
        meter.spent += _A_MEMBER
        each = yield from kinds_of(members, meter)
        if len(each) == 1:
            pod_class = self._class(each[0].pod_class, kinds[space, each[0].labels])
            return members if pod_class is each[0].pod_class else OfClass(members, pod_class)
        found: list[Member] = []
        for first in range(0, len(members), _MANY):
            some = members[first : first + _MANY]
            found += [self._member(space, one, kinds) for one in some]
            meter.spent += _A_MEMBER * len(some)
            if meter.due():
                yield
        changed = any(one is not other for one, other in zip(found, members, strict=True))
        return with_kinds(found) if changed else members

    def _member(self, space: str, member: Member, kinds: Kinds) -> Member:
        pod_class = self._class(member.pod_class, kinds[space, member.labels])
        return member if pod_class is member.pod_class else structs.replace(member, pod_class=pod_class)

    def _class(self, pod_class: PodClass, kind: PodKind) -> PodClass:
        """The class of pods of a kind, with the terms that select them."""
        counted = self._terms_of(kind)
        if not counted:
            return pod_class
        key = id(pod_class), id(counted)
        known = self._classes.get(key)
        if known is None:
            derived = replace(pod_class, counted=counted)
            known = self._classes[key] = derived, pod_class, counted  # alive as long as their ids are a key
        return known[0]

    def _terms_of(self, kind: PodKind) -> tuple[PodTerm, ...]:
        """The terms that select the pods of a kind, in an order that does not depend on what came first; the same
        object for the same terms.
        """
        if kind.counted is None:
            terms = tuple(kind.terms)
            if len(terms) > 1:
                terms = tuple(sorted(terms, key=lambda term: term.order))
            kind.counted = self._counted.get(terms)
            if kind.counted is None:
                kind.counted = self._counted[terms] = tuple(term.term for term in terms)
        return kind.counted

    def tell(self, gangs: Sequence[Gang], meter: Meter, *, changed: bool) -> Work[tuple[Gang, ...]]:
        """These gangs, derived; `changed` if some came or went. The same tuple as long as nothing changes."""
        if changed or not self._told:
            derived = self._derived
            if not derived:
                self._told = tuple(gangs)
                return self._told
            found: list[Gang] = []
            for first in range(0, len(gangs), _A_PART):
                some = gangs[first : first + _A_PART]
                found += [derived.get(gang.uid, gang) for gang in some]
                meter.spent += 10 * len(some)
                yield
            self._told = tuple(found)
        return self._told
