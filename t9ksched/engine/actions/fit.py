"""Fitting a gang whole on the trial as it is, within one domain if its members must be together."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.blocks import Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.pack import Attempt, own_affinity_keys, place_together
from t9ksched.engine.placement.topology import scopes
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Effort, Work
from t9ksched.model.gang import Gang


def fit(cycle: Cycle, gang: Gang, key: SchedulingKey, nodes: Mask | None = None) -> Work[Attempt]:
    """Place the members whole, within one domain if the gang asks for that; or leave the trial as it was.

    With `nodes`, on these alone.
    """
    cycle.trial.within(nodes)
    attempt = yield from _fit_within(cycle, gang, key, nodes, Effort())
    cycle.trial.within(None)
    return attempt


def _fit_within(cycle: Cycle, gang: Gang, key: SchedulingKey, nodes: Mask | None, effort: Effort) -> Work[Attempt]:
    trial, groups = cycle.trial, key.groups
    levels: Sequence[str] = gang.levels
    worst = Attempt.NO_ROOM
    if gang.topology == "None":
        worst = yield from place_together(trial, groups, effort)
        if worst is Attempt.PLACED:
            return worst
        levels = own_affinity_keys(groups)
    for nth, scope in enumerate(scopes(trial, groups, levels, gang.nodes)):
        if nth and effort.left <= 0:
            worst = Attempt.GAVE_UP
            break
        yield
        trial.within(scope if nodes is None else scope & nodes)
        attempt = yield from place_together(trial, groups, effort)
        trial.within(nodes)
        if attempt is Attempt.PLACED:
            cycle.scopes[gang.uid] = scope
            return attempt
        if attempt is Attempt.GAVE_UP:
            worst = attempt
    if gang.topology == "Preferred":
        return (yield from place_together(trial, groups, Effort()))
    return worst


def fit_as_planned(cycle: Cycle, gang: Gang, key: SchedulingKey, block: Block) -> Work[Attempt]:
    """As `fit`, on the nodes of a plan, and of their room no more than the plan has of each: later plans have the rest.
    Where nothing but room decides, each pod gets the place and the cards that were planned for it.
    """
    trial, room = cycle.trial, block.room
    if not (key.ruled or gang.topology != "None" or any(column.shuts for column, _ in key.groups)):
        return _put(trial, key, block)
    nodes = np.zeros(len(trial.nodes), np.bool_)
    nodes[room.rows] = True
    change = np.zeros_like(trial.free)
    left = trial.free[:, room.rows]
    change[:, room.rows] = np.minimum(left, room.amounts) - left
    states = trial.shift(change)
    attempt = yield from fit(cycle, gang, key, nodes)
    trial.unshift(change, states)
    return attempt


def _put(trial: Trial, key: SchedulingKey, block: Block) -> Attempt:
    """Place pods where they were planned, if all of that room is there."""
    rows, amounts, columns = block.room.rows, block.room.amounts, {one.pod_class: one for one, _ in key.groups}
    missing = Counter({column.pod_class: pods for column, pods in key.groups})
    missing.subtract(one.pod_class for one in block.reserved)
    here = np.logical_and.reduce([column.mask[rows] for column in columns.values()])
    if any(missing.values()) or not here.all() or np.any((trial.free[:, rows] < amounts) & (amounts > 0)):
        return Attempt.NO_ROOM
    for one in block.reserved:
        trial.place(columns[one.pod_class], trial.nodes.static.index[one.node], 1, one.cards)
    return Attempt.PLACED


def places(cycle: Cycle, gang: Gang, key: SchedulingKey, change: Int64s) -> Work[Sequence[Placement]]:
    """Where the gang fits when the trial's columns have changed so, shape (resources, nodes); empty where it does not.

    The trial is as before.
    """
    trial = cycle.trial
    mark = trial.mark()
    states = trial.shift(change)
    attempt = yield from fit(cycle, gang, key)
    found = trial.since(mark) if attempt is Attempt.PLACED else ()
    trial.undo(mark)
    trial.unshift(change, states)
    return found
