"""Preemption for a gang that found no room: chooses victims and promises their room to the gang."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import ClassVar, Final

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Turn
from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.cards import Share
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.ledger import Shortfall
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.plan import Eviction
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.promised_rooms import leave_within
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.victims.field import Choice
from t9ksched.engine.victims.victim_search import VictimSearch
from t9ksched.engine.view import QueueState
from t9ksched.engine.wait_kinds import hopeless
from t9ksched.engine.work import Work
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Gang, Running, RunningPod
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS, Reservation, ReservationKind

_MOST_SPARED: Final = 8
"""Of more victims with known ends none is looked at again."""
_SECOND: Final = 1_000_000_000


class Preempt:
    """The action `preempt`."""

    needs: ClassVar[str] = "preempt"

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._expected: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Demand by queue of gangs that need no victims, because room comes free without."""
        self._going: dict[str, frozenset[str]] = {}

    def attempt(self, turn: Turn) -> Work[bool]:
        """Choose victims for the gang, promise it their room, and write that as its reason; or leave the reasons as
        they are.

        A gang that may pass nothing in its strict queue takes no room from others either.
        """
        if turn.behind or not self._cycle.victims_matter(turn.gang.queue):
            return False
        preempted = self._cycle.stats.preempted
        turn.reasons = yield from self._preempt(turn.gang, turn.key, turn.reasons)
        return self._cycle.stats.preempted > preempted

    def expects(self, queue: str) -> bool:
        """Whether a gang of this queue counts on room that comes free without victims of its own."""
        return queue in self._expected

    def _preempt(self, gang: Gang, key: SchedulingKey, reasons: tuple[Reason, ...]) -> Work[tuple[Reason, ...]]:
        cycle = self._cycle
        answer = cycle.failures.answer(key)
        holder = gang.uid in cycle.reservations.of  # needs fewer victims than one like it
        planned = cycle.planned if cycle.planned is not None and cycle.planned.any else None
        ends = 0
        if planned is not None or cycle.advance is not None:
            ends = planned.end_of(gang, cycle.now) if planned is not None else cycle.end_of(gang)
        known = answer.no_victims and ends >= answer.victims_from_end
        # One with a plan has its turn before those of its queue with a larger priority.
        known = known and not (cycle.policy.preemption.inside_queue and gang.priority > answer.victims_priority)
        if (known and not holder) or hopeless(reasons):
            return reasons
        if cycle.unreserved(gang) is not None:
            return reasons
        if planned is not None and not planned.pays(gang, key.demand, leave_within(0)):
            return reasons
        victims = yield from cycle.victims()  # tells the ledger which pods leave already
        changes = [(None, cycle.withheld(gang))] if planned is None else self._changes(planned, gang, key, victims)
        if not changes:
            return reasons
        demand = self._expected[gang.queue] + Counter(key.demand) if gang.queue in self._expected else key.demand
        short = cycle.ledger.can_charge(gang.queue, demand, staying=True)
        cycle.stats.searched += 1
        # With a minimum run time, time alone makes victims; a quota that is short changes with every charge.
        timed = bool(cycle.policy.preemption.minimum_run_seconds)
        lasts = not (short or timed or holder or (planned is not None and any(one is not None for _, one in changes)))
        if lasts and cycle.failures.is_known_to_fail(gang, key):
            answer.found_no_victims(gang, ends)
            return reasons
        cycle.failures.past.searched += 1
        trial = cycle.trial
        mark = trial.mark()
        for placement in cycle.reservations.of.get(gang.uid, ()):
            trial.release(placement)
        gave_up = False
        for grace, taken in changes:
            states = trial.shift(taken) if taken is not None else (0, 0)
            choice = yield from victims.choose(gang, key.groups, short, ruled=key.ruled, grace=grace)
            if taken is not None:
                trial.unshift(taken, states)
            gave_up |= victims.gave_up
            if choice is not None or victims.expected is not None:
                break
        if choice is not None and planned is not None and taken is not None:
            choice = yield from self._spared(planned, gang, key, short, (choice, taken))
        if choice is None:
            trial.undo(mark)
            if not (key.ruled or holder) and victims.expect():
                self._expected[gang.queue].update(key.demand)
                return reasons  # gangs alike are asked anew: that room is expected by this one
            if not holder:
                answer.found_no_victims(gang, ends)
            if lasts and not (
                cycle.evictions or victims.expecting
            ):  # victims may be spared and waiting gangs may be gone by then
                cycle.failures.note_failed_search(gang, key)
            return (*reasons, explain.victims_not_found()) if gave_up else reasons
        if choice.victims and cycle.now < gang.evicts_from:
            trial.undo(mark)
            return (explain.evicts_later(gang.evicts_from), *reasons)
        cycle.give_up(gang.uid)
        grace = victims.leaves_in(choice)
        victims.take(choice)
        self._evict(gang, key, choice, cycle.now + leave_within(grace) + PROMISE_SLACK_SECONDS * _SECOND)
        cycle.ledger.charge(gang.queue, key.demand)
        trial.commit()
        cycle.stats.preempted += 1
        if cycle.planned is not None:
            places = [
                Placement(column, row, count, tuple(shares.get(row, ())), held=True)
                for column, rows, counts, shares in choice.places
                for row, count in zip(rows.tolist(), counts.tolist(), strict=True)
            ]
            cycle.planned.promised.follow(victims)
            cycle.planned.promised.promise(gang, places, grace)
            cycle.planned.look_again()
        jobs = len(set(map(id, map(itemgetter(0), choice.victims))))
        return (explain.waiting_for_victims(len(choice.victims), jobs), *reasons)

    def _changes(
        self, planned: PlannedStarts, gang: Gang, key: SchedulingKey, victims: VictimSearch
    ) -> list[tuple[int | None, Int64s | None]]:
        """The limits of the grace of victims to search with, in this order, each with the change of the trial's columns
        by plans that the gang would be in the way of if it starts when such victims have left.
        """
        going = self._may_go(gang.queue) | victims.gangs_going()
        found: list[tuple[int | None, Int64s | None]] = []
        for nth, grace in enumerate(victims.graces(gang)):
            delay = leave_within(grace)
            if not planned.pays(gang, key.demand, delay):
                continue
            taken = planned.taken_from(gang, going, delay)
            # With all that is free for it a search without that limit finds all.
            before = found[-1][1] if found else None
            if not found or (taken is not None and before is not None and not np.array_equal(taken, before)):
                found.append((grace if nth else None, taken))
        return found

    def _spared(
        self,
        planned: PlannedStarts,
        gang: Gang,
        key: SchedulingKey,
        short: Sequence[Shortfall],
        found: tuple[Choice, Int64s],
    ) -> Work[Choice]:
        """The choice that was found with that change of the columns, without victims that go only because plans count
        on their ends: the search takes it that no candidate ends by itself, and one that stays does.
        """
        cycle = self._cycle
        choice, taken = found
        victims = yield from cycle.victims()
        queues = cycle.view.queues
        chosen = {one.uid: one for one, _ in choice.victims}
        ends = {one.gang for one in cycle.view.expected_ends if one.gang in chosen}
        if len(chosen) < 2 or len(ends) > _MOST_SPARED:
            return choice
        order = sorted(ends, key=lambda uid: (-queues[chosen[uid].queue].spec.priority, -chosen[uid].priority, uid))
        for uid in order:
            going = frozenset(one.uid for one, _ in choice.victims if one.uid != uid) | victims.gangs_going()
            change = planned.taken_from(gang, going, leave_within(victims.leaves_in(choice)))
            if change is None or np.array_equal(change, taken):
                continue
            states = cycle.trial.shift(change)
            rest = choice.without(uid)
            fewer = yield from victims.choose(gang, key.groups, short, ruled=key.ruled, among=rest)
            cycle.trial.unshift(change, states)
            if fewer is not None:
                choice, taken = fewer, change
        return choice

    def _may_go(self, queue: str) -> frozenset[str]:
        """The running gangs, by UID, of which members may be evicted for a gang of this queue: planned starts may not
        rely on the ends of its victims, whose room it will have.
        """
        if queue not in self._going:
            queues = self._cycle.victim_queues(queue)
            self._going[queue] = frozenset(group.uid for group in self._cycle.view.running if group.queue in queues)
        return self._going[queue]

    def _evict(self, gang: Gang, key: SchedulingKey, choice: Choice, until: int) -> None:
        """Record the evictions and reserve the room until that moment at the latest. On the trial the room is taken
        twice until the victims are gone.
        """
        cycle = self._cycle
        queues, names = cycle.view.queues, cycle.trial.nodes.names
        spec = queues[gang.queue].spec
        whys = _Whys(gang, queues, key.groups, choice)
        uid = gang.uid
        cycle.refills.leave(running.uid for running, _ in choice.victims)
        cycle.evictions += [Eviction(group.uid, pod.uid, uid, why) for group, pod, why in whys.of(choice.victims)]
        for column, rows, counts, shares in choice.places:
            cycle.failures.moved(rows)
            cycle.reservations.promise(column, rows, counts, shares)
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                reservation = Reservation(
                    gang.uid,
                    names[row],
                    column.pod_class,
                    ReservationKind.VICTIMS,
                    rank=spec.priority,
                    since=cycle.now,
                    until=until,
                )
                if row in shares:
                    grants = [column.grant(row, share) for share in shares[row]]
                    cycle.reserved += [replace(reservation, cards=grant) for grant in grants]
                else:
                    cycle.reserved += [reservation] * count
            self._occupy(column, rows, counts, shares)

    def _occupy(self, column: ClassFit, rows: Indices, counts: Int64s, shares: Mapping[int, Sequence[Share]]) -> None:
        """Take the room on the trial; of cards by index only those that are divided."""
        trial = self._cycle.trial
        for row, those in shares.items():
            for share in those:
                trial.occupy(column, row, column.grant(row, share))
        if shares:
            others = ~np.isin(rows, list(shares))
            rows, counts = rows[others], counts[others]
        if column.shuts:
            for row in np.repeat(rows, counts).tolist():
                trial.occupy(column, row, NO_CARDS)
        elif len(rows):
            trial.place_many(column, rows, counts, held=True)


class _Whys:
    """The messages for the owners of victims; those of a kind have the same, which is written once."""

    def __init__(self, gang: Gang, queues: Mapping[str, QueueState], groups: Sequence[Group], choice: Choice) -> None:
        self._gang = gang
        self._queues = queues
        self._groups = groups
        self._whole = choice.whole(gang.queue)
        self._written: dict[tuple[str, int | None], str] = {}

    def of(self, victims: Iterable[tuple[Running, RunningPod]]) -> Iterator[tuple[Running, RunningPod, str]]:
        """Each victim with its message. The priority of a gang counts only inside the preemptor's own queue."""
        own, whole, written = self._gang.queue, self._whole, self._written
        for group, pod in victims:
            inside = group.queue == own and group.uid in whole
            kind = group.queue, group.priority if inside else None
            if kind not in written:
                written[kind] = self._message(group, whole=inside)
            yield group, pod, written[kind]

    def _message(self, victim: Running, *, whole: bool) -> str:
        ours, theirs = self._queues[self._gang.queue].spec, self._queues[victim.queue].spec
        return explain.evicted_for(self._gang, ours, self._groups, victim, theirs, whole=whole)
