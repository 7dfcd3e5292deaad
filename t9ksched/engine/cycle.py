"""What the actions of one plan share: the time it is made for, the trial, the ledger, and what is decided so far."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Int64s, Mask, There
from t9ksched.engine.blocks import end_of
from t9ksched.engine.failure_memory import FailureMemory
from t9ksched.engine.kept_quota import KeptQuota
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.members import alike
from t9ksched.engine.memory import Memory
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.pod_affinity import PodAffinityState
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.plan import Assignment, Eviction, Stats, Waiting
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.refill import Refills
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.scheduling_key import SchedulingKey, SchedulingKeys
from t9ksched.engine.starvation import Starving, rules_of
from t9ksched.engine.victims.victim_search import VictimSearch
from t9ksched.engine.view import View
from t9ksched.engine.windows import Windows
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation
from t9ksched.model.volumes import FREE_PREFIX

_SECOND: Final = 1_000_000_000


class Cycle:
    """One cycle in progress.

    Attributes:
        assignments, evictions, holds, short, stats: what is decided so far, as in `Plan`.
        keys: what gangs ask for; `failures` has the answers of those that got nothing.
        scopes: the domain in which a gang's minimum was placed, by uid.
        promised: what gangs were promised when victims were evicted for them, by uid; their queues pay for it.
        refills: room kept for members that gangs lost.
        planned: the starts that are planned; None where the policy plans none.
        starving: gangs that collect room; None where none does.
        advance: what administrators reserved; None where nothing is.
        windows: the start windows of queues.
        lines, waits: the order of gangs in earlier cycles, and what they were told.
        order: which gangs of strict queues might not pass others in earlier cycles.
        waited: whether gangs waited when the latest cycle ended.
    """

    def __init__(
        self,
        view: View,
        policy: Policy,
        now: int,
        memory: Memory,
        trial: Trial,
        advance: ReservedRooms | None,
        reservations: Reservations,
    ) -> None:
        """See `begin`, which makes the last three."""
        self.view = view
        self.policy = policy
        self.now = now
        self._memory = memory
        self.lines, self.waits, self.waited = memory.lines, memory.waits, memory.waited
        self.order = memory.order
        past = memory.failures
        self.trial = trial
        self.ledger = Ledger(view.queues, partial(_total, view, trial))
        self.advance = advance
        profile = self.advance.profile if self.advance is not None else None
        self.keys = SchedulingKeys(self.trial, view.queues, profile)
        self.stats = Stats()
        self.assignments: list[Assignment] = []
        self.short: list[Waiting] = []
        self.evictions: list[Eviction] = []
        self.reserved: list[Reservation] = []
        self._victims: VictimSearch | None = None
        self._victim_queues: dict[str, frozenset[str]] = {}
        self._reach: dict[SchedulingKey, tuple[tuple[int, int], bool]] = {}
        """What `within_reach` said of keys, with the state of the trial then."""
        self._come_free: tuple[int, There] | None = None
        self._refilled: set[str] = set()
        self.scopes: dict[str, Mask] = {}
        self.reservations = reservations
        rooms: dict[int, tuple[object, ...]] = self.reservations.rooms()
        for row, kept in self.advance.rooms().items() if self.advance is not None else ():
            rooms[row] = (*rooms.get(row, ()), *kept)
        self.starving: Starving | None = None
        rules = {name: found for name, state in view.queues.items() if (found := rules_of(state, policy.starvation))}
        if rules:
            quota = KeptQuota(self.ledger, planning=policy.planning is not None)
            self.starving = Starving(view, self.trial, self.keys, rules, now, quota)
        self.failures = FailureMemory(view, self.trial, rooms, self.ledger, policy, past, self.starving, self.advance)
        withheld = partial(_withheld, advance, now)
        self.refills = Refills(view, self.trial, self.reservations, self.ledger, self.failures, withheld)
        self.promised = self._promise()
        self.windows = Windows(view.queues, now)
        self.planned: PlannedStarts | None = None
        if policy.planning is not None:
            self.planned = PlannedStarts(
                view, self.trial, self.ledger, policy, now, memory.plans, self.reservations, self.advance
            )

    @classmethod
    def begin(
        cls,
        view: View,
        policy: Policy,
        now: int,
        memory: Memory,
        meter: Meter,
        pod_affinity: PodAffinityState | None,
    ) -> Work["Cycle"]:
        """A cycle of which the trial lacks what is reserved; that is taken off in slices."""
        trial = Trial(view.nodes, memory.feasibility, policy, pod_affinity, memory.failures.distrust, meter)
        if any(CARDS in state.spec.quota for state in view.queues.values()):
            trial.worths = view.nodes.static.worths
        if policy.packing is not None:
            trial.packing = memory.packing
            memory.packing.begin(trial, policy.packing, view.usual)
        advance: ReservedRooms | None = None
        if view.reserved:
            overdue = now + (policy.planning or Planning()).resolution_seconds * _SECOND
            advance = ReservedRooms(view.reserved, trial, view.expected_ends, now, overdue)
        reservations = Reservations(trial)
        yield from reservations.take(view.reservations, now)
        return cls(view, policy, now, memory, trial, advance, reservations)

    def _promise(self) -> dict[str, dict[str, int]]:
        """What gangs were promised when victims were evicted for them; their queues pay for it from now on."""
        promised = self.reservations.promised()
        if not promised:
            return promised
        owners = (gang for gang in self.view.gangs if gang.uid in promised)
        queues = {gang.uid: gang.queue for gang in owners if gang.queue in self.view.queues}
        promised = {owner: demand for owner, demand in promised.items() if owner in queues}
        together: dict[str, Counter[str]] = {}
        for owner, demand in promised.items():
            together.setdefault(queues[owner], Counter()).update(demand)
        for queue, demands in together.items():
            self.ledger.charge(queue, demands)
        return promised

    def paid(self, demand: Mapping[str, int], placements: Iterable[Placement]) -> Mapping[str, int]:
        """What a queue pays for pods with these places that asked for `demand`: of cards what they may have there."""
        worths = self.trial.worths
        if worths is None or CARDS not in demand:
            return demand
        cards = sum(worths.most_on(one.column.pod_class, one.row) * one.pods for one in placements)
        return {**demand, CARDS: cards}

    def unreserved(self, gang: Gang, groups: Sequence[Group] = ()) -> Reason | None:
        """Why the gang may not use the reservation that it names now; None when it may, and where it names none.
        `groups` are its pods, if it is to be told that they are too many or too large.
        """
        if not gang.reservation:
            return None
        if self.advance is None:
            return explain.reservation_waits(gang, (), False, self.now)
        return self.advance.refusal(gang, groups)

    def withheld(self, gang: Gang) -> Int64s | None:
        """The change of the trial's columns by what administrators reserved from the gang, shape (resources, nodes),
        nowhere positive; None for no change.
        """
        return _withheld(self.advance, self.now, gang)

    def end_of(self, gang: Gang) -> int:
        """When the gang ends at the latest if it starts now."""
        return end_of(gang, self.now) if self.advance is None else self.advance.end_of(gang, self.now)

    def victims(self) -> Work[VictimSearch]:
        """The search for victims; made when it is first needed."""
        if self._victims is None:
            table = yield from self._memory.victims(self.view.running, self.trial)
            yield
            made = VictimSearch(self.view, self.trial, self.ledger, self.policy, self.now, table)
            self.trial.meter.spent += 10 * len(table.row)
            yield
            made.spare(self._refilled)
            self._victims = made
        return self._victims

    def leaving(self, row: int) -> tuple[list[int], list[int]]:
        """What pods hold on a node that were leaving it when the cycle began, and the part of it that is certain to
        come free, by resource; `victims` was asked for.
        """
        assert self._victims is not None
        return self._victims.leaving[:, row].tolist(), self._victims.certain[:, row].tolist()

    def come_free(self) -> There | None:
        """What will be free where pods are leaving when they have left; None where nobody leaves. `victims` was asked
        for.
        """
        assert self._victims is not None
        rows = self._victims.coming_rows()
        if not len(rows):
            return None
        known = self._come_free
        if known is None or known[0] != self.trial.state or known[1].rows is not rows:
            there = There(rows, self.trial.free[:, rows] + self._victims.coming[:, rows])
            known = self._come_free = self.trial.state, there
        return known[1]

    def reach(self, gang: Gang) -> There:
        """What would be free if all were evicted that may be for the gang; `victims` was asked for."""
        assert self._victims is not None
        room = self._victims.at_most(gang)
        rows = np.flatnonzero(room.any(axis=0))
        return There(rows, self.trial.free[:, rows] + room[:, rows])

    def old_enough(self, queues: frozenset[str]) -> Work[int | None]:
        """When the next running gang of these queues that is too young to be a victim is old enough; None where all
        are.
        """
        rules = self.policy.preemption
        return self._memory.old_enough(self.view.running, self.trial, queues, rules.minimum_run_seconds, self.now)

    def victim_queues(self, queue: str) -> frozenset[str]:
        """The queues whose running gangs, whole or in part, the policy may let gangs of this queue evict: no other has
        any that is `eligible` or `yields`.
        """
        if queue not in self._victim_queues:
            queues = self.view.queues
            rank = queues[queue].spec.priority
            running = [name for name in self._memory.queues(self.view.running) if name in queues]
            self._victim_queues[queue] = frozenset(
                name
                for name in running
                if queues[name].spec.preemptible and (name == queue or queues[name].spec.priority < rank)
            )
        return self._victim_queues[queue]

    def victims_matter(self, queue: str) -> bool:
        """Whether the policy may let gangs of this queue evict any, or they may count on room that pods leave."""
        if "preempt" not in self.policy.actions or not self.view.running:
            return False
        return bool(self.victim_queues(queue) or self.evictions or self._memory.leave(self.view.running))

    def within_reach(self, gang: Gang, key: SchedulingKey) -> Work[bool]:
        """Whether victims may make room for the gang at any time: if all has gone that may ever be evicted for it, by
        numbers, each class of its pods alone, and with the room that planned starts need; and while its queue cannot
        pay, some of its own. If not, no victims are found for it, nor does it come to count on what leaves.
        """
        table = yield from self._memory.victims(self.view.running, self.trial)
        rules, queues = self.policy.preemption, self.victim_queues(gang.queue)
        whole = queues if rules.inside_queue else queues - {gang.queue}
        going = table.going(whole, queues - whole if rules.surplus_yields else ())
        # What victims of this cycle leave beside what they were chosen for is for gangs of every queue.
        coming = self._victims.coming if self._victims is not None and self.evictions else None
        if coming is None and gang.queue not in going.queues and self.ledger.can_charge(gang.queue, key.demand):
            return False
        state = self.trial.state, len(self.evictions)
        known = self._reach.get(key)
        if known is None or known[0] != state:
            free = self.trial.free + going.room
            if coming is not None:
                free += np.maximum(coming, 0)
            fits = all(int(column.rooms(free).sum()) >= pods for column, pods in key.groups)
            known = self._reach[key] = state, fits
        return known[1]

    def refilled(self, gang: str) -> None:
        """A gang used the room that was reserved for its refill: it does not come free for other gangs."""
        self._refilled.add(gang)
        if self._victims is not None:
            self._victims.spare({gang})

    def give_up(self, owner: str) -> None:
        """End the reservations of an owner."""
        given_up = self.reservations.give_up(owner)
        for placement in given_up:
            self.failures.moved(placement.row)
        if given_up and self.planned is not None:
            self.planned.look_again()

    def assign(self, gang: Gang, members: Sequence[Member], placements: list[Placement]) -> None:
        """Record the assignments: members of a class take its places in order."""
        static = self.trial.nodes.static
        names, generations = static.names, static.generation
        write, uid = self.assignments.append, gang.uid
        if alike(members):
            turns = {id(placements[0].column): iter(members)}
        else:
            turns = {id(column): iter(those) for column, those in self.keys.by_class(gang.queue, members)}
        for column, row, pods, shares, _ in placements:
            self.failures.moved(row)
            those = turns[id(column)]
            node, generation = names[row], generations[row]
            if not shares:
                for member in islice(those, pods):
                    write(Assignment(uid, member.uid, node, generation))
                continue
            written = column.written_on(row)
            for member, share in zip(islice(those, pods), shares, strict=True):
                cards, grant = written[share]
                write(Assignment(uid, member.uid, node, generation, cards, grant))
        self.stats.pods += len(members)
        if self.advance is not None:
            self.advance.started(gang, placements)


def _total(view: View, trial: Trial, queue: str) -> dict[str, int]:
    """What there is of each resource on the nodes that the queue may use."""
    totals = trial.feasibility.total(view.queues[queue].spec.node_selector).tolist()
    found = dict(zip(trial.nodes.static.resources, totals, strict=True))
    # No queue is charged for free volumes, so they are no part of a share.
    return {name: amount for name, amount in found.items() if not name.startswith(FREE_PREFIX)}


def _withheld(advance: ReservedRooms | None, now: int, gang: Gang) -> Int64s | None:
    return None if advance is None else advance.change(gang, now)
