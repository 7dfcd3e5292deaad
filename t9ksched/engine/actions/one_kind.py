"""One kind of cards for each role: whole cards, MIG slices and shared cards are never mixed among members of a role.

A class of pods that takes several kinds is narrowed to one before its gang is tried: to that of the role's placed
members, else to the one that a promise or plan of the gang has, else to the first for which there is room now and its
queue can pay, else to the first that could take them all. In a cluster whose cards are all of one kind it is not
needed, nor for pods that take one kind alone: most, as a plain request for cards means whole ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from msgspec import structs

from t9ksched.engine import explain
from t9ksched.engine.actions.affordable import Affordable
from t9ksched.engine.actions.fit import fit, places
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.explain.room import impossible
from t9ksched.engine.members import chosen
from t9ksched.engine.placement.pack import Attempt
from t9ksched.engine.work import Work
from t9ksched.model.cardchoice import KINDS, CardChoice, kind_of, kinds
from t9ksched.model.gang import Gang
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason

Narrowing = Mapping[str, str]
"""Kind of cards by role."""
_CLASSES: Final = 4096


def takes_several(cycle: Cycle, pod_class: PodClass, queue: str) -> bool:
    """Whether cards of several kinds that nodes have will do for a pod of a gang of this queue. Gangs of which none of
    the pods takes several are never narrowed.
    """
    if not pod_class.plain or len(cycle.trial.nodes.static.card_kinds) < 2:
        return False
    if pod_class.choice is not None and pod_class.choice.settled:
        return True  # before it was narrowed
    selector = cycle.view.queues[queue].spec.node_selector
    return len(kinds(pod_class.choice, True, pod_class.node_selector, pod_class.node_affinity, selector)) > 1


class OneKind:
    """Narrows the classes of a cycle's gangs."""

    def __init__(self, cycle: Cycle, affordable: Affordable | None) -> None:
        self._cycle = cycle
        self._affordable = affordable
        self._promised: dict[str, set[str]] | None = None

    def settle(self, gang: Gang) -> Work[Gang]:
        """The gang, its members narrowed to one kind of cards for each role."""
        options = self._options(gang)
        if not options:
            return gang
        found = [(one, _narrow(gang, one)) for one in _narrowings(options)]
        if len(found) == 1:
            return found[0][1]
        promised = self._of_promises().get(gang.uid, set())
        for narrowing, narrow in found:
            if promised and promised <= set(narrowing.values()):
                return narrow
        if (fitting := (yield from self._first_that_fits(gang, [narrow for _, narrow in found]))) is not None:
            return fitting
        for _, narrow in found:
            if (yield from self._could(narrow)):
                return narrow
        return found[0][1]

    def mixed(self, gang: Gang) -> Reason | None:
        """Why no kind of cards will do for all members of some role; None where one will do."""
        selector = self._cycle.view.queues[gang.queue].spec.node_selector
        nodes, placed = self._cycle.trial.nodes.static, dict(gang.card_nodes)
        wanted: dict[str, set[tuple[str, ...]]] = {}
        for role, of in {(one.role, one.pod_class) for one in gang.waiting if one.pod_class.plain}:
            wanted.setdefault(role, set()).add(_kinds(of, selector))
        for role, each in sorted(wanted.items()):
            if (node := placed.get(role)) is not None and node in nodes.index:
                each.add((kind_of(nodes.facts[nodes.index[node]].mode, plain=True),))
            if len(each) > 1 and not set.intersection(*map(set, each)):
                return explain.kinds_mixed(role, [kind for kind in KINDS if any(kind in those for those in each)])
        return None

    def _options(self, gang: Gang) -> dict[str, list[str]]:
        """The kinds that will do for each role with waiting members that take several, in order."""
        nodes, feasibility = self._cycle.trial.nodes.static, self._cycle.trial.feasibility
        selector = self._cycle.view.queues[gang.queue].spec.node_selector
        total, placed = dict(gang.total_roles), dict(gang.card_nodes)
        options: dict[str, list[str]] = {}
        classes = {(one.role, id(one.pod_class)): (one.role, one.pod_class) for one in gang.waiting}
        plain = [(role, of, _kinds(of, selector)) for role, of in classes.values() if of.plain]
        common: dict[str, set[str]] = {}
        for role, _, wanted in plain:
            common[role] = common.get(role, set(wanted)).intersection(wanted)
        for role, pod_class, wanted in plain:
            if len(wanted) < 2 or (total.get(role, 0) < 2 and role not in placed):
                continue
            wanted = tuple(kind for kind in wanted if kind in common[role])
            if (node := placed.get(role)) is not None and node in nodes.index:
                kept = kind_of(nodes.facts[nodes.index[node]].mode, plain=True)
                options[role] = [kept] if kept in wanted else list(wanted[:1])
                continue
            there = [kind for kind in wanted if feasibility.allowed(selector, _narrowed(pod_class, kind)).any()]
            known = options.get(role)
            options[role] = [one for one in there if known is None or one in known] or there or list(wanted[:1])
        return options

    def _first_that_fits(self, gang: Gang, found: Sequence[Gang]) -> Work[Gang | None]:
        """The first of these, to which a gang may be narrowed, for which there is room now."""
        starving = self._cycle.starving
        collects = starving is not None and starving.turn(gang)
        fitting: Gang | None = None
        for narrow in found:
            if (yield from self._fits(narrow)):
                fitting = narrow
                break
        if starving is not None and collects:
            starving.goes_on(gang)
        return fitting

    def _fits(self, gang: Gang) -> Work[bool]:
        """Whether there is room for the minimum now, beside what is planned for others or reserved from it."""
        members, _, enough = chosen(gang)
        if not members or not enough:
            return False
        cycle = self._cycle
        if self._affordable is not None:
            gang = yield from self._affordable.settle(gang)
            members, _, _ = chosen(gang)
            if not (yield from self._affordable.pays(gang)):
                return False
        key = yield from cycle.keys.of(gang, members)
        if cycle.planned is not None and cycle.planned.any:
            yield from cycle.planned.prepare()
            taken = cycle.planned.taken(gang)
        else:
            taken = cycle.withheld(gang)
        if taken is not None:
            return bool((yield from places(cycle, gang, key, taken)))
        mark = cycle.trial.mark()
        attempt = yield from fit(cycle, gang, key)
        cycle.trial.undo(mark)
        return attempt is Attempt.PLACED

    def _could(self, gang: Gang) -> Work[bool]:
        """Whether there would be, if nothing ran."""
        members, _, _ = chosen(gang)
        if not members or (self._affordable is not None and not (yield from self._affordable.pays(gang, ever=True))):
            return False
        key = yield from self._cycle.keys.of(gang, members)
        return all(impossible(column, pods) is None for column, pods in key.groups)

    def _of_promises(self) -> dict[str, set[str]]:
        """The kinds to which classes of promised and planned room are narrowed, by UID of the gang."""
        if self._promised is None:
            self._promised = {}
            for one in self._cycle.view.reservations:
                choice = one.pod_class.choice
                if choice is not None and choice.settled:
                    self._promised.setdefault(one.owner, set()).add(choice.mode)
        return self._promised


def _narrowings(options: Mapping[str, list[str]]) -> Iterator[Narrowing]:
    """The same kind for all roles where they take it; each once, in the order of kinds."""
    seen: list[Narrowing] = []
    for kind in KINDS:
        one = {role: kind if kind in those else those[0] for role, those in options.items()}
        if one not in seen and any(kind in those for those in options.values()):
            seen.append(one)
            yield one


def _narrow(gang: Gang, to: Narrowing) -> Gang:
    waiting = tuple(
        structs.replace(one, pod_class=_narrowed(one.pod_class, to[one.role]))
        if one.role in to and one.pod_class.plain and not _decided(one.pod_class)
        else one
        for one in gang.waiting
    )
    return structs.replace(gang, waiting=waiting)


def _decided(pod_class: PodClass) -> bool:
    """Whether its user asked for one kind."""
    return pod_class.choice is not None and pod_class.choice.mode in KINDS


@lru_cache(maxsize=_CLASSES)
def _narrowed(pod_class: PodClass, kind: str) -> PodClass:
    """The class, of one kind of cards. The same object for the same class: keys of gangs are found by it."""
    return replace(pod_class, choice=replace(pod_class.choice or CardChoice(), mode=kind, settled=True))


@lru_cache(maxsize=_CLASSES)
def _kinds(pod_class: PodClass, selector: LabelSelector | None) -> tuple[str, ...]:
    return kinds(pod_class.choice, True, pod_class.node_selector, pod_class.node_affinity, selector)
