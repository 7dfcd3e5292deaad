"""Which terms of rules about pods are in use, and by how many: kept from cycle to cycle, by what came and went."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.members import MemberKind, kinds
from t9ksched.engine.placement.standing import Standing
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodRules, PodTerm

_A_LOOK: Final = 50
"""Units of work to look at a gang or a group of pods."""
_A_CLASS: Final = 10
"""Units of work to look at the class of a pod."""
_A_TERM: Final = 400
"""Units of work to find out whether a term is in use."""


class UsedTerm:
    """A term that some rules have.

    Attributes:
        refs: how many gangs, groups of pods and reservations have it.
        uses: in how many it keeps those that it selects away, or draws them.
        standing: what stands by it.
    """

    __slots__ = ("_order", "refs", "standing", "term", "uses")

    def __init__(self, term: PodTerm) -> None:
        self.term = term
        self.refs = self.uses = 0
        self.standing = Standing(term)
        self._order = b""

    @property
    def order(self) -> bytes:
        """Sorts terms, whichever came first."""
        self._order = self._order or msgspec.json.encode(self.term)
        return self._order


class UsedTerms:
    """All terms of the gangs that wait, of placed pods and of what is reserved.

    Attributes:
        all: by term; those that vanished stay until they are taken away.
        appeared, vanished: what changed; the reader empties them.
        turned: terms of which `uses` has become 0, or is 0 no more.
        groups: the groups of placed pods, by identity.
    """

    def __init__(self) -> None:
        self.all: dict[PodTerm, UsedTerm] = {}
        self.appeared: dict[UsedTerm, None] = {}
        self.vanished: dict[UsedTerm, None] = {}
        self.turned: dict[UsedTerm, None] = {}
        self.groups: dict[int, Neighbours] = {}
        self._neighbours: Sequence[Neighbours] = ()
        self._held: dict[int, PodClass] = {}
        """Classes of what is reserved, by identity."""
        self._rules_of: dict[str, tuple[PodRules, ...]] = {}
        """The rules of waiting pods, by UID of their gang."""
        self._rules: dict[int, tuple[PodRules, int]] = {}
        """By identity: how many gangs and reservations have them."""

    def __bool__(self) -> bool:
        return any(term.refs for term in self.all.values())

    def clear(self) -> None:
        """There are none, and what changed is known."""
        for kept in (self.all, self.appeared, self.vanished, self.turned):
            kept.clear()

    def follow_gangs(self, came: Iterable[Gang], went: Iterable[Gang], meter: Meter) -> Work[None]:
        """Gangs that came to wait, or do not wait any more."""
        for gang in went:
            for rules in self._rules_of.pop(gang.uid, ()):
                self._let_rules_go(rules)
                meter.spent += _A_TERM
            meter.spent += _A_LOOK
            if meter.due():
                yield
        for gang in came:
            each: Sequence[Member | MemberKind] = gang.waiting
            if len(each) > 1:
                each = yield from kinds(gang.waiting, meter)
            found = {id(own): own for one in each if (own := one.pod_class.rules) is not None}
            meter.spent += _A_CLASS * len(each)
            if found:
                self._rules_of[gang.uid] = tuple(found.values())
                for own in found.values():
                    self._take_rules(own)
                    meter.spent += _A_TERM
                    if meter.due():
                        yield
            meter.spent += _A_LOOK
            if meter.due():
                yield

    def _take_rules(self, rules: PodRules) -> None:
        known = self._rules.get(id(rules))
        self._rules[id(rules)] = rules, known[1] + 1 if known is not None else 1
        if known is None:
            self._take(rules.terms, _deciding(rules))

    def _let_rules_go(self, rules: PodRules) -> None:
        _, count = self._rules.pop(id(rules))
        if count > 1:
            self._rules[id(rules)] = rules, count - 1
        else:
            self._let_go(rules.terms, _deciding(rules))

    def _take(self, terms: Iterable[PodTerm], deciding: Iterable[PodTerm] = ()) -> None:
        for term in terms:
            known = self.all.get(term)
            if known is None:
                known = self.all[term] = UsedTerm(term)
                self.appeared[known] = None
            known.refs += 1
            self.vanished.pop(known, None)
        for term in deciding:
            known = self.all[term]
            known.uses += 1
            if known.uses == 1:
                self.turned[known] = None

    def _let_go(self, terms: Iterable[PodTerm], deciding: Iterable[PodTerm] = ()) -> None:
        for term in deciding:
            known = self.all[term]
            known.uses -= 1
            if not known.uses:
                self.turned[known] = None
        for term in terms:
            known = self.all[term]
            known.refs -= 1
            if not known.refs:
                self.vanished[known] = None

    def follow_neighbours(
        self, neighbours: Sequence[Neighbours], meter: Meter
    ) -> Work[tuple[list[Neighbours], list[Neighbours]]]:
        """The groups of placed pods that came, and those that went."""
        if neighbours is self._neighbours:
            return [], []
        groups = {id(one): one for one in neighbours}
        if len(groups) < len(neighbours):  # the same one twice
            groups = {id(copy): copy for copy in map(structs.replace, neighbours)}
        known, self.groups, self._neighbours = self.groups, groups, neighbours
        fresh = [group for at, group in groups.items() if at not in known]
        gone = [group for at, group in known.items() if at not in groups]
        meter.spent += _A_CLASS * (len(groups) + len(known))
        for those, change in ((fresh, self._take), (gone, self._let_go)):
            for group in those:
                if group.apart or group.preferred_terms:
                    terms = (*group.apart, *(term for _, term in group.preferred_terms))
                    change(terms, terms)
                    meter.spent += _A_TERM * len(terms)
                meter.spent += _A_LOOK
                if meter.due():
                    yield
        return fresh, gone

    def follow_reservations(self, held: dict[int, PodClass]) -> None:
        """What is reserved for pods counts by the terms that selected them when they were placed."""
        known, self._held = self._held, held
        for at in held.keys() - known.keys():
            if (rules := held[at].rules) is not None:
                self._take_rules(rules)
            self._take(held[at].counted)
        for at in known.keys() - held.keys():
            if (rules := known[at].rules) is not None:
                self._let_rules_go(rules)
            self._let_go(known[at].counted)


def _deciding(rules: PodRules) -> Iterator[PodTerm]:
    """The terms of rules by which a pod that a term selects is kept away or drawn."""
    yield from rules.apart
    for _, term in rules.prefer_pods:
        yield term
