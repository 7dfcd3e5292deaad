"""Why pods find no room: which nodes match, what these have free, and what one of them would need."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.explain.cards import no_card
from t9ksched.engine.explain.domains import too_little_beside
from t9ksched.engine.explain.excluded import (
    excluded,
    excluded_ever,
    is_not_offered,
    no_node_matches,
    offering,
    other_nodes,
    unrecorded,
)
from t9ksched.engine.explain.inventory import CARD_CORDONED, Addition, by_dra, cordons, unready, with_additions
from t9ksched.engine.explain.never import away, never_fits, never_together, together_if_not_away
from t9ksched.engine.explain.words import amount, counted, matching, wants
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.volumes import ATTACH_PREFIX

CLOSEST: Final = "the closest has {} free"
_ONE: Final = 0
"""In place of a number of pods: not one fits."""


def no_room(groups: Iterable[Group], *, gave_up: bool = False, within: bool = False) -> Work[tuple[Reason, ...]]:
    """Why the groups found no place together, on the trial as it is before they are placed.

    With `gave_up` the search ended at its bound, so there may be one. With `within` all must be in one domain: nothing
    is said where each kind finds room in the whole cluster, for that is not what is missing.
    """
    asked = list(groups)
    never = (yield from never_together(asked, search=True)) or (yield from together_if_not_away(asked))
    if never is not None:
        return (never,)
    found: list[Reason] = []
    against: list[Reason] = []
    for column, pods in asked:
        if (reason := _no_room(column, pods)) is not None:
            found.append(reason)
        possible = reason is None or reason.code == Code.INSUFFICIENT_RESOURCES
        if column.ruled and possible and (reason := _against_rules(column, pods)) is not None:
            against.append(reason)
        yield
    if found or against:
        return unique([*found, *against])
    total = sum(pods for _, pods in asked)
    match = np.logical_or.reduce([column.mask for column, _ in asked])
    if gave_up:
        return (_gave_up(total, int(match.sum())),)
    if within:
        return ()
    return (
        Reason(
            Code.INSUFFICIENT_RESOURCES,
            f"each kind of its pods finds room alone, all {total} together do not; {matching(int(match.sum()))}",
            {"members": total},
            nodes={"match": int(match.sum())},
            unblocks=("room is given back on the matching nodes",),
        ),
    )


def no_room_above(gang: Gang, column: ClassFit, pods: int) -> Work[tuple[Reason, ...]]:
    """Why so many members above the minimum of a gang, all of a class, found no place where the trial looks: in the
    domain of the gang, if it must be in one.
    """
    trial, scope = column.trial, column.trial.scope
    if scope is None:
        return (yield from no_room([(column, pods)]))
    trial.within(None)
    reason = impossible(column, pods)
    trial.within(scope)
    if reason is not None:
        return (reason,)
    found = [(yield from too_little_beside(gang, column, pods)), _against_rules(column, pods) if column.ruled else None]
    told = tuple(one for one in found if one is not None)
    return told or (yield from no_room([(column, pods)]))


def _gave_up(pods: int, match: int) -> Reason:
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"each kind of its pods finds room alone; the search for a way to place all {pods} together ended at its bound "
        f"without finding one, so there may be one; {matching(match)}",
        {"members": pods},
        nodes={"match": match},
        unblocks=("more room is given back on the matching nodes", "use fewer kinds of pods, or a smaller gang"),
    )


def lacking(groups: Iterable[Group]) -> Work[tuple[Reason, ...]]:
    """Reasons for each class of pods that lacks room for itself; empty when none does."""
    found = []
    for column, pods in groups:
        if (reason := _no_room(column, pods)) is not None:
            found.append(reason)
        yield
    return unique(found)


def unique(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Each reason once, in order. Reasons cannot be hashed, so only those that read alike are compared."""
    kept: dict[tuple[Code, str], list[Reason]] = {}
    found = []
    for reason in reasons:
        alike = kept.setdefault((reason.code, reason.message), [])
        if reason not in alike:
            alike.append(reason)
            found.append(reason)
    return tuple(found)


def impossible(column: ClassFit, pods: int) -> Reason | None:
    """Why no free room would help: no node may take such a pod, or all of them together are too small, those that are
    away included. That the database is away is no such reason for pods that would not fit once it answers either.
    """
    possible, waits = column.total_ever() >= pods, unrecorded(column)
    if waits is not None and possible:
        return waits
    if is_not_offered(column):
        return no_node_matches(column)
    if waits is None and not column.mask.any() and (possible or excluded_ever(column)):
        return with_additions(no_node_matches(column), away(column) if possible else ())
    return never_fits(column, pods)


def _no_room(column: ClassFit, pods: int) -> Reason | None:
    """Why so many pods do not fit now; None when they do. Gangs of many queues ask the same."""
    rooms = column.rooms()
    if pods not in column.said:
        reason = impossible(column, pods)
        if reason is None and not column.total():
            # However many they are, it is one pod that finds no node.
            if _ONE not in column.said:
                column.said[_ONE] = _with_inventory(column, _no_single_node(column, int(column.mask.sum())))
            reason = column.said[_ONE]
        else:
            reason = reason or _too_little(column, pods, rooms)
            if reason is not None and (reason.code == Code.NEVER_FITS or not excluded(column)):
                reason = _with_inventory(column, reason)
        lacks = reason is not None and reason.code == Code.INSUFFICIENT_RESOURCES and column.total_empty() < pods
        if reason is not None and lacks and (gone := away(column)):
            # That room is given back would not help without them.
            helps = tuple(help for _, _, more in column.away or () for help in more)
            reason = with_additions(structs.replace(reason, unblocks=helps), gone)
        column.said[pods] = reason
    return column.said[pods]


def _with_inventory(column: ClassFit, reason: Reason) -> Reason:
    """The reason, and what of the matching nodes takes no work for now, or would if the pod took it as it is."""
    told = CARD_CORDONED in reason.message  # card by card, where cards are divided
    return with_additions(reason, [one for one in takes_none(column) if not (told and CARD_CORDONED in one[1])])


def takes_none(column: ClassFit) -> list[Addition]:
    """What of the nodes takes none of its pods for now, or would if they took it as it is."""
    if column.away is None:
        column.away = by_dra(column) if column.pod_class.extended else []
        if column.pod_class.accelerated:
            column.away += [*cordons(column), *unready(column), *other_nodes(column)]
    return column.away


def _too_little(column: ClassFit, pods: int, rooms: Int64s) -> Reason | None:
    match = int(column.mask.sum())
    fit = int(np.minimum(rooms, pods).sum())
    if fit >= pods:
        return None
    return not_enough(column.pod_class, pods, fit, match, int((rooms > 0).sum()))


def _against_rules(column: ClassFit, pods: int) -> Reason | None:
    """Which rules about other pods keep how many nodes with room from it; None when none does."""
    roomy = column.rooms() > 0
    if not roomy.any():
        return None
    counts = {"match": int(column.mask.sum()), "fit": int(roomy.sum())}
    gone: dict[str, Mask] = {}
    left = roomy
    for label, allows in column.affinity().checks():
        gone[label] = gone.get(label, False) | (roomy & ~allows)
        left = left & allows
    counts |= {label: int(mask.sum()) for label, mask in gone.items() if mask.any()}
    parts = [f"{label} forbids {counts[label]}" for label in counts if label not in ("match", "fit")]
    if not parts and pods == 1:
        return None
    what = ", ".join(parts) or "its rules about other pods allow some of them, but not all of its pods together"
    return Reason(
        Code.TOPOLOGY_NOT_SATISFIED,
        f"of {counted(counts['fit'], 'node')} with room, {what}; {int(left.sum())} left for its next pod",
        {"members": pods},
        nodes=counts | {"left": int(left.sum())},
        unblocks=("pods that its rules speak of come or go", "loosen the affinity, anti-affinity or spread"),
    )


def not_enough(pod_class: PodClass, pods: int, fit: int, match: int, able: int) -> Reason:
    """Only `fit` of so many pods find room now, on `able` of the nodes that match."""
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs room for {pods} pods with {wants(pod_class)} each; {matching(match)}, now with room for {fit}",
        {"members": pods},
        {"members": fit},
        {"match": match, "fit": able},
        (f"room for {pods - fit} more of them is given back",),
    )


def _no_single_node(column: ClassFit, match: int) -> Reason:
    if column.divided and (reason := no_card(column)) is not None:
        return reason
    free = column.trial.free
    pod_class, rows = column.pod_class, column.trial.resource_rows
    reason = short_of(pod_class, match, {name: _largest(column, free, name) for name, _ in pod_class.requests})
    if reason is not None:
        if pod_class.extended and not (offering(column) & column.mask).any():
            # That those which match have none of it is not why it waits.
            reason = structs.replace(
                reason, message=f"no node that offers {wants(pod_class)} takes it now", unblocks=()
            )
        return reason
    row = _closest(column)
    at_most = {name: int(free[rows[name], row]) for name, units in pod_class.requests if units}
    if (reason := short_of(pod_class, match, at_most, CLOSEST)) is not None:
        return reason
    if column.volumes is not None and not (column.mask & ~column.volumes.closed(column.trial.free, None)).any():
        return _not_attached(column, match)
    if not column.ports:
        return Reason(
            Code.INSUFFICIENT_RESOURCES,
            f"needs {wants(pod_class)} on one node; {matching(match)}, and none has the cards for it",
            nodes={"match": match, "fit": 0},
            unblocks=("room is given back on the matching nodes",),
        )
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"its host ports are taken wherever it would fit; {matching(match)}",
        nodes={"match": match, "fit": 0},
        unblocks=("a pod with the same host port ends",),
    )


def _not_attached(column: ClassFit, match: int) -> Reason:
    assert column.volumes is not None
    limit, needs, has = column.volumes.fewest(column.trial.free, column.mask)
    driver = limit.removeprefix(ATTACH_PREFIX)
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs a node that can attach {counted(needs, 'more volume')} of {driver}; {matching(match)}, best can {has}",
        {limit: needs},
        {limit: has},
        {"match": match, "fit": 0},
        (f"pods end that use other volumes of {driver} on one node",),
    )


def short_of(pod_class: PodClass, match: int, free: Mapping[str, int], tail: str = "best has {} free") -> Reason | None:
    """Why no node has one pod's amounts if they have at most this free of each resource; None if that is enough.

    With a `tail` of its own it speaks of the node that has most of the rarest: of every amount one node has enough, and
    none of all.
    """
    short = {name: units for name, units in pod_class.requests if units and units > max(free[name], 0)}
    if not short:
        return None
    best = {name: max(free[name], 0) for name in short}
    asked = " and ".join(amount(name, units) for name, units in short.items())
    has = " and ".join(from_units(name, units) for name, units in best.items())
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"needs {asked} on one node; {matching(match)}, {tail.format(has)}",
        short,
        best,
        {"match": match, "fit": 0},
        tuple(f"{amount(name, units - best[name])} more is given back on one node" for name, units in short.items()),
    )


def _largest(column: ClassFit, columns: Int64s, resource: str) -> int:
    at = column.trial.resource_rows.get(resource)
    return int(columns[at][column.mask].max()) if at is not None else 0


def _closest(column: ClassFit) -> int:
    """The matching node that has the largest part of what it lacks most."""
    part = np.full(len(column.mask), 512, np.int64)
    for at, units in column.needs:
        np.minimum(part, np.clip(column.trial.free[at], 0, units) * 512 // units, out=part)
    part[~column.mask] = -1
    return int(part.argmax())
