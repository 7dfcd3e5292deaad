"""The columns of running groups after some came, went or changed.

Columns of the groups that came are made as for all of them, and put between those of the groups that stayed, so that a
cycle in which a few of ten thousand groups changed does not look at the others one by one. The columns are equal to
those that are made anew, but for the numbers of classes, which name those that no pod is of any more, too.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.victims.group_column import GroupColumn
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Running

_PART: Final = 8
"""If more than a part of so many of all groups changed, the columns are made anew."""
_PIECES: Final = 100
"""Columns in fewer pieces are put together piece by piece."""
_UNUSED: Final = 256
"""So many classes more than twice those that are used may be named."""


class _Places(NamedTuple):
    """Where the entries of a column are, among the old ones followed by the new ones.

    Attributes:
        order: of each entry.
        pieces: the same as parts of the old ones, or of the new ones, that stay together; None where there are many.
    """

    order: Indices
    pieces: Sequence[tuple[int, int]] | None

    @classmethod
    def of(cls, stays: Mask, before: Indices) -> "_Places":
        """Of the old entries some stay, and the new ones come before these of them, in their order."""
        count = len(stays)
        order = np.insert(np.flatnonzero(stays), before, np.arange(count, count + len(before)))
        # A piece ends where the next entry is not the next one, and where the new ones begin.
        ends = np.flatnonzero((np.diff(order) != 1) | (order[1:] == count)) + 1
        if len(ends) >= _PIECES or not len(order):
            return cls(order, None)
        firsts, ends = np.append(0, ends), np.append(ends, len(order))
        return cls(order, list(zip(order[firsts].tolist(), (order[ends - 1] + 1).tolist(), strict=True)))

    def put(self, old: Int64s, new: Int64s) -> Int64s:
        """The column, of which the last axis is that of the entries."""
        if self.pieces is not None:
            count = old.shape[-1]
            parts = [
                old[..., first:end] if first < count else new[..., first - count : end - count]
                for first, end in self.pieces
            ]
            return np.concatenate(parts, axis=-1)
        found: Int64s = np.concatenate((old, new), axis=-1).take(self.order, axis=-1)
        return found


def followed(before: VictimTable, running: Sequence[Running], meter: Meter) -> Work[VictimTable]:
    """The columns of these groups, on the same nodes as those before."""
    came, went = yield from came_and_went(before.source, running, meter)
    if _PART * (len(came) + len(went)) > len(running):
        return (yield from VictimTable.of(running, before.static, meter, before.worths))
    fresh = VictimTable(came, before.static, before.worths)
    fresh.partly = before.partly
    yield from fresh.fill(meter)
    made = VictimTable(running, before.static, before.worths)
    made.partly = before.partly
    made.groups, groups, pods = _among(before, fresh, went)
    meter.spent += len(made.groups) + len(pods.order)
    yield
    _name_classes(made, before, fresh, pods)
    if len(made.classes) > _UNUSED + 2 * len(before.groups):
        return (yield from VictimTable.of(running, before.static, meter, before.worths))
    made.sizes = groups.put(before.sizes, fresh.sizes)
    made.above = {uid: found for uid, found in before.above.items() if uid not in {group.uid for group in went}}
    made.above |= fresh.above
    for name in ("priority", "started", "evictions", "guarded", "created", "grace"):
        setattr(made, name, groups.put(getattr(before, name), getattr(fresh, name)))
    for name in ("row", "staying", "asked"):
        setattr(made, name, pods.put(getattr(before, name), getattr(fresh, name)))
    meter.spent += 10 * (len(made.groups) + len(pods.order))
    yield
    made.freed = pods.put(before.freed, fresh.freed)
    _name_queues(made, before, fresh, groups)
    meter.spent += made.freed.size
    yield
    yield from made.order(meter)
    return made


def _among(before: VictimTable, fresh: VictimTable, went: Sequence[Running]) -> tuple[GroupColumn, _Places, _Places]:
    """All groups in order, and where the new ones and their pods are."""
    stays = np.ones(len(before.groups), np.bool_)
    stays[[before.groups.place(group.uid) for group in went]] = False
    pods_stay = np.repeat(stays, before.sizes)
    kept = before.groups.only(stays)
    at_groups = np.array([kept.place(group.uid) for group in fresh.groups], np.intp)
    firsts = np.concatenate(([0], np.cumsum(before.sizes[stays])))[at_groups]
    at_pods = np.repeat(firsts, fresh.sizes)
    found = before.groups.followed(stays, fresh.groups, at_groups)
    return found, _Places.of(stays, at_groups), _Places.of(pods_stay, at_pods)


def _name_classes(made: VictimTable, before: VictimTable, fresh: VictimTable, pods: _Places) -> None:
    known = {id(pod_class): at for at, pod_class in enumerate(before.classes)}
    made.classes, made.pays = before.classes.copy(), before.pays.copy()
    number: list[int] = []
    for pod_class, pays in zip(fresh.classes, fresh.pays, strict=True):
        at = known.get(id(pod_class), len(made.classes))
        if at == len(made.classes):
            made.classes.append(pod_class)
            made.pays.append(pays)
        number.append(at)
    made.kind = pods.put(before.kind, np.array(number, np.intp)[fresh.kind])


def _name_queues(made: VictimTable, before: VictimTable, fresh: VictimTable, groups: _Places) -> None:
    """Queues are numbered in the order of the first of their groups."""
    names = list(dict.fromkeys(chain(before.queues, fresh.queues)))
    numbers = {name: at for at, name in enumerate(names)}
    of = groups.put(before.queue_of, np.array([numbers[name] for name in fresh.queues], np.intp)[fresh.queue_of])
    first = np.full(len(names), len(of), np.intp)
    first[of[::-1]] = np.arange(len(of))[::-1]
    order = [at for at in np.argsort(first, kind="stable").tolist() if first[at] < len(of)]
    place = np.zeros(len(names), np.intp)
    place[order] = np.arange(len(order))
    made.queues, made.queue_of = [names[at] for at in order], place[of]
