"""Topology domains: the parts of the cluster in which a gang is tried that must or should be together.

A level is a node label; nodes with the same value are one domain. Levels are tried from narrow to wide, and within a
level the domain first that has the least room to leave.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.placement.pack import Group, co_placed_terms
from t9ksched.engine.placement.trial import Trial
from t9ksched.model.gang import Gang

_MOST: Final = np.iinfo(np.int64).max


def scopes(trial: Trial, groups: Sequence[Group], levels: Sequence[str], nodes: Sequence[str] = ()) -> Iterator[Mask]:
    """Nodes of each domain that has room for every group alone, in the order in which they are to be tried.

    With `nodes`, where members are already, only the domains that all of these are in.
    """
    if not levels or not len(trial.nodes):
        return
    index = trial.nodes.static.index
    rows = [index[name] for name in nodes if name in index]
    along = co_placed_terms(groups)
    alone = groups[0][0] if len(groups) == 1 and not groups[0][0].ruled else None
    if alone is not None:  # of pods of one class there is enough of everything where they have room
        needs, scarce = np.zeros(0, np.int64), alone.scarcest
    else:
        needs = np.sum([column.needs_vector * pods for column, pods in groups], axis=0)
        scarce = int((needs / trial.feasibility.whole()).argmax())
    usable: Mask = np.logical_or.reduce([column.mask for column, _ in groups])
    for level in levels:
        domains = trial.feasibility.domains_of(level)
        of, names = domains.of, domains.names
        fits = np.ones(len(names), np.bool_)
        for column, pods in groups:
            rooms = np.minimum(column.rooms(), pods)
            if column.ruled:
                rooms[~column.reachable(along)] = 0
            fits &= domains.sums(rooms) >= pods
        for at in np.flatnonzero(needs).tolist():
            fits &= domains.sums(np.where(usable, np.maximum(trial.free[at], 0), 0)) >= needs[at]
        trial.meter.spent += len(of) * len(groups)
        if rows:
            here = np.zeros(len(names) + 1, np.bool_)
            here[of[rows]] = True
            fits &= here[:-1] & (int(here.sum()) == 1)
        if not fits.any():
            continue
        left: Int64s = np.where(fits, domains.sums(np.maximum(trial.free[scarce], 0)), _MOST)
        first = int(left.argmin())
        yield of == first
        fits[first] = False
        found = np.flatnonzero(fits)
        for domain in found[np.argsort(left[found], kind="stable")].tolist():
            yield of == domain


def shared(trial: Trial, gang: Gang) -> Mask | None:
    """The narrowest domain that all placed members are in; None without one."""
    index = trial.nodes.static.index
    rows = [index[name] for name in gang.nodes if name in index]
    if not rows:
        return None
    for level in gang.levels:
        of, names = trial.feasibility.domains(level)
        domain = int(of[rows[0]])
        if domain < len(names) and bool((of[rows] == domain).all()):
            return np.asarray(of == domain)
    return None
