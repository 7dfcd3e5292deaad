"""Confirms a choice of victims on the trial, where numbers of pods do not decide alone where a gang may go."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.cards import Share
from t9ksched.engine.placement.pack import Attempt, Group, place_together
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.victims.field import Choice, Place
from t9ksched.engine.work import Effort, Work
from t9ksched.model.gang import RunningPod


def confirmed(
    trial: Trial, groups: Sequence[Group], choice: Choice, scope: Mask, coming: Int64s | None = None
) -> Work[Choice | None]:
    """The choice with the places that the trial finds in the scope once the victims are off the nodes, or None.

    Until they have ended victims still count for rules about pods. With `coming`, shape (resources, nodes), that room
    is there, too.
    """
    mark = trial.mark()
    for _, pod in choice.victims:
        _vacate(trial, pod)
    states = trial.shift(coming) if coming is not None else (0, 0)
    start = trial.mark()
    trial.within(scope)
    attempt = yield from place_together(trial, groups, Effort())
    trial.within(None)
    fits = attempt is Attempt.PLACED
    placed = trial.since(start) if fits else []
    trial.undo(start)
    if coming is not None:
        trial.unshift(coming, states)
    trial.undo(mark)
    return replace(choice, places=_places(trial, groups, placed)) if fits else None


def _places(trial: Trial, groups: Sequence[Group], placed: Sequence[Placement]) -> tuple[Place, ...]:
    counts = {id(column): np.zeros(len(trial.nodes), np.int64) for column, _ in groups}
    shares: dict[int, dict[int, list[Share]]] = {id(column): {} for column, _ in groups}
    for one in placed:
        counts[id(one.column)][one.row] += one.pods
        if one.column.part_needs and one.column.divides(one.row):
            shares[id(one.column)].setdefault(one.row, []).extend(one.shares)
    places = []
    for column, _ in groups:
        rows = np.flatnonzero(counts[id(column)])
        places.append(Place(column, rows, counts[id(column)][rows], shares[id(column)]))
    return tuple(places)


def _vacate(trial: Trial, pod: RunningPod) -> None:
    """Take a pod off its node on the trial; `undo` puts it back."""
    row = trial.nodes.static.index.get(pod.node)
    if row is None:
        return
    static = trial.nodes.static
    held = static.cards.indexed_part(row, pod.cards)
    usable = static.cards.usable_part(row, held)
    requests = tuple(
        (name, usable.count(name) if held.count(name) else amount) for name, amount in pod.pod_class.requests
    )
    column = trial.column(None, replace(pod.pod_class, requests=requests, rules=None))
    trial.release(Placement(column, row, 1, column.share_of(row, usable | pod.cards.divided)))
