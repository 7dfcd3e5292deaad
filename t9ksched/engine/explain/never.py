"""What can never fit: not even if nothing ran on any node that the queue may use, those included that are away for now.

A node is *away* that would match if it were ready, not cordoned, without the taints that Kubernetes sets of itself,
with its accelerators ready and the holders of its cards on record. What is said here is proved by numbers, or for few
pods by trying; where neither proves anything, pods may have no way to fit together all the same. Any change of nodes or
of the queue makes it be asked anew.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Mask
from t9ksched.engine.explain.cards import never_a_card
from t9ksched.engine.explain.emptied import Emptied
from t9ksched.engine.explain.excluded import TRIED_AGAIN, excluded_ever
from t9ksched.engine.explain.inventory import Addition, held_back, named_by_state, with_additions
from t9ksched.engine.explain.unkept import unkept
from t9ksched.engine.explain.words import amount, matching, wants
from t9ksched.engine.placement.card_constraints import CARD_HOLDERS, CardsKnown
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.constraints import Constraint, NotAvoided, Schedulable, Usable, constraints
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.work import Work
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason

_STATES: Final = {
    "not ready": "not ready",
    "unschedulable": "cordoned",
    "taints": "tainted",
    "avoided": "avoided: it rejected a pod of the job",
}
_HELP: Final = {
    "not ready": "the nodes are ready again",
    "unschedulable": "an administrator uncordons the nodes",
    "taints": "Kubernetes takes the taints off the nodes",
    "avoided": TRIED_AGAIN,
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
        for name, _ in column.pod_class.asks
    }
    needs = {name: units for name, units in column.pod_class.asks if units > largest[name]}
    if not needs:
        needs = {name: units for name, units in column.pod_class.asks if name != "pods"}
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


def never_together(groups: Sequence[Group], *, search: bool = False) -> Work[Reason | None]:
    """Why the groups would not fit together even if nothing ran; None where that is not proved, and where pods of some
    class can never fit whatever the others are: then that says more. With `search` also what sums do not prove.
    """
    if len(groups) == 1 and not groups[0][0].ruled:
        return None
    for column, pods in groups:
        if column.total_ever() < pods:
            return None
        yield
    return (yield from _proof(groups, ever=True, search=search))


def together_if_not_away(groups: Sequence[Group]) -> Work[Reason | None]:
    """The same of the nodes that are not away, with those that are; None also where there are none."""
    if (len(groups) == 1 and not groups[0][0].ruled) or all(column.ever is column.mask for column, _ in groups):
        return None
    for column, pods in groups:
        if column.total_empty() < pods:
            return None
        yield
    found = yield from _proof(groups, ever=False, search=True)
    if found is None:
        return None
    return with_additions(
        structs.replace(found, code=Code.INSUFFICIENT_RESOURCES), away(*(column for column, _ in groups))
    )


def _proof(groups: Sequence[Group], *, ever: bool, search: bool) -> Work[Reason | None]:
    """Why the groups, each of which fits alone, do not fit together on the nodes that they may use with nothing on
    them, those that are away among them or not; None where that is not proved, by numbers or with `search` by trying.
    """
    emptied = yield from Emptied.of(groups, ever=ever)
    found = (yield from unkept(emptied)) or (yield from emptied.proof())
    return found if found is not None or not search else (yield from emptied.search())


def away(*columns: ClassFit, among: Mask | None = None) -> list[Addition]:
    """Which nodes, all or of those `among`, would match if they were not away, by what keeps them; not those that are
    too small for any of the pods. Of those whose accelerators are not ready `inventory` tells.
    """
    found: dict[str, tuple[str, str]] = {}
    for column in columns:
        left = column.ever & ~column.mask & (column.rooms_ever() > 0)
        if among is not None:
            left = left & among
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
    yield from (one for one in found if isinstance(one, NotAvoided))
    yield from (one for one in found if isinstance(one, CardsKnown))
