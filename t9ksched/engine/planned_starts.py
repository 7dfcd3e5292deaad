"""Planned starts in one cycle: which gangs have one, and what room they keep from others.

Every start that was planned before stands on the timeline until it is its gang's turn. Then it is taken off, and the
gang starts now, or gets the earliest start there is. Its old one is still free for it unless room was lost, so it never
moves later for a gang that came later. Gangs of queues with a larger priority do not see it at all. (This is the
conservative backfilling of Mu'alem and Feitelson, 2001, on nodes and for gangs; `EASY` plans for the first gangs only.)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.blocks import NEVER_ENDS, Block, Room, divided_parts, end_of
from t9ksched.engine.ends import Ends
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.in_turn import InTurn, is_plain
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.past_plans import Deviation, EndOf, Expected, PastPlans
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.plan_counts import PlanCounts
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.possible_starts import PossibleStarts
from t9ksched.engine.promised_rooms import PromisedRooms
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.standing_plans import Kinds, asks, is_best, is_for, is_of, is_steady
from t9ksched.engine.timeline import Timeline
from t9ksched.engine.view import View
from t9ksched.engine.windows import Windows
from t9ksched.engine.work import Work
from t9ksched.model.gang import ExpectedEnd, Gang, Member
from t9ksched.model.reservation import Reservation

_SECOND: Final = 1_000_000_000


class PlannedStarts:
    """The planned starts of a cycle.

    Attributes:
        gangs: the gangs that wait in queues that exist, by UID.
        broken: gangs whose plans have lost a node, by UID.
        moments: the planned starts of earlier cycles, in nanoseconds since the epoch, by UID of the gang.
        promised: what is reserved for gangs and not used yet.
        in_turn: plans that are given places anew, the earliest start first.
        possible: from when on gangs may start, by numbers.
        charges: what queues pay for later.
    """

    def __init__(
        self,
        view: View,
        trial: Trial,
        ledger: Ledger,
        policy: Policy,
        now: int,
        past: PastPlans,
        reservations: Reservations,
        reserved: ReservedRooms | None = None,
    ) -> None:
        self._view = view
        self._trial = trial
        self._ledger = ledger
        self._policy = policy
        self._planning = planning = policy.planning or Planning()
        self._now = now
        self._past = past
        self._windows = Windows(view.queues, now)
        self._reserved = reserved
        self.end_of: EndOf = end_of if reserved is None else reserved.end_of
        """When a gang ends at the latest if it starts at a moment."""
        self._rank: int | None = None
        """Plans of queues with at least this priority are on the timeline."""
        self.gangs = {gang.uid: gang for gang in view.gangs if gang.queue in view.queues}
        self._rows = tuple(one for one in view.reservations if one.kind.planned)
        self.moments = {one.owner: one.since for one in self._rows}
        accounts = {name: tuple(ledger.path(name)) for name in view.queues}
        self.charges = FutureCharges(accounts, ledger.limits, now)
        self._timeline = Timeline(trial.free.shape, now, self.charges, trial.meter)
        self.in_turn = InTurn(self._timeline)
        latest = now + planning.horizon_seconds * _SECOND
        self.possible = PossibleStarts(trial, self._timeline, self.charges, self._windows, reserved, now, latest)
        self.promised = PromisedRooms(view, reservations, self._timeline, self.gangs, policy, now, self.end_of)
        self._ends: Ends | None = None
        """What is to end; None while nothing has asked for it."""
        self._counts = PlanCounts(planning)
        self._kinds = Kinds(view.queues, self.gangs)
        self._stands: dict[str, Block] = {}
        """Plans of gangs that have had their turn, by UID."""
        self._before: dict[str, Block] = {}
        """Plans of earlier cycles, by UID of gangs that have not had their turn yet."""
        self._deviation: Deviation | None = None
        """How far plans of earlier cycles may be improved; None where that is not known: see `past_plans`."""
        self._lifted: dict[str, Block] = {}
        """Plans that did not stand, by UID of the gang; at the turn of a gang, its own is here."""
        self._begun: list[tuple[ExpectedEnd, Room]] = []
        """Ends of what started in this cycle, with its room."""
        self._acted = False  # something was started or planned in this cycle
        self._gained = False
        """A plan that was looked at may be improved by what happened since."""
        self.broken: set[str] = set()
        self._lost: set[str] = set()
        """Those of them that have not had their turn."""

    def begin(self) -> Work[None]:
        """Take in the plans of earlier cycles: before any gang has its turn."""
        view, trial, past, now = self._view, self._trial, self._past, self._now
        past.follow(trial)
        if self._reserved is not None:
            self._reserved.beside(self._timeline, self.gangs)
        plans = yield from past.blocks(self._rows, self.gangs, view.queues, trial, now, self.end_of)
        self.broken = {owner for owner in self.moments if owner in self.gangs} - {block.owner for block in plans}
        self._lost = set(self.broken)
        plans = self._counts.take(plans, self.broken, self.gangs)
        self._before = {block.owner: block for block in plans}
        self.moments = {owner: self.moments[owner] for owner in (*self._before, *self.broken)}
        if self.promised:
            self._gained = True
            self.promised.lay()
        if plans or self._reserved is not None:
            ends = yield from self.look_ahead()
            self._deviation = past.as_expected(plans, view, ends, trial, self._ledger, self._policy, now)
            yield

    def look_ahead(self) -> Work[Ends]:
        """Take in what is to end, if that is not done yet.

        A cycle in which all that waits starts, and nothing is planned, need not know.
        """
        if self._ends is None:
            self._ends = yield from self._past.ends.update(self._view.expected_ends, self._trial)
            overdue = self._now + self._planning.resolution_seconds * _SECOND
            self._timeline.expect(self._ends, overdue, self._trial.worths)
        return self._ends

    def prepare(self) -> Work[None]:
        """Take in, in slices, what is to end and what is planned: before anything is asked about later moments."""
        yield from self.look_ahead()
        yield from self._timeline.prepare(self._trial)

    def standing(self) -> tuple[Reservation, ...]:
        """The plans that stand when all gangs have had their turn, as reservations, one a pod, by owner."""
        blocks = [self._stands[owner] for owner in sorted(self._stands)]
        planned = tuple(one for block in blocks for one in block.reserved)
        expected = None
        # An end that is overdue is expected later than it will be.
        if self._ends is not None and not (self._gained or self._lifted or (self._ends.at <= self._now).any()):
            seen = self._view, self._trial, self._ledger, self._policy, self._now
            expected = Expected.at_end(*seen, blocks, self._ends, self._past.ends.latest, self._begun)
        self._past.end(expected, planned, blocks)
        return planned

    def look_again(self) -> None:
        """Room came free: plans that were looked at may be improved after all, and the next cycle looks at all."""
        self._gained = True

    @property
    def any(self) -> bool:
        """Whether starts are planned whose room the gang that has its turn must leave to them, or room is reserved."""
        return bool(self._timeline.blocks) or self._reserved is not None

    def rests(self, gang: Gang, members: Sequence[Member]) -> Work[Block | None]:
        """The plan of the gang, if it stands without another look; it is the gang's turn."""
        block = self._before.get(gang.uid)
        if block is None or block.at <= self._now or self._rank != block.rank or gang.placed:
            return None
        if self._view.queues[gang.queue].spec.ordering == "Strict" or not self._windows.allow(gang, block.at):
            return None
        column = self._trial.column(self._view.queues[gang.queue].spec.node_selector, members[0].pod_class)
        if not (is_steady(column) and is_for(block, gang, members)):
            return None
        if block.asked != asks(gang) or not (yield from self._is_as_expected(block, column)):
            # Reserved room is not the same for all gangs, so nothing is said where there is some, or a gang wants some.
            if self._reserved is not None or gang.reservation:
                return None
            yield from self._timeline.prepare(self._trial)
            if not self.charges.affords(block, laid=True):
                return None
            if not is_best(self._timeline, column, gang, block):
                return None
            block.asked = asks(gang)
        self._stands[gang.uid] = self._before.pop(gang.uid)
        return block

    def _is_as_expected(self, block: Block, column: ClassFit) -> Work[bool]:
        """Whether a plan of these pods, for which there was no earlier start, stands, and there is none now."""
        deviation = self._deviation
        if deviation is None or self._gained or self._lifted:
            return False
        if deviation.lost is None and not deviation.until:
            return True
        if self._reserved is not None or (deviation.lost is not None and deviation.lost[block.room.rows].any()):
            return False
        if deviation.until:
            yield from self._timeline.prepare(self._trial)
            most = self._timeline.steps(column).most(min(deviation.until, block.at))
            return most < len(block.reserved)
        return True

    def focus(self, rank: int) -> None:
        """It is the turn of queues with this priority: plans of queues with a smaller one are off the timeline."""
        if rank == self._rank:
            return
        self._rank = rank
        lower = [block for block in self.blocks() if block.rank < rank]
        # Starts and plans of a queue with another priority heeded other plans than those of this one.
        self._gained |= bool(lower) or self._acted
        self.lift(lower)
        for block in (*self._before.values(), *self._stands.values()):
            if block.rank >= rank and block.owner not in self._timeline.blocks:
                self._timeline.take(block)

    def turn(self, gang: Gang) -> Block | None:
        """It is the gang's turn: its plan, if it had one, is off the timeline. Returns it."""
        self.promised.lift(gang.uid)
        had = self._before.pop(gang.uid, None)
        self._lost.discard(gang.uid)
        if had is not None:
            self._timeline.drop(gang.uid)
            self._lifted[gang.uid] = had
        if had is not None or gang.uid in self.broken:
            self._counts.add(gang, -1)
        return had

    def taken(self, gang: Gang, *, lends: bool = False) -> Int64s | None:
        """The change of the trial's columns for a gang that starts now, shape (resources, nodes); None for no change.

        Room that planned starts need before the gang ends, and what is reserved from it; `lends` as in the timeline.
        """
        return self._lowest(gang, self._now, lends=lends)

    def taken_from(self, gang: Gang, going: Collection[str], delay: int) -> Int64s | None:
        """As `taken`, if some of these gangs, by UID, are evicted for it and it starts so much later, in nanoseconds:
        their ends give nothing back for plans.
        """
        return self._lowest(gang, self._now, going, delay)

    def _lowest(
        self, gang: Gang, start: int, going: Collection[str] = (), delay: int = 0, *, lends: bool = False
    ) -> Int64s | None:
        """The least change of the columns for the gang if it starts then, or so much later; None for no change."""
        reserved = self._reserved
        if reserved is None:
            return self._timeline.lowest(start, end_of(gang, start + delay), going, lends=lends)
        heeded = reserved.heeded(gang, start)
        self._timeline.heed(heeded and heeded[0])
        found = self._timeline.lowest(start, reserved.end_of(gang, start + delay), going, lends=lends)
        confined = reserved.confined(gang, start, self._trial.free if found is None else self._trial.free + found)
        if confined is None:
            return found
        return confined if found is None else found + confined

    @property
    def version(self) -> int:
        """Another number after each change of the plans on the timeline."""
        return self._timeline.version

    def pays(self, gang: Gang, demand: Mapping[str, int], delay: int = 0) -> bool:
        """Whether its queue, if it can pay for this now, can do so beside its plans; the gang starts so much later."""
        until = self.end_of(gang, self._now + delay)
        return max(until, self._now + 1) <= self.charges.pays_until(gang.queue, demand)

    def started(self, gang: Gang, placements: Sequence[Placement]) -> None:
        """The gang, or members of it, have these places now."""
        self._acted = True
        room = Room.placed(placements)
        had = self._lifted.get(gang.uid)
        if had is not None and had.at == self._now and had.room.same(room):
            del self._lifted[gang.uid]
            self._gained |= self._kinds.leaves_alike(had, (*self._before.values(), *self._stands.values()))
        end = self.end_of(gang, self._now)
        if end != NEVER_ENDS:
            self._timeline.gives_back(end, gang.queue, room)
            names = self._trial.nodes.names
            rooms = tuple((names[one.row], one.column.pod_class, one.pods) for one in placements)
            self._begun.append((ExpectedEnd(gang.uid, gang.queue, end, rooms, divided_parts(placements, names)), room))

    def may_plan(self, gang: Gang, had: Block | None) -> bool:
        """Whether the gang is among those that get a planned start; one that had one keeps it."""
        return had is not None or gang.uid in self.broken or self._counts.allow(gang)

    def change(self, gang: Gang, start: int) -> Int64s:
        """The least change of the trial's columns from that moment until the gang ends; shape (resources, nodes)."""
        found = self._lowest(gang, start)
        return np.zeros_like(self._trial.free) if found is None else found

    def places(self, gang: Gang, key: SchedulingKey, start: int) -> list[Placement] | None:
        """Where the gang goes if it starts then, beside all plans, empty where it does not fit; None where that takes
        a trial.
        """
        if self._reserved is not None or not is_plain(gang, key, self._trial):
            return None
        if start <= self._now and self._timeline.lacks_twice:
            return None
        ((column, pods),) = key.groups
        return self._timeline.steps(column).place(pods, start, end_of(gang, start))

    def still_fits(self, gang: Gang, key: SchedulingKey, block: Block) -> bool:
        """Whether the room of a plan that the gang had is what it asks for, and there and paid for from that moment."""
        allowed = np.logical_or.reduce([column.mask for column, _ in key.groups])[block.room.rows]
        return is_of(block, key) and bool(allowed.all()) and self._is_there(gang, block)

    def _is_there(self, gang: Gang, block: Block) -> bool:
        """Whether the room of a plan, which is not laid, is free and paid for from its moment until the gang ends."""
        rows, amounts = block.room.rows, block.room.amounts
        if self._reserved is None:
            change = self._timeline.lowest_on(rows, block.at, end_of(gang, block.at))
        else:
            change = self.change(gang, block.at)[:, rows]
        left = self._trial.free[:, rows] + change
        return bool(np.all((left >= amounts) | (amounts == 0))) and self.charges.affords(block, laid=False)

    def later(self, gang: Gang) -> list[Block]:
        """The plans on the timeline that are later than the one that the gang had, of gangs of its queue's priority
        that have not had their turn.
        """
        moments, at = self.moments, (self.moments[gang.uid], gang.created)
        later = (one for owner, one in self._before.items() if (moments[owner], self.gangs[owner].created) >= at)
        return [block for block in later if block.rank == self._rank and block.owner in self._timeline.blocks]

    def stands(self, block: Block) -> bool:
        """Whether a plan that is laid has its room, from its moment until its gang ends, on nodes that take it."""
        selector, rows = self._view.queues[block.queue].spec.node_selector, block.room.rows
        masks = [self._trial.column(selector, one).mask[rows] for one in {one.pod_class for one in block.reserved}]
        self._timeline.drop(block.owner)
        there = bool(np.logical_or.reduce(masks).all()) and self._is_there(self.gangs[block.owner], block)
        self._timeline.take(block)
        return there

    def lost(self) -> list[Gang]:
        """The gangs of this priority whose plans have lost a node and that have not had their turn."""
        gangs = (self.gangs[owner] for owner in sorted(self._lost))
        return [gang for gang in gangs if self._view.queues[gang.queue].spec.priority == self._rank]

    def put_off(self, gang: Gang, had: Block | None) -> None:
        """The gang has its turn later in this cycle; what was planned for it keeps no room until then."""
        if had is not None:
            self._before[gang.uid] = had
        else:
            self._lost.add(gang.uid)
        self._counts.add(gang)

    def awaits(self, gang: Gang, had: Block) -> None:
        """Pods of the gang are missing: the plan that it had stands until its moment, if its room is there."""
        if had.at > self._now and self._is_there(gang, had):
            self.keep(gang, had, looked=False)

    def keep(self, gang: Gang, block: Block, *, looked: bool = True) -> None:
        """The plan stands: that which the gang had, or a new one; `looked` says that there is no earlier one."""
        block.gang, block.asked = None, asks(gang) if looked else None
        self._timeline.take(block)
        self._stands[gang.uid] = block
        self._counts.add(gang)
        if self._lifted.get(gang.uid) is block:
            del self._lifted[gang.uid]

    def plan(self, gang: Gang, key: SchedulingKey, at: int, placements: Sequence[Placement]) -> Block:
        """The gang is to start then, in these places."""
        block = self.block(gang, at, placements)
        self.keep(gang, block)
        self._acted = True
        column, _ = key.groups[0]
        # What is remembered of a cycle is exact only where less room never helps.
        self._gained |= len(key.groups) > 1 or key.ruled or gang.topology != "None" or column.shuts
        return block

    def block(self, gang: Gang, at: int, placements: Sequence[Placement]) -> Block:
        """The plan of these places from that moment on."""
        rank = self._view.queues[gang.queue].spec.priority
        return Block.of(gang, rank, at, self.end_of(gang, at), placements, self._trial.nodes.names)

    def alike(self, gang: Gang, key: SchedulingKey) -> bool:
        """Whether all pods of the plans on the timeline and of the gang may take each other's places: then `make_way`
        always succeeds. Where room is reserved, not all nodes are alike to all gangs.
        """
        return self._reserved is None and self._kinds.alike(gang, key, self._timeline.blocks.values())

    def blocks(self) -> list[Block]:
        """The plans whose room the gang that has its turn must leave to them."""
        return list(self._timeline.blocks.values())

    def lift(self, blocks: Iterable[Block]) -> None:
        """Take plans off the timeline."""
        for block in blocks:
            self._timeline.drop(block.owner)

    def lay(self, blocks: Iterable[Block]) -> None:
        """Put plans on the timeline."""
        for block in blocks:
            self._timeline.take(block)

    def moved(self, block: Block) -> None:
        """A plan that is on the timeline has these places from now on."""
        self._gained = True
        held = self._stands if block.owner in self._stands else self._before
        held[block.owner] = block
