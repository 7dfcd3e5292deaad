"""What is told of pods that must be in one topology domain: which has most room for them, or that none ever could.

A gang whose first members have places stays in the domain of these; which other domains could hold says nothing then.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.explain.emptied import Emptied, pods_of
from t9ksched.engine.explain.excluded import excluded_ever
from t9ksched.engine.explain.inventory import with_additions
from t9ksched.engine.explain.never import away
from t9ksched.engine.explain.words import counted, matching
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code, Reason

_OTHERWISE: Final = "allow a wider level, or set topologyPolicy to Preferred"


def never_within(gang: Gang, groups: Sequence[Group]) -> Work[Reason | None]:
    """Why no domain could hold the members of a gang that must be in one even if nothing ran on any node and none were
    away; None where that is not proved, and where pods of some class match no node at all.
    """
    if gang.topology != "Required" or gang.nodes or any(excluded_ever(column) for column, _ in groups):
        return None
    emptied = yield from Emptied.of(groups, ever=True)
    best, where = yield from _best(emptied, gang.levels)
    if best >= emptied.pods:
        return None
    trial, levels = groups[0][0].trial, " or ".join(gang.levels)
    match = emptied.matching(range(len(groups)))
    most = f"the largest, {where}, when empty with room for at most {best}"
    helps: tuple[str, ...] = (_OTHERWISE,)
    if not where:
        most, helps = _unlabelled(trial, gang.levels), ("label the nodes", *helps)
    elif best:
        helps = (f"ask for at most {best} such pods together", *helps)
    return Reason(
        Code.NEVER_FITS,
        f"needs room for {pods_of(groups)} within one {levels}; {matching(match)}; {most}",
        {"members": emptied.pods},
        {"members": best},
        {"match": match},
        helps,
    )


def not_together(gang: Gang, trial: Trial, groups: Sequence[Group]) -> Work[Reason]:
    """No domain, or not that of the members which have places, has room for all of them now."""
    pods, levels = sum(count for _, count in groups), " or ".join(gang.levels)
    domain = _domain_of(gang, trial)
    if domain is not None:
        return (yield from _too_little_in(domain, trial, groups))
    best, most = 0, ""
    for level in gang.levels:
        domains = trial.feasibility.domains_of(level)
        if not domains.names:
            continue
        fit = np.zeros(len(domains.names), np.int64)
        for column, count in groups:
            fit += np.minimum(domains.sums(np.minimum(column.rooms(), count)), count)
            yield
        if int(fit.max()) >= best:
            best, most = int(fit.max()), f"{level}={domains.names[int(fit.argmax())]}"
    told = f"the best, {most}, has room for {best}" if most else _unlabelled(trial, gang.levels)
    if scattered := bool(_rows(gang, trial)):
        told = "its members that have places are in none together"
    reason = Reason(
        Code.TOPOLOGY_NOT_SATISFIED,
        f"needs room for {counted(pods, 'pod')} within one {levels}; {told}",
        {"members": pods},
        {"members": best},
        unblocks=(f"room is given back within one {levels}", _OTHERWISE),
    )
    if scattered or all(column.ever is column.mask for column, _ in groups):
        return reason
    emptied = yield from Emptied.of(groups, ever=False)
    if (yield from _best(emptied, gang.levels))[0] >= pods:
        return reason
    emptied = yield from Emptied.of(groups, ever=True)
    able = yield from _able(emptied, gang.levels)
    reason = structs.replace(reason, unblocks=(_OTHERWISE,))
    return with_additions(reason, away(*(column for column, _ in groups), among=able))


def too_little_beside(gang: Gang, column: ClassFit, pods: int) -> Work[Reason | None]:
    """Why members above the minimum of a gang have too little room in its domain, to which the trial is narrowed; None
    where that has enough.
    """
    trial = column.trial
    assert trial.scope is not None
    if int(np.minimum(column.rooms(), pods).sum()) >= pods:
        return None
    level, name = _named(trial, gang.levels, trial.scope)
    return (yield from _too_little_in((level, name, trial.scope), trial, [(column, pods)]))


def _too_little_in(domain: tuple[str, str, Mask], trial: Trial, groups: Sequence[Group]) -> Work[Reason]:
    """One domain, in which members have places, has too little room for others."""
    level, name, inside = domain
    pods, where = sum(count for _, count in groups), f"{level}={name}"
    fit = empty = 0
    for column, count in groups:
        fit += min(int(np.minimum(column.rooms(), count)[inside].sum()), count)
        empty += min(int(np.minimum(column.rooms_empty(), count)[inside].sum()), count)
        yield
    match = int((np.logical_or.reduce([column.mask for column, _ in groups]) & inside).sum())
    helps = (f"room is given back within {where}",) if empty >= pods else ()
    reason = Reason(
        Code.TOPOLOGY_NOT_SATISFIED,
        f"needs room for {pods_of(groups)} within {where}, where other members of its gang are; {matching(match)} "
        f"there, now with room for {fit}",
        {"members": pods},
        {"members": fit},
        {"match": match},
        helps,
    )
    return reason if helps else with_additions(reason, away(*(column for column, _ in groups), among=inside))


def _best(emptied: Emptied, levels: Sequence[str]) -> Work[tuple[int, str]]:
    """How many of the pods the domain takes at most that takes most of them with nothing on its nodes, and its name;
    none where no node that matches has such a label.
    """
    groups = range(len(emptied.groups))
    match: Mask = np.logical_or.reduce(emptied.match)
    trial = emptied.groups[0][0].trial
    best, where = 0, ""
    for level in levels:
        domains = trial.feasibility.domains_of(level)
        if not (match & (domains.of < len(domains.names))).any():
            continue
        most: Int64s = yield from emptied.most(level, groups)
        if int(most.max()) > best or not where:
            best, where = int(most.max()), f"{level}={domains.names[int(most.argmax())]}"
    return best, where


def _able(emptied: Emptied, levels: Sequence[str]) -> Work[Mask]:
    """The nodes of all domains that may take all of the pods with nothing on them, shape (nodes,)."""
    trial, groups = emptied.groups[0][0].trial, range(len(emptied.groups))
    found = np.zeros(len(trial.nodes), np.bool_)
    for level in levels:
        domains = trial.feasibility.domains_of(level)
        most = yield from emptied.most(level, groups)
        found |= np.append(most >= emptied.pods, False)[domains.of]
    return found


def _domain_of(gang: Gang, trial: Trial) -> tuple[str, str, Mask] | None:
    """The widest domain that all members with places are in, as level, name and nodes; None where there is none."""
    rows = _rows(gang, trial)
    for level in reversed(gang.levels) if rows else ():
        of, names = trial.feasibility.domains(level)
        domain = int(of[rows[0]])
        if domain < len(names) and bool((of[rows] == domain).all()):
            return level, names[domain], np.asarray(of == domain)
    return None


def _rows(gang: Gang, trial: Trial) -> list[int]:
    index = trial.nodes.static.index
    return [index[name] for name in gang.nodes if name in index]


def _named(trial: Trial, levels: Sequence[str], nodes: Mask) -> tuple[str, str]:
    """The level and name of a domain that is exactly these nodes."""
    for level in levels:
        of, names = trial.feasibility.domains(level)
        domain = int(of[nodes][0]) if nodes.any() else len(names)
        if domain < len(names) and np.array_equal(of == domain, nodes):
            return level, names[domain]
    return " or ".join(levels), ""


def _unlabelled(trial: Trial, levels: Sequence[str]) -> str:
    known = any(trial.feasibility.domains_of(level).names for level in levels)
    return "none of these has such a label" if known else "no node has such a label"
