"""Removes from a set of victims each unit that is not needed, the best protected first."""

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask, distinct
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Cleared, Field
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.work import Meter, Work


def _in_turn(table: VictimTable, contest: Contest, units: Indices, going: Mask) -> list[int]:
    """Units in the order in which they are spared: the best protected first, then the largest, then the oldest."""
    keys = (contest.youth[units], -table.unit_size[units], -contest.ranks(going)[units])
    order: list[int] = units[np.lexsort(keys)].tolist()
    return order


def _goes_before(table: VictimTable, unit: int, units: Mask) -> bool:
    """Whether a member that goes later than this one goes, so that this one goes too."""
    after = unit + 1
    return after < len(units) and table.unit_group[after] == table.unit_group[unit] and bool(units[after])


def spare_alike(field: Field, contest: Contest, found: Cleared, must: Mask, meter: Meter) -> Work[None]:
    """Spare the units that are not needed, wherever the pods are placed then: for pods of one class room is a
    number.
    """
    (one,) = field.wanted
    table = field.table
    free = field.free.copy()
    field.give(free, found.units)
    rooms = np.minimum(one.rooms(free), one.pods)
    slack = int(rooms.sum()) - one.pods
    going = found.units & ~must
    while True:
        pods = np.flatnonzero((found.units & ~must)[field.unit])
        if not len(pods):
            break
        rows, unit = field.row[pods], field.unit[pods]
        # What a unit frees on a node counts together: two of its pods may make room for one.
        key = unit * free.shape[1] + rows
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        row_of, unit_of = rows[order[starts]], unit[order[starts]]
        without = np.where(rooms[row_of] > 0, one.pods, 0)
        if one.parts:
            left_here = free[:, row_of] - np.add.reduceat(field.freed[:, pods[order]], starts, axis=1)
            np.minimum(without, one.rooms_of(left_here, row_of), out=without)
        for at, amount in () if one.parts else one.needs:
            freed = np.add.reduceat(field.freed[at][pods[order]], starts)
            np.minimum(without, np.maximum(free[at][row_of] - freed, 0) // amount, out=without)
        loss = np.bincount(unit_of, weights=rooms[row_of] - without, minlength=len(going))
        meter.spent += 5 * len(pods)
        by_unit: dict[int, list[int]] = {int(at): [] for at in np.flatnonzero(found.units & ~must & (loss <= slack))}
        for pod, at in zip(pods.tolist(), unit.tolist(), strict=True):
            if at in by_unit:
                by_unit[at].append(pod)
        spared = False
        for nth, at in enumerate(_in_turn(table, contest, np.array(list(by_unit), np.intp), going)):
            if _goes_before(table, at, found.units):
                continue
            mine = by_unit[at]
            here = distinct(field.row[mine])
            field.leave(free, mine, -1)
            left = np.minimum(one.rooms_at(free, here), one.pods)
            lost = int((rooms[here] - left).sum())
            if lost > slack:
                field.leave(free, mine)
            else:
                slack -= lost
                rooms[here] = left
                found.units[at] = False
                spared = True
            meter.spent += 2000 + 100 * len(mine)
            if nth % 64 == 63:
                yield
        if not spared:
            break
        yield
    counts = np.minimum(rooms, np.maximum(one.pods - (np.cumsum(rooms) - rooms), 0))
    one.take(free, counts)
    found.counts, found.free = [counts], free


def spare(field: Field, contest: Contest, found: Cleared, must: Mask, meter: Meter) -> Work[None]:
    """Spare the units that are not needed for the places that were found."""
    table = field.table
    used = np.logical_or.reduce([counts > 0 for counts in found.counts])
    going = found.units & ~must
    pods = np.flatnonzero(going[field.unit])
    matters = pods[used[field.row[pods]]]
    stuck = np.zeros(len(matters), np.bool_)
    for at in field.amounts:
        stuck |= field.freed[at][matters] > found.free[at][field.row[matters]]
    needed = np.zeros_like(going)
    needed[field.unit[matters[stuck]]] = True
    open_units = np.flatnonzero(going & ~needed)
    by_unit: dict[int, list[int]] = {int(unit): [] for unit in open_units}
    for pod, unit in zip(matters.tolist(), field.unit[matters].tolist(), strict=True):
        if unit in by_unit:
            by_unit[unit].append(pod)
    meter.spent += 3 * len(pods)
    left = found.free
    divided = any(one.parts for one in field.wanted)
    whole = left
    if divided:  # with nothing taken of it
        whole = field.free.copy()
        field.give(whole, found.units)
    for nth, unit in enumerate(_in_turn(table, contest, open_units, going)):
        if _goes_before(table, unit, found.units):
            continue
        spared = by_unit[unit]
        _move(field, left, spared, -1)
        if divided:
            _move(field, whole, spared, -1)
        here = {int(field.row[pod]) for pod in spared}
        fits = all(left[at, row] >= 0 for row in here for at in field.amounts)
        if fits and (not divided or all(field.cards_fit(whole[:, row], row, found.counts) for row in here)):
            found.units[unit] = False
        else:
            _move(field, left, spared, 1)
            if divided:
                _move(field, whole, spared, 1)
        meter.spent += 500 * (1 + len(spared))
        if nth % 256 == 255:
            yield


def _move(field: Field, free: Int64s, pods: list[int], sign: int) -> None:
    """Add the room that these pods leave; take it again with sign -1."""
    for pod in pods:
        free[:, field.row[pod]] += sign * field.freed[:, pod]
