"""Why a gang waits for, or because of, reservations by administrators."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.explain.words import amount, counted, wants
from t9ksched.engine.placement.pack import Group
from t9ksched.model.gang import Gang
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.timelimit import written

_OTHERWISE: Final = ("an administrator changes the reservation", "submit it again without the reservation")


def reserved(gang: Gang, room: ReservedRoom, now: int) -> Reason:
    """It would fit, but not until it ends: the room is reserved."""
    what = f"reservation {room.name!r}"
    if room.admits(gang):
        how = "with its time limit it would still run" if gang.lasts else "it has no time limit, so it might still run"
        text = f"it would fit, but {how} when {what}, which is for it, ends at {_time(room.end)}"
        helps = (f"{what} ends", f"a {'shorter ' if gang.lasts else ''}time limit, so that it ends by then")
        return Reason(Code.HELD_FOR_OTHER, text, unblocks=helps)
    if room.begin <= now:
        text = f"it would fit, but {what} keeps the room until {_time(room.end)}"
    elif gang.lasts:
        text = f"it would fit, but with its time limit it would still run when {what} begins at {_time(room.begin)}"
    else:
        text = (
            f"it would fit, but it has no time limit, so it might still run at {_time(room.begin)}, when {what} begins"
        )
    unblocks = [f"{what} ends" if room.begin <= now else f"{what} ends, at {_time(room.end)}"]
    if room.begin > now:
        unblocks.append("a shorter time limit, so that it ends before that")
    return Reason(Code.HELD_FOR_OTHER, text, unblocks=tuple(unblocks))


def is_denial(reasons: Sequence[Reason]) -> bool:
    """Whether that is what `reserved` tells; of room that is held for others more is told beside it."""
    return len(reasons) == 1 and reasons[0].code == Code.HELD_FOR_OTHER


def reservation_full(name: str) -> Reason:
    """It asks for a reservation in which it does not fit now."""
    return Reason(
        Code.INSUFFICIENT_RESOURCES,
        f"it asks for the reservation {name!r}, and too little of that is free now",
        unblocks=("other jobs in the reservation end", "ask for less", "leave the reservation out"),
    )


def larger_than_reservation(room: ReservedRoom, groups: Sequence[Group], rows: Indices, empty: Int64s) -> Reason | None:
    """Why the pods would not fit in the room of a reservation on the nodes of these rows, `empty` being what it has of
    every node, shape (resources, nodes); None when they would.
    """
    name, where = room.name, counted(len(room.nodes), "node")
    each = "" if room.cards is None else f", {room.cards[1]} {room.cards[0]} of each"
    for column, pods in groups:
        if any(parts is not None for parts in column.part_needs):
            return None  # of cards that are divided, what fits on an empty one is not known here
        match = int(column.mask[rows].sum())
        if not match:
            return Reason(
                Code.NO_NODE_MATCHES,
                f"no node of the reservation {name!r} ({where}) may run its pods: they are not nodes of its queue, or"
                " its selectors, affinity, volumes or missing tolerations keep it away",
                nodes={"total": len(rows), "match": 0},
                unblocks=("change what the pod or its queue selects", *_OTHERWISE),
            )
        most = int(np.minimum(column.rooms(empty), pods).sum())
        if most < pods:
            return Reason(
                Code.NEVER_FITS,
                f"needs room for {counted(pods, 'pod')} with {wants(column.pod_class)} each; the reservation {name!r}"
                f" ({where}{each}) has room for {most} when empty",
                {"members": pods},
                {"members": most},
                {"match": match},
                unblocks=(f"ask for at most {most} such pods" if most else "ask for less", *_OTHERWISE),
            )
    if len(groups) > 1:
        for resource, at in groups[0][0].trial.resource_rows.items():
            needs = sum(dict(column.pod_class.requests).get(resource, 0) * pods for column, pods in groups)
            has = int(np.maximum(empty[at], 0).sum())
            if needs > has:
                return Reason(
                    Code.NEVER_FITS,
                    f"all its pods together need {amount(resource, needs)}; the reservation {name!r} ({where}{each})"
                    f" has {from_units(resource, has)}",
                    {resource: needs},
                    {resource: has},
                    unblocks=("ask for less", *_OTHERWISE),
                )
    return None


def reservation_waits(gang: Gang, rooms: Sequence[ReservedRoom], known: bool, now: int) -> Reason | None:
    """Why a gang may not use the reservation that it asks for; None when it may. `rooms` are the occurrences that it
    may use, in order, and `known` says whether there is such a reservation.
    """
    name = gang.reservation
    if not known:
        text = f"it asks for the reservation {name!r}, which does not exist or is over"
        unblocks = ("an administrator creates the reservation", "submit it again without the reservation")
        return Reason(Code.NOT_PERMITTED, text, unblocks=unblocks)
    if not rooms:
        text = f"it asks for the reservation {name!r}, which is not for it"
        adds = "an administrator adds its queue, its user or a group of that to the reservation"
        return Reason(Code.NOT_PERMITTED, text, unblocks=(adds, "submit it again without the reservation"))
    long = [room for room in rooms if not gang.lasts or max(room.begin, now) + gang.lasts <= room.end]
    if long and long[0].begin <= now:
        return None
    if long:
        begin = _time(long[0].begin)
        text = f"it asks for the reservation {name!r}, which begins at {begin}"
        if rooms[0].begin <= now:
            text = f"it would not end with the reservation {name!r}, and the next one begins at {begin}"
        return Reason(Code.START_TIME_NOT_REACHED, text, unblocks=("that time comes",))
    most = max(rooms, key=lambda room: room.end - max(room.begin, now))
    left, lasts = (most.end - max(most.begin, now)) // 1_000_000_000, -(-gang.lasts // 1_000_000_000)
    # What is left changes with each second, and a reason that changes is written again.
    until = f"ends at {_time(most.end)}" if most.begin <= now else f"lasts {written(left)}"
    text = (
        f"it may run for {written(lasts)} with the time that its pods get to start and to end, and the reservation"
        f" {name!r} {until}: it would not end in time"
    )
    helps = ("a shorter time limit", *_OTHERWISE)
    return Reason(Code.NEVER_FITS, text, {"seconds": lasts}, {"seconds": left}, unblocks=helps)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
