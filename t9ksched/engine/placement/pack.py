"""Where the pods of a gang go, on a trial.

Pods of one class are placed together: the best node first (ties to the first by name), filled as far as its room and
the strategy go. The kinds of pods in a gang are placed hardest first; when that fails, in other orders, then by
search. `pack` places what it can; `place_together` places all or nothing. Both can be interrupted and resumed.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import islice, permutations
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.card_needs import take_parts
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.class_keys import NEVER
from t9ksched.engine.placement.search import search
from t9ksched.engine.placement.shared_volumes import Attachment
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.work import Effort, Work
from t9ksched.model.podrules import PodTerm

Group = tuple[ClassFit, int]
"""A class and how many pods of it."""

_MANY: Final = 128
"""From so many pods on, nodes are chosen in one sweep; below, one at a time is faster."""
_ORDERS: Final = 24
"""How many orders of a gang's kinds are tried at most."""
_ORDER_NODES: Final = 1_000_000
"""Of a gang of very many kinds two orders are tried, and more only while fewer nodes than this were looked at."""
_SOME: Final = 64
"""After so many pods placed one by one, others may have their turn."""


class Attempt(Enum):
    """How an attempt to place a gang ended."""

    PLACED = "every pod has a place"
    NO_ROOM = "there is no way to place all of them"
    GAVE_UP = "the search for one ended at the bound of its work"


def pack(trial: Trial, column: ClassFit, pods: int) -> Work[int]:
    """Place up to `pods` pods; returns how many have a place now."""
    key = column.refresh()
    if not len(key):
        return 0
    if column.ruled:
        return (yield from _pack_ruled(trial, column, key, pods))
    linked = trial.links is not None and trial.links.points(column, pods) is not None
    # With links the keys are a copy of the column's own; with packing a placement changes what is usable elsewhere.
    own = trial.packing is None and not linked
    if linked:
        key = _keys(column, pods)
    if pods >= _MANY and trial.fills and not column.shuts:
        return _sweep(trial, column, key, pods)
    fill = trial.fills
    left = pods
    steps = 0
    while left:
        row = int(key.argmax())
        if key[row] == NEVER:
            break
        # A score that never falls stays the best, so the node is filled; else the next best is asked after each pod.
        room = column.room(row) if fill or own else 1
        count = min(room, left) if fill else 1
        trial.place(column, row, count)
        left -= count
        if own:
            key[row] = column.score(row) if count < room else NEVER
        elif left:
            key = _keys(column, pods)
        steps += 1
        if not steps % _SOME:
            trial.meter.spent += _SOME * len(key)
            if own:
                column.caught_up()
            yield
            key = _keys(column, pods)
    if own:
        column.caught_up()
    trial.meter.spent += steps % _SOME * len(key)
    return pods - left


def _links(column: ClassFit, pods: int) -> Int64s | None:
    """What the links of cards add to the score of each node for so many pods; None where nothing."""
    links = column.trial.links
    return None if links is None else links.points(column, pods)


def _keys(column: ClassFit, pods: int) -> Int64s:
    """The score of each node for one more of so many pods, or `NEVER`: the column's own keys, or with links a copy."""
    key, points = column.refresh(), _links(column, pods)
    return key if points is None else np.where(key == NEVER, NEVER, key + points)


def _sweep(trial: Trial, column: ClassFit, key: Int64s, pods: int) -> int:
    """`pack` for many pods: the same nodes in the same order, chosen at once."""
    rows = np.flatnonzero(key != NEVER)
    if not len(rows):
        return 0
    rows = rows[np.argsort(-key[rows], kind="stable")]
    rooms = column.rooms()[rows]
    filled = np.cumsum(np.minimum(rooms, pods))
    last = min(int(np.searchsorted(filled, pods)), len(rows) - 1)
    rows, rooms = rows[: last + 1], rooms[: last + 1].copy()
    before = int(filled[last - 1]) if last else 0
    rooms[last] = min(int(rooms[last]), pods - before)
    trial.place_many(column, rows, rooms)
    return before + int(rooms[last])


def _pack_ruled(trial: Trial, column: ClassFit, key: Int64s, pods: int) -> Work[int]:
    """`pack` for pods with rules about pods: one at a time, as each changes what the next one may do."""
    affinity = column.affinity()
    for done in range(pods):
        preferences = affinity.preference_scores()
        open_to = np.where(affinity.allowed(), key, NEVER)
        if preferences is not None:
            open_to = np.where(open_to == NEVER, NEVER, open_to + preferences)
        if (points := _links(column, pods)) is not None:
            open_to = np.where(open_to == NEVER, NEVER, open_to + points)
        row = int(open_to.argmax())
        if open_to[row] == NEVER:
            column.caught_up()
            return done
        trial.place(column, row, 1)
        affinity.placed(row)
        key[row] = column.score(row) if column.room(row) > 0 else NEVER
        trial.meter.spent += len(key) * (2 + len(column.terms))
        if done % _SOME == _SOME - 1:
            column.caught_up()
            yield
            key = column.refresh()
    column.caught_up()
    return pods


def hardness(column: ClassFit) -> tuple[int, int]:
    """Sorts classes, least choice first: few nodes that could ever take one, then a large part of a node."""
    allocatable = column.trial.nodes.static.allocatable
    able = column.able()
    nodes = int(able.sum())
    if not nodes:
        return (0, 0)
    part = max((amount * 10**6 // int(allocatable[at][able].max()) for at, amount in column.needs), default=0)
    return (nodes, -part)


def place_together(trial: Trial, groups: Sequence[Group], effort: Effort) -> Work[Attempt]:
    """Place every pod of every group, or nothing."""
    mark = trial.mark()
    nodes = len(trial.nodes)
    if len(groups) == 1 and not groups[0][0].ruled:
        effort.left -= nodes
        if (yield from pack(trial, *groups[0])) == groups[0][1]:
            return Attempt.PLACED
        trial.undo(mark)
        return Attempt.NO_ROOM
    for nth, order in enumerate(islice(permutations(groups), _ORDERS)):
        if nth and effort.left <= 0:
            return Attempt.GAVE_UP
        missed = False
        for column, pods in order:
            effort.left -= nodes
            if (yield from pack(trial, column, pods)) < pods:
                missed = True
                break
            yield
        if not missed:
            return Attempt.PLACED
        trial.undo(mark)
        if not nth and not (yield from _could(trial, groups)):
            return Attempt.NO_ROOM
        if nth + 1 >= 2 and nodes * len(groups) * (nth + 1) > _ORDER_NODES:
            break
    found = yield from search(trial, groups, effort)
    return Attempt.GAVE_UP if found is None else Attempt.PLACED if found else Attempt.NO_ROOM


def _could(trial: Trial, groups: Sequence[Group]) -> Work[bool]:
    """Whether each kind of pods finds room for itself, and all that is free would be enough for all of them."""
    needs = np.zeros(len(trial.free), np.int64)
    here = np.zeros(len(trial.nodes), np.bool_)
    for column, pods in groups:
        if int(np.minimum(column.rooms(), pods).sum()) < pods:
            return False
        needs += column.needs_vector * pods
        here |= column.here
        yield
    return bool(np.all((needs <= np.maximum(trial.free, 0)[:, here].sum(axis=1)) | (needs == 0)))


def co_placed_terms(groups: Sequence[Group]) -> frozenset[PodTerm]:
    """Affinity terms that select pods of the groups: pods that must be near such pods bring them along."""
    return frozenset(term for column, _ in groups for term in column.pod_class.counted)


def own_affinity_keys(groups: Sequence[Group]) -> list[str]:
    """Node labels by which pods of the groups want to be near pods of their own kind."""
    found = []
    for column, _ in groups:
        rules = column.pod_class.rules
        for term in rules.together if rules else ():
            if term in column.pod_class.counted and term.topology_key not in found:
                found.append(term.topology_key)
    return found


def left_after(groups: Sequence[Group], free: Int64s) -> Int64s | None:
    """What is left of these columns when the groups fill them one after the other; None when they do not fit."""
    attached: set[Attachment] = set()
    for column, pods in groups:
        there = free if column.volumes is None else column.volumes.beside(free, attached)
        rooms = np.minimum(column.rooms(there), pods)
        if column.ports:
            rooms[[row for row in np.flatnonzero(rooms).tolist() if column.ports_taken(row)]] = 0
        if int(rooms.sum()) < pods:
            return None
        took = np.minimum(rooms, np.maximum(pods - (np.cumsum(rooms) - rooms), 0))
        free = free - column.needs_vector[:, None] * took
        if column.volumes is not None:
            more = {one for row in np.flatnonzero(took).tolist() for one in column.volumes.missing(row)} - attached
            for row, at, _ in more:
                free[at, row] -= 1
            attached |= more
        for row in np.flatnonzero(took).tolist() if column.divided else ():
            if column.divides(row):
                take_parts(column.part_needs, free[:, row], row, int(took[row]))
    return free
