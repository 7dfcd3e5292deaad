"""The best of all sets of victims, where few units could go and the pods are alike."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Mask
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.field import Cleared, Field
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.work import Meter

_ALL_SETS: Final = 10
"""Of up to so many units every set is looked at."""
_ALL_NUMBERS: Final = 400_000
"""But only if that takes no more numbers than this."""


def every_set(field: Field, contest: Contest, allowed: Mask, must: Mask, meter: Meter) -> Cleared | None:
    """The best of all sets; None when they are too many to look at, or pods are not alike."""
    units = np.flatnonzero(allowed)
    if len(field.wanted) > 1 or len(units) > _ALL_SETS:
        return None
    (one,) = field.wanted
    ours = np.flatnonzero(allowed[field.unit])
    rows = np.flatnonzero(np.bincount(field.row[ours], minlength=len(field.rows)))
    sets = 1 << len(units)
    numbers = len(one.needs) + sum(len(parts.of.rows) for parts in one.parts)
    if sets * max(len(rows), 1) * max(numbers, 1) > _ALL_NUMBERS:
        return None
    free = field.free.copy()
    field.give(free, must)
    rooms = one.rooms(free)
    elsewhere = int(np.minimum(rooms, one.pods).sum()) - int(np.minimum(rooms[rows], one.pods).sum())
    bits = np.arange(sets)[:, None] >> np.arange(len(units)) & 1
    position = np.searchsorted(rows, field.row[ours])
    nth = np.searchsorted(units, field.unit[ours])
    fit = np.full((sets, len(rows)), one.pods)
    for at, amount in one.needs:
        frees = np.zeros((len(units), len(rows)), np.int64)
        np.add.at(frees, (nth, position), field.freed[at][ours])
        np.minimum(fit, (free[at][rows] + bits @ frees) // amount, out=fit)
    for parts in one.parts:
        for at, row in enumerate(rows.tolist()):
            if parts.on(int(one.rows[row])):
                here = np.flatnonzero(position == at)
                freed = np.zeros((len(units), len(free)), np.int64)
                np.add.at(freed, nth[here], field.freed[:, ours[here]].T)
                left = (free[:, row] + bits @ freed).T
                np.minimum(fit[:, at], parts.rooms_of(left, np.full(sets, one.rows[row])), out=fit[:, at])
    fit[:, ~one.open_to()[rows]] = 0
    if one.column.ports:
        np.minimum(fit, 1, out=fit)
    meter.spent += fit.size * (numbers + 1)
    enough = np.maximum(fit, 0).sum(axis=1) + elsewhere >= one.pods
    best: Mask | None = None
    price = None
    for chosen in _smallest(field.table, units, enough):
        going = np.zeros_like(allowed)
        going[chosen] = True
        cost = contest.price(going)
        meter.spent += 2000
        if price is None or cost < price:
            best, price = going, cost
    if best is None:
        return None
    field.give(free, best)
    rooms = np.minimum(one.rooms(free), one.pods)
    counts = np.minimum(rooms, np.maximum(one.pods - (np.cumsum(rooms) - rooms), 0))
    one.take(free, counts)
    return Cleared([counts], best | must, free)


def _smallest(table: VictimTable, units: Indices, enough: Mask) -> Iterator[Indices]:
    """Of the sets that make enough room, those of which no unit can be spared; sets are numbers, one bit a unit."""
    sets = np.arange(len(enough))
    may = enough.copy()
    spared = np.zeros(len(enough), np.bool_)
    for at, unit in enumerate(units.tolist()):
        has = (sets >> at & 1).astype(np.bool_)
        last = has
        after = at + 1
        if after < len(units) and units[after] == unit + 1 and table.unit_group[unit] == table.unit_group[unit + 1]:
            next_goes = (sets >> after & 1).astype(np.bool_)
            may &= has | ~next_goes  # a gang's units go in their order
            last = has & ~next_goes
        spared |= last & enough[sets & ~(1 << at)]
    for number in np.flatnonzero(may & ~spared).tolist():
        yield units[[at for at in range(len(units)) if number >> at & 1]]
