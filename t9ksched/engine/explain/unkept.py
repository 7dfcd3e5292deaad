"""Rules about pods that could not be kept even if nothing ran: labels, affinity to pods of their own, hard spread.

Pods of others that such a rule selects may make room where otherwise there is none, so that affinity and spread prove
something only as long as there are none of them. Anti-affinity is part of `emptied.py`: others only make it worse.
"""

from collections.abc import Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.explain.emptied import Emptied, pods_of
from t9ksched.engine.explain.words import matching
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.constraints import NotAvoided, Selected, Tolerated, Untainted
from t9ksched.engine.placement.standing import COUNTS
from t9ksched.engine.work import Work
from t9ksched.model.podrules import PodTerm, Spread
from t9ksched.model.reasons import Code, Reason


def unkept(emptied: Emptied) -> Work[Reason | None]:
    """Which rule of the groups could not be kept; None where numbers prove nothing."""
    groups = emptied.groups
    if not any(_keys(column) for column, _ in groups):
        return None
    for at in range(len(groups)):
        if (reason := _unlabelled(emptied, at)) is not None:
            return reason
        yield
    for term in dict.fromkeys(term for column, _ in groups for term in _near(column)):
        if (reason := (yield from _not_near(emptied, term))) is not None:
            return reason
    for spread in dict.fromkeys(one for column, _ in groups for one in _hard(column)):
        if (reason := (yield from _uneven(emptied, spread))) is not None:
            return reason
    return None


def _labelled(emptied: Emptied, those: Sequence[int]) -> Emptied:
    """These groups on the nodes that have all labels by which rules of their pods want these to be in a domain."""
    rooms = []
    for at in those:
        found = emptied.rooms[at]
        for key in _keys(emptied.groups[at][0]):
            domains = emptied.trial.feasibility.domains_of(key)
            found = np.where(domains.of < len(domains.names), found, 0)
        rooms.append(found)
    return Emptied([emptied.groups[at] for at in those], rooms, [emptied.match[at] for at in those], ever=emptied.ever)


def _unlabelled(emptied: Emptied, at: int) -> Reason | None:
    """The nodes with the labels that rules of a group name have too little room for it."""
    column, pods = emptied.groups[at]
    keys = _keys(column)
    if not keys:
        return None
    has = int(np.minimum(_labelled(emptied, [at]).rooms[0], pods).sum())
    if has >= pods:
        return None
    match = emptied.matching([at])
    return Reason(
        Code.NEVER_FITS,
        f"needs room for {pods_of([emptied.groups[at]])} on nodes with {_listed(keys)}, which its rules about pods "
        f"name; {matching(match)}, when empty with room for {has} on those with it",
        {"members": pods},
        {"members": has},
        {"match": match},
        ("label the nodes", "loosen the affinity, anti-affinity or spread"),
    )


def _is_counted(emptied: Emptied, term: PodTerm) -> bool:
    """Whether pods that are somewhere are selected by a term."""
    pod_affinity = emptied.trial.pod_affinity
    if pod_affinity is None:
        return True
    (one,) = pod_affinity.of((term,))
    return any(bool(pods.any()) for _, pods in pod_affinity.columns(one, COUNTS))


def _not_near(emptied: Emptied, term: PodTerm) -> Work[Reason | None]:
    """Pods that want to be near pods of their own are all in one domain, which has too little room for them. It says
    nothing where they may be near to others.
    """
    those = [at for at, (column, _) in enumerate(emptied.groups) if term in column.pod_class.counted]
    if not those or _is_counted(emptied, term) or not all(term in _near(emptied.groups[at][0]) for at in those):
        return None
    labelled, key = _labelled(emptied, those), term.topology_key
    pods = labelled.pods
    most = yield from labelled.most(key, range(len(those)))
    best = int(most.max())
    if best >= pods:
        return None
    name, match = emptied.trial.feasibility.domains_of(key).names[int(most.argmax())], emptied.matching(those)
    return Reason(
        Code.NEVER_FITS,
        f"needs room for {pods_of(labelled.groups)} in one domain of {key}, as these pods must be near each other; "
        f"{matching(match)}; the largest, {key}={name}, when empty with room for at most {best}",
        {"members": pods},
        {"members": best},
        {"match": match},
        (f"ask for at most {best} such pods together", "loosen the affinity"),
    )


def _uneven(emptied: Emptied, spread: Spread) -> Work[Reason | None]:
    """No domain has more than `maxSkew` pods more than the one with fewest, and that takes no more than it has room
    for. It says nothing where other pods count.
    """
    counting = [at for at, (column, _) in enumerate(emptied.groups) if spread.term in column.pod_class.counted]
    those = [at for at in counting if spread in _hard(emptied.groups[at][0])]
    if not those or _is_counted(emptied, spread.term):
        return None
    labelled, key = _labelled(emptied, counting), spread.term.topology_key
    everyone = yield from labelled.most(key, range(len(counting)))
    bound = [at for at, one in enumerate(counting) if one in those]
    most = everyone if those == counting else (yield from labelled.most(key, bound))
    found = []
    for at in those:
        found.append(_fewest(emptied, spread, emptied.groups[at][0], everyone))
        yield
    fewest, why = max(found, key=lambda one: one[0])
    groups = [labelled.groups[at] for at in bound]
    pods, has = sum(count for _, count in groups), int(np.minimum(most, spread.max_skew + fewest).sum())
    if has >= pods:
        return None
    match = emptied.matching(those)
    return Reason(
        Code.NEVER_FITS,
        f"needs room for {pods_of(groups)}, spread over {key} with maxSkew {spread.max_skew}; {matching(match)}, when "
        f"empty with room for at most {has} so spread: {why}",
        {"members": pods},
        {"members": has},
        {"match": match},
        (f"ask for at most {has} such pods", "raise maxSkew, or set whenUnsatisfiable to ScheduleAnyway"),
    )


def _fewest(emptied: Emptied, spread: Spread, column: ClassFit, most: Int64s) -> tuple[int, str]:
    """How many pods the domain has at most that has fewest, and why; `most` is what each takes of those that count,
    shape (domains,). Nodes with taints that pass, and those that are avoided, may count or not: the larger number of
    both is taken.
    """
    feasibility, of = emptied.trial.feasibility, column.pod_class
    domains = feasibility.domains_of(spread.term.topology_key)
    within = np.ones(len(emptied.trial.nodes), np.bool_)
    for one in _hard(column):
        other = feasibility.domains_of(one.term.topology_key)
        within &= other.of < len(other.names)
    if spread.own_nodes:
        within &= feasibility.column(Selected(of.node_selector, of.node_affinity))
    now = within & feasibility.column(NotAvoided(of.avoided)) if spread.own_nodes else within
    if spread.untainted:
        now = now & feasibility.column(Untainted(of.tolerations))
        within = within & feasibility.column(Tolerated(of.tolerations, ever=True))
    there = domains.sums(within.astype(np.int64)) > 0
    number = int(there.sum())
    if number < max(spread.min_domains, 1):
        return 0, f"none of {number} domains has more than maxSkew, as minDomains is {spread.min_domains}"
    counting = domains.sums(now.astype(np.int64)) > 0
    row = int(np.where(counting if counting.any() else there, most, LARGEST).argmin())
    return int(most[row]), f"{domains.names[row]} takes at most {most[row]}"


def _near(column: ClassFit) -> tuple[PodTerm, ...]:
    """Terms by which pods of the class must be near others."""
    rules = column.pod_class.rules
    return rules.together if rules is not None and column.ruled else ()


def _hard(column: ClassFit) -> tuple[Spread, ...]:
    """Spread that pods of the class must keep to."""
    rules = column.pod_class.rules
    return tuple(one for one in rules.spread if one.hard) if rules is not None and column.ruled else ()


def _keys(column: ClassFit) -> list[str]:
    """Labels that nodes must have for pods of the class."""
    terms = (*_near(column), *(one.term for one in _hard(column)))
    return list(dict.fromkeys(term.topology_key for term in terms))


def _listed(keys: Sequence[str]) -> str:
    return f"the label {keys[0]}" if len(keys) == 1 else f"the labels {' and '.join(keys)}"
