"""What can never fit: not even if nothing ran on any node that the queue may use, those included that are away for now.

A node is *away* that would match if it were ready, not cordoned, without the taints that Kubernetes sets of itself,
with its accelerators ready and the holders of its cards on record. What is said here is proved by numbers; where they
prove nothing, pods may have no way to fit together all the same. Any change of nodes or of the queue makes it be asked
anew.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.explain.cards import never_a_card
from t9ksched.engine.explain.excluded import excluded_ever
from t9ksched.engine.explain.inventory import Addition, held_back, named_by_state, with_additions
from t9ksched.engine.explain.words import amount, counted, matching, wants
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.card_constraints import CARD_HOLDERS, CardsKnown
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.constraints import Constraint, Schedulable, Usable, constraints
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.work import Work
from t9ksched.model.podrules import PodTerm
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason

_MOST_KINDS: Final = 8
"""Of gangs with more kinds of pods only all together are looked at."""
_MOST_NAMED: Final = 3
_STATES: Final = {
    "not ready": "not ready",
    "unschedulable": "cordoned",
    "taints": "tainted",
}
_HELP: Final = {
    "not ready": "the nodes are ready again",
    "unschedulable": "an administrator uncordons the nodes",
    "taints": "Kubernetes takes the taints off the nodes",
    CARD_HOLDERS: "the pods end whose cards are not certain",
}


def alone(groups: Sequence[Group]) -> Work[bool]:
    """Whether pods of some class can never fit, whatever the others are."""
    for column, pods in groups:
        if column.total_ever() < pods and not excluded_ever(column):
            return True
        yield
    return False


def never_fits(column: ClassFit, pods: int) -> Reason | None:
    """Why the nodes would not take the pods of one class even if nothing ran there; None when they would."""
    if column.total_ever() >= pods:
        return None
    static, ever = column.trial.nodes.static, column.ever
    most = int(np.minimum(column.rooms_ever(), pods).sum())
    match = int(ever.sum())
    if most:
        return Reason(
            Code.NEVER_FITS,
            f"needs room for {pods} pods with {wants(column.pod_class)} each; "
            f"{matching(match)}, when empty with room for {most}",
            {"members": pods},
            {"members": most},
            {"match": match},
            (f"ask for at most {most} such pods",),
        )
    if column.divided and (reason := never_a_card(column)) is not None:
        return reason
    rows = column.trial.resource_rows
    largest = {
        name: int(static.allocatable[rows[name]][ever].max()) if name in rows else 0
        for name, _ in column.pod_class.requests
    }
    needs = {name: units for name, units in column.pod_class.requests if units > largest[name]}
    if not needs:
        needs = {name: units for name, units in column.pod_class.requests if name != "pods"}
        what = f"no single node has all of {wants(column.pod_class)}"
    else:
        what = ", ".join(
            f"needs {amount(name, units)} on one node, the largest has {from_units(name, largest[name])}"
            for name, units in needs.items()
        )
    return Reason(
        Code.NEVER_FITS,
        f"{what}; {matching(match)}",
        needs,
        {name: largest[name] for name in needs},
        {"match": match, "fit": 0},
        (_helps([name for name in needs if not largest[name]]),),
    )


def _helps(absent: list[str]) -> str:
    """What would help a pod that no node takes even when empty; `absent` is what none of them has any of."""
    if absent:
        return f"a node with {' and '.join(absent)} is added, or ask for what the nodes have"
    return "ask for no more than one node has, or use more and smaller pods"


def never_together(groups: Sequence[Group]) -> Work[Reason | None]:
    """Why the groups would not fit together even if nothing ran; None where that is not proved, and where pods of some
    class can never fit whatever the others are: then that says more.
    """
    if len(groups) == 1 and not groups[0][0].ruled:
        return None
    for column, pods in groups:
        if column.total_ever() < pods:
            return None
        yield
    return (yield from _proof(groups, ever=True))


def together_if_not_away(groups: Sequence[Group]) -> Work[Reason | None]:
    """The same of the nodes that are not away, with those that are; None also where there are none."""
    if (len(groups) == 1 and not groups[0][0].ruled) or all(column.ever is column.mask for column, _ in groups):
        return None
    for column, pods in groups:
        if column.total_empty() < pods:
            return None
        yield
    found = yield from _proof(groups, ever=False)
    if found is None:
        return None
    return with_additions(
        structs.replace(found, code=Code.INSUFFICIENT_RESOURCES), away(*(column for column, _ in groups))
    )


def _proof(groups: Sequence[Group], *, ever: bool) -> Work[Reason | None]:
    """Why the groups, each of which fits alone, do not fit together on the nodes that they may use with nothing on
    them, those that are away among them or not; None where numbers prove nothing.
    """
    rooms: list[Int64s] = []
    match: list[Mask] = []
    for column, _ in groups:
        rooms.append(column.rooms_ever() if ever else column.rooms_empty())
        match.append(column.ever if ever else column.mask)
        yield
    return (yield from _Emptied(groups, rooms, match).proof())


class _Emptied:
    """The nodes that groups may use with nothing on them: for each group how many of its pods a node takes then, and
    which nodes match.
    """

    def __init__(self, groups: Sequence[Group], rooms: Sequence[Int64s], match: Sequence[Mask]) -> None:
        self._groups = groups
        self._trial = groups[0][0].trial
        self._rooms = rooms
        self._match = match

    def proof(self) -> Work[Reason | None]:
        """Why the groups do not fit together there; None where numbers prove nothing."""
        groups = self._groups
        for term in dict.fromkeys(term for column, _ in groups for term in _apart(column)):
            if (reason := self._apart_from_each_other(term)) is not None:
                return reason
            yield
        if len(groups) < 2:
            return None
        for name, at in self._trial.resource_rows.items():
            if (reason := self._more_than_there_is(name, at)) is not None:
                return reason
            yield
        for first in range(2, len(groups) + 1) if len(groups) <= _MOST_KINDS else (len(groups),):
            if (reason := self._too_many_together(first)) is not None:
                return reason
            yield
        return None

    def _apart_from_each_other(self, term: PodTerm) -> Reason | None:
        """No two of the pods that a term keeps apart may be in one domain. Nodes without the label are in none."""
        those = [at for at, (column, _) in enumerate(self._groups) if term in _apart(column)]
        needs = sum(self._groups[at][1] for at in those)
        key = term.topology_key
        domains = self._trial.feasibility.domains_of(key)
        able: Mask = np.logical_or.reduce([self._rooms[at] > 0 for at in those])
        found = int((domains.sums(able.astype(np.int64)) > 0).sum())
        outside = domains.of == len(domains.names)
        has = found + sum(int(np.minimum(self._rooms[at][outside], self._groups[at][1]).sum()) for at in those)
        if needs <= has:
            return None
        match = int(np.logical_or.reduce([self._match[at] for at in those]).sum())
        more = f", {has - found} on nodes without the label" if has > found else ""
        return Reason(
            Code.NEVER_FITS,
            f"needs {needs} domains of {key}, as no two of these pods may be in one; {matching(match)}, when empty "
            f"with room in {found}{more}",
            {"members": needs},
            {"members": has},
            {"match": match},
            (f"ask for at most {has} such pods", "loosen the anti-affinity"),
        )

    def _more_than_there_is(self, name: str, at: int) -> Reason | None:
        """All nodes together that could take any of the pods have less of a resource, in this row, than they need."""
        asking = [
            (rooms, int(column.needs_vector[at]) * pods)
            for rooms, (column, pods) in zip(self._rooms, self._groups, strict=True)
            if column.needs_vector[at]
        ]
        if not asking:
            return None
        needs = sum(needed for _, needed in asking)
        where: Mask = np.logical_or.reduce([rooms > 0 for rooms, _ in asking])
        has = int(self._trial.nodes.static.allocatable[at][where].sum())
        if needs <= has:
            return None
        match = int(where.sum())
        return Reason(
            Code.NEVER_FITS,
            f"its pods need {amount(name, needs)} together; {matching(match)}, when empty with {from_units(name, has)}",
            {name: needs},
            {name: has},
            {"match": match},
            ("ask for fewer or smaller pods",),
        )

    def _too_many_together(self, first: int) -> Reason | None:
        """Not even if each pod of the first groups needed only what all of them need would so many have room."""
        groups = self._groups[:first]
        if any(column.divided for column, _ in groups):
            return None
        needs: Int64s = np.minimum.reduce([column.needs_vector for column, _ in groups])
        allocatable = self._trial.nodes.static.allocatable
        rooms = np.full(allocatable.shape[1], LARGEST, np.int64)
        for at in np.flatnonzero(needs).tolist():
            np.minimum(rooms, allocatable[at] // needs[at], out=rooms)
        where: Mask = np.logical_or.reduce([rooms > 0 for rooms in self._rooms[:first]])
        pods = sum(count for _, count in groups)
        has = int(np.minimum(rooms, pods)[where].sum())
        if has >= pods:
            return None
        listed = [f"{count} with {wants(column.pod_class)}" for column, count in groups]
        more = [f"{len(listed) - _MOST_NAMED} kinds more"] if len(listed) > _MOST_NAMED else []
        what = " and ".join([*listed[:_MOST_NAMED], *more])
        match = int(where.sum())
        return Reason(
            Code.NEVER_FITS,
            f"needs room for {counted(pods, 'pod')} together ({what} each); {matching(match)}, when empty with room "
            f"for at most {has}",
            {"members": pods},
            {"members": has},
            {"match": match},
            (f"ask for at most {has} such pods together",),
        )


def _apart(column: ClassFit) -> Iterator[PodTerm]:
    """Terms by which pods of the class keep pods of the class off their domain."""
    rules = column.pod_class.rules
    if rules is not None and column.ruled:
        yield from (term for term in rules.apart if term in column.pod_class.counted)


def away(*columns: ClassFit) -> list[Addition]:
    """Which nodes would match if they were not away, by what keeps them. Of those whose accelerators are not ready
    `inventory` tells.
    """
    found: dict[str, tuple[str, str]] = {}
    for column in columns:
        left = column.ever & ~column.mask
        facts = column.trial.nodes.static.facts
        for constraint in _states(column):
            gone = left & ~column.trial.feasibility.column(constraint)
            for row in np.flatnonzero(gone).tolist():
                word = _STATES.get(constraint.label) or held_back(facts[row])
                found.setdefault(facts[row].name, (constraint.label, word))
            left = left & ~gone
    if not found:
        return []
    counts = Counter(label for label, _ in found.values())
    states: dict[str, list[str]] = {}
    for name, (_, word) in found.items():
        states.setdefault(word, []).append(name)
    number, named, helps = len(found), named_by_state(states), tuple(_HELP[label] for label in counts)
    if not any(column.mask.any() for column in columns):  # they are counted by what keeps pods from nodes
        return [(f"{number} {'is' if number == 1 else 'are'} away: {named}", {}, helps)]
    return [(f"{number} more {'is' if number == 1 else 'are'} away: {named}", dict(counts), helps)]


def _states(column: ClassFit) -> Iterator[Constraint]:
    """The constraints that a node which is away may come to satisfy, in the order in which they are told."""
    found = constraints(column.selector, column.pod_class)
    yield from (one for one in found if isinstance(one, Usable | Schedulable))
    yield from (one for one in found if one.label == "taints")
    yield from (one for one in found if isinstance(one, CardsKnown))
