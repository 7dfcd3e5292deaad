"""Reservations by administrators in one cycle: what room they leave to a gang that starts now, or later.

A gang that may not use a reservation finds its room only until the reservation begins: its enforced end lies before
that, or nothing enforces its end and there is time enough (`drain`). A gang that may use it finds the room if it ends
with the reservation. A gang that names a reservation finds that room and no other. All of this is told as changes of
the columns of free room, which the timeline takes in, or which are lent to the trial.

Where a reservation takes a part of a node, what gangs inside it hold is not kept a second time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.blocks import NEVER_ENDS, end_of
from t9ksched.engine.changes import Changes, SortedChanges, joined
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.steps import Steps
from t9ksched.engine.timeline import Timeline
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.reasons import Reason
from t9ksched.model.reserved_room import ReservedRoom


class _Use(NamedTuple):
    """Room of a reservation that a gang inside holds on a node, from `begin` to `end`; amounts by resource."""

    begin: int
    end: int
    amounts: Int64s


class _Kept:
    """A reserved room on the nodes of a trial: `amounts[:, i]` is kept on the node of row `rows[i]`."""

    def __init__(self, room: ReservedRoom, trial: Trial, ends: Mapping[str, int]) -> None:
        static = trial.nodes.static
        self.room = room
        self.rows: Indices = np.array(
            sorted(static.index[name] for name in room.nodes if name in static.index), np.intp
        )
        self.amounts: Int64s = static.allocatable[:, self.rows]
        self.counts: Mask = np.ones(len(self.amounts), np.bool_)
        """The resources of which it keeps a part, shape (resources,)."""
        self.uses: defaultdict[int, list[_Use]] = defaultdict(list)
        """Of reservations of a part of their nodes, by row."""
        if room.cards is None:
            return
        resource, count = room.cards
        cards = trial.resource_rows.get(resource)
        has = self.amounts[cards] if cards is not None else np.zeros(len(self.rows), np.int64)
        part = np.minimum(has, count)
        for name, at in trial.resource_rows.items():
            shared = name in ("cpu", "memory")
            if at == cards:
                self.amounts[at] = part
            elif not shared:
                self.amounts[at] = 0
                self.counts[at] = False
            else:
                # Memory times cards may pass 64 bits: whole parts first.
                whole, rest = np.divmod(self.amounts[at], np.maximum(has, 1))
                self.amounts[at] = whole * part + rest * part // np.maximum(has, 1)
        for gang, node, pod_class, pods in room.inside:
            if node in static.index:
                needs = trial.needs(pod_class) * pods
                self.uses[static.index[node]].append(_Use(0, ends.get(gang, NEVER_ENDS), needs))

    def left(self, nth: int, at: int, uses: Iterable[_Use]) -> Int64s:
        """What is kept on its node of that number at a moment, beside what gangs inside hold then."""
        used = sum((one.amounts for one in uses if one.begin <= at < one.end), np.zeros(len(self.amounts), np.int64))
        left: Int64s = np.maximum(self.amounts[:, nth] - used, 0)
        return left


class ReservedRooms:
    """The reserved rooms of a cycle; made only where there are any.

    Args:
        expected_ends: when gangs inside give their room back; others hold it for ever.
        overdue: when an end is expected that should have come.
    """

    def __init__(
        self, rooms: Sequence[ReservedRoom], trial: Trial, expected_ends: Iterable[ExpectedEnd], now: int, overdue: int
    ) -> None:
        inside = {gang for room in rooms for gang, *_ in room.inside}
        ends = {one.gang: one.at if one.at > now else overdue for one in expected_ends if one.gang in inside}
        self._trial = trial
        self._now = now
        self._kept = [_Kept(room, trial, ends) for room in rooms if room.end > now]
        self._partly = any(kept.room.cards is not None for kept in self._kept)
        self._plans: Timeline | None = None
        self._gangs: Mapping[str, Gang] = {}
        self._admits: dict[tuple[object, ...], tuple[bool, ...]] = {}
        self._known: dict[tuple[object, ...], tuple[Changes, SortedChanges] | None] = {}
        self._too_large: dict[tuple[object, ...], Reason | None] = {}
        self._standing: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._version = 0
        """Another one after each change of what gangs inside hold."""

    def beside(self, plans: Timeline, gangs: Mapping[str, Gang]) -> None:
        """Starts are planned on this timeline, for gangs of these by UID: those that are to start inside a reservation
        use it.
        """
        self._plans, self._gangs = plans, gangs

    def started(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """The gang has these places from now on."""
        if not self._partly:
            return
        end, admitted = self.end_of(gang, self._now), self.admitted(gang)
        for kept, admits in zip(self._kept, admitted, strict=True):
            if kept.room.cards is not None and admits and end <= kept.room.end:
                rows = set(kept.rows.tolist())
                for placement in placements:
                    if placement.row in rows:
                        needs = placement.column.needs_vector * placement.pods
                        kept.uses[placement.row].append(_Use(self._now, end, needs))
                        self._version += 1

    def rooms(self) -> dict[int, tuple[ReservedRoom, ...]]:
        """What is reserved on each node, by row."""
        found: dict[int, tuple[ReservedRoom, ...]] = {}
        for kept in self._kept:
            for row in kept.rows.tolist():
                found[row] = (*found.get(row, ()), kept.room)
        return found

    # ---- what a gang may use

    def admitted(self, gang: Gang) -> tuple[bool, ...]:
        """Which of the rooms it may use."""
        key = (gang.queue, gang.user, gang.groups, gang.reservation)
        found = self._admits.get(key)
        if found is None:
            found = self._admits[key] = tuple(kept.room.admits(gang) for kept in self._kept)
        return found

    def profile(self, gang: Gang) -> tuple[object, ...]:
        """What tells apart gangs that find different room although they ask for the same until the same moment."""
        return self.admitted(gang), gang.reservation, not gang.lasts

    @property
    def profiles(self) -> tuple[object, ...]:
        """What the profiles of gangs follow from."""
        rooms = (kept.room for kept in self._kept)
        return tuple((room.name, room.queues, room.users, room.groups) for room in rooms)

    def own(self, gang: Gang) -> list[ReservedRoom]:
        """The occurrences that the gang may use of the reservation that it names, in order."""
        return sorted((kept.room for kept in self._named(gang)), key=lambda room: room.begin)

    def refusal(self, gang: Gang, groups: Sequence[Group] = ()) -> Reason | None:
        """Why the gang may not use the reservation that it names now; None when it may, and where it names none.
        `groups` are its pods, if it is to be told that they are too many or too large.
        """
        if not gang.reservation:
            return None
        if (never := self.too_large(gang, groups)) is not None:
            return never
        known = any(kept.room.name == gang.reservation for kept in self._kept)
        return explain.reservation_waits(gang, self.own(gang), known, self._now)

    def too_large(self, gang: Gang, groups: Sequence[Group]) -> Reason | None:
        """Why the pods would not fit in the reservation that the gang names if nothing ran there; None when they would,
        where it names none, and while one of its nodes is away or closed.
        """
        kept = next(iter(self._named(gang)), None)
        facts = self._trial.nodes.static.facts
        if kept is None or len(kept.rows) < len(kept.room.nodes):
            return None
        if any(not facts[row].ready or facts[row].unschedulable for row in kept.rows.tolist()):
            return None
        key = (gang.reservation, *((id(column), pods) for column, pods in groups))
        if key not in self._too_large:
            empty = np.zeros_like(self._trial.free)
            empty[:, kept.rows] = self._trial.nodes.static.allocatable[:, kept.rows]
            if kept.room.cards is not None:
                empty[np.ix_(kept.counts, kept.rows)] = kept.amounts[kept.counts]
            self._too_large[key] = explain.larger_than_reservation(kept.room, groups, kept.rows, empty)
        return self._too_large[key]

    def _named(self, gang: Gang) -> list[_Kept]:
        """The occurrences that the gang may use of the reservation that it names."""
        both = zip(self._kept, self.admitted(gang), strict=True)
        return [kept for kept, admits in both if admits and kept.room.name == gang.reservation]

    def denial(self, gang: Gang) -> Reason:
        """Why the gang finds no room now that it would find if nothing were reserved, or if it named no reservation."""
        room = self.against(gang, self._now)
        return explain.reservation_full(gang.reservation) if room is None else explain.reserved(gang, room, self._now)

    def end_of(self, gang: Gang, start: int) -> int:
        """When the gang ends at the latest if it starts then: without a limit of its own, with the reservation that it
        names.
        """
        if gang.reservation and not gang.lasts:
            return next((room.end for room in self.own(gang) if room.begin <= start < room.end), NEVER_ENDS)
        return end_of(gang, start)

    def ends(self, gang: Gang) -> Steps:
        """What `end_of` says of a gang without a limit of its own that names a reservation, for all starts."""
        found = [(0, NEVER_ENDS)]
        for room in self.own(gang):
            found += [(room.begin, room.end), (room.end, NEVER_ENDS)]
        at, until = np.array(found, np.int64).T
        return at, until

    def against(self, gang: Gang, start: int) -> ReservedRoom | None:
        """The first room that the gang would take from others if it started then and had all nodes."""
        return min(self._denying(gang, start), key=lambda room: (room.begin, room.name), default=None)

    def standing(self, gang: Gang) -> tuple[object, ...]:
        """What a refusal of now depends on besides what is reserved on the nodes: the time alone changes it."""
        key = (self.admitted(gang), gang.reservation, gang.lasts)
        found = self._standing.get(key)
        if found is None:
            rooms = self._denying(gang, self._now)
            found = tuple((room.name, room.begin, room.end, room.begin <= self._now) for room in rooms)
            self._standing[key] = found
        return found

    def _denying(self, gang: Gang, start: int) -> list[ReservedRoom]:
        """The rooms that the gang would take from others if it started then and had all nodes."""
        end = self.end_of(gang, start)
        found = []
        for kept, admits in zip(self._kept, self.admitted(gang), strict=True):
            room = kept.room
            if not gang.lasts and not gang.reservation:
                denied = room.drain <= start < room.end
            elif admits:
                denied = start < room.end < end
            else:
                denied = start < room.end and end > room.begin
            if denied and len(kept.rows):
                found.append(room)
        return found

    # ---- as changes of the columns

    def heeded(self, gang: Gang, start: int | None, *, projected: bool = True) -> tuple[Changes, SortedChanges] | None:
        """How the columns change over time for the gang if it starts then; None where nothing is reserved from it.

        Where nothing enforces its end, and in a part of a node of which it would outlast the reservation, what counts
        depends on when it starts; without `start`, it is what counts whenever that is. If the columns are not
        `projected`, they are those of `start`: what gangs inside hold then does not come free, so it is not kept again
        either.
        """
        admitted = self.admitted(gang)
        chosen: list[tuple[_Kept, bool]] = []
        for kept, admits in zip(self._kept, admitted, strict=True):
            room = kept.room
            if not len(kept.rows) or (admits and gang.reservation):
                continue  # that it ends in time there is seen to by `confined`
            if not (gang.lasts or gang.reservation):
                if start is not None and room.drain <= start < room.end:
                    chosen.append((kept, False))
            elif not admits or room.cards is None:
                chosen.append((kept, admits))
            elif start is not None and start < room.end < self.end_of(gang, start):
                chosen.append((kept, False))
        plans = self._plans.version if self._partly and self._plans is not None else 0
        still = None if projected or not self._partly else start
        key = (self._version, plans, still, *((id(kept), admits) for kept, admits in chosen))
        if key not in self._known:
            parts = [self._changes(kept, admits, still) for kept, admits in chosen]
            changes = joined(len(self._trial.free), parts)
            self._known[key] = (changes, SortedChanges(changes)) if len(changes[0]) else None
        return self._known[key]

    def confined(self, gang: Gang, start: int, free: Int64s) -> Int64s | None:
        """The change of the columns so that a gang finds only the reservation that it names; None if it names none.

        `free` is the room from that moment until the gang ends.
        """
        if not gang.reservation:
            return None
        found = -np.maximum(free, 0)
        end = self.end_of(gang, start)
        for kept, admits in zip(self._kept, self.admitted(gang), strict=True):
            room = kept.room
            if not admits or room.name != gang.reservation or not (room.begin <= start and end <= room.end):
                continue
            if room.cards is None:
                found[:, kept.rows] = 0
                continue
            for nth, row in enumerate(kept.rows.tolist()):
                uses = self._uses(kept, row)
                moments = {start, *(one.begin for one in uses if start < one.begin < end)}
                least = np.minimum.reduce([kept.left(nth, at, uses) for at in moments])
                limits = np.minimum(0, least - np.maximum(free[:, row], 0))
                found[:, row] = np.where(kept.counts, limits, 0)
        return found

    def change(self, gang: Gang, start: int, free: Int64s | None = None) -> Int64s | None:
        """The least change of the columns from that moment until the gang ends, shape (resources, nodes), nowhere
        positive; None for no change. It looks at nothing but reservations. `free` are the columns of that moment; the
        present ones by default.
        """
        free = self._trial.free if free is None else free
        found: Int64s | None = None
        if (heeded := self.heeded(gang, start, projected=False)) is not None:
            _, changes = heeded
            low = changes.lowest(start, self.end_of(gang, start))
            if low.any():
                found = np.zeros_like(self._trial.free)
                found[:, changes.nodes] = np.minimum(low, 0)
        if gang.reservation:
            confined = self.confined(gang, start, free if found is None else free + found)
            assert confined is not None
            found = confined if found is None else found + confined
        return found

    def moments(self, gang: Gang, latest: int) -> list[int]:
        """Moments until `latest` from which on the gang may find more room than before: ends of reservations, and of
        that which it names the beginnings.
        """
        found = {kept.room.end for kept in self._kept} | {room.begin for room in self.own(gang)}
        return sorted(at for at in found if self._now < at <= latest)

    def _uses(self, kept: _Kept, row: int) -> list[_Use]:
        """What gangs inside hold there, planned starts included."""
        found = list(kept.uses.get(row, ()))
        for owner, block in self._plans.blocks.items() if self._plans is not None else ():
            gang = self._gangs.get(owner)
            if gang is None or block.until > kept.room.end or row not in block.room.rows:
                continue
            if kept.room.admits(gang):
                amounts = block.room.amounts[:, np.flatnonzero(block.room.rows == row)[0]]
                found.append(_Use(block.at, block.until, amounts))
        return found

    def _changes(self, kept: _Kept, admits: bool, still: int | None) -> Changes:
        """What a room takes from a gang. From one that may use it, which are whole nodes then: only from the moment of
        its end, so that it has to end by then. With `still`, all stays as it is at that moment.
        """
        room, rows, amounts = kept.room, kept.rows, kept.amounts
        begin, end = (room.end, room.end + 1) if admits else (max(room.begin, self._now), room.end)
        if room.cards is None:
            at = np.repeat(np.array([begin, end], np.int64), len(rows))
            return at, np.concatenate([rows, rows]), np.concatenate([-amounts, amounts], axis=1)
        parts: list[Changes] = []
        for nth, row in enumerate(rows.tolist()):
            uses = self._uses(kept, row)
            if still is not None:
                uses = [one._replace(end=NEVER_ENDS) for one in uses if one.begin <= still < one.end]
            inside = (at for one in uses for at in (one.begin, one.end) if begin < at < end)
            moments = [begin, *sorted(set(inside)), end]
            values = [kept.left(nth, at, uses) for at in moments[:-1]]
            values = [np.zeros_like(values[0]), *values, np.zeros_like(values[0])]
            steps = np.array([before - after for before, after in pairwise(values)]).T
            parts.append((np.array(moments, np.int64), np.full(len(moments), row, np.intp), steps))
        return joined(len(amounts), parts)
