"""Gangs that wait on, because nothing changed that they wait for: they are told so without a turn.

Of thousands of gangs that found no room in earlier cycles most would be told the same again. `PastWaits` says which, by
kind; what it says is what a turn would say. Where it says nothing, or more than room, quota and victims decides, the
gang has its turn, and what that finds is kept. A cycle that plans starts has another way (`passed_over.py`).
"""

from collections.abc import Collection
from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.actions.learning import Learning, signature_of
from t9ksched.engine.actions.preempt import Preempt
from t9ksched.engine.actions.promised_again import PromisedAgain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.failure_memory import Answer
from t9ksched.engine.members import chosen
from t9ksched.engine.order import Line
from t9ksched.engine.past_waits import PastWaits
from t9ksched.engine.plan import Waiting
from t9ksched.engine.told_lines import ToldLine
from t9ksched.engine.wait_kinds import Kind, Limits, Reasons, hopeless
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang

_A_GANG: Final = 50
"""Units of work to tell a gang."""
_A_LOOK: Final = 500
"""Units of work to find out what gangs of a kind are told."""
_A_PROMISE: Final = 3_000
"""Units of work to tell a gang that waits for its victims."""
_A_REASON: Final = 1_000
"""Units of work to compose a reason."""
_A_STEP: Final = 50_000
"""After so many units of work others may have their turn."""
_FOLLOWED: Final = 100
"""So often the numbers of all kinds are brought up to date in a cycle; gangs that wait then have their turns."""


class ToldAgain:
    """Tells gangs, in one cycle."""

    def __init__(self, cycle: Cycle, preempt: Preempt | None) -> None:
        self._cycle = cycle
        self._preempt = preempt
        self._past: PastWaits = cycle.waits
        self._followed = 0
        self._limits: dict[str, tuple[int, Limits]] = {}
        """What queues may have and have, with the version of the ledger that says so."""
        self._state = -1
        reservations = cycle.reservations
        self._holders = reservations.of, reservations.missing, cycle.promised, cycle.refills.paid
        """What is kept for which gangs, by UID."""
        self._begin()
        self.number = self._past.cycle
        self.promised = PromisedAgain(cycle, self)
        self.learning = Learning(cycle, self)

    @classmethod
    def of(cls, cycle: Cycle, preempt: Preempt | None) -> "ToldAgain | None":
        """None where more than room, quota and victims counts: plans, plugins, cards of several kinds."""
        if cycle.planned is not None or cycle.policy.plugins:
            return None
        if len(cycle.trial.nodes.static.card_kinds) > 1 or not len(cycle.trial.nodes):
            return None
        return cls(cycle, preempt)

    def _begin(self) -> None:
        cycle, past, failures = self._cycle, self._past, self._cycle.failures
        past.begin(
            cycle.trial,
            cycle.policy,
            {name: state.spec for name, state in cycle.view.queues.items()},
            failures.past.cycle,
            len(cycle.view.gangs),
            cycle.reservations.of,
            cycle.advance.profiles if cycle.advance is not None else (),
        )
        past.note(failures.past.changed)

    def told(self, line: Line, staying: list[Waiting]) -> Work[None]:
        """Gangs at the head of a queue's line that wait on, taken out of it, with why each does.

        It ends at the first of which that is not known without its turn; it is the turn of their queue.
        """
        cycle, past, starving = self._cycle, self._past, self._cycle.starving
        if not line or past.cycle != self.number or not self.looks_up(line.best().queue):
            return
        queue = line.best().queue
        if not self.follow():
            return
        evicts = self._preempt is not None and cycle.victims_matter(queue)
        source = line.source if not staying and not (starving is not None and starving.collected) else None
        if evicts and cycle.advance is not None:
            source = None  # for each that ends earlier than those before it victims are looked for
        if source is not None and (yield from self._as_before(line, queue, staying, evicts=evicts)):
            return
        past.lines.pop(queue, None)
        kinds, of = yield from self._one_by_one(line, staying, evicts=evicts)
        if source is not None and not line and len(of) == len(staying) and past.cycle == self.number:
            known = yield from ToldLine.made(source, kinds, of, staying.copy(), self.number, cycle.trial.meter)
            if past.cycle == self.number:
                known.begin()
                known.limits = self._limits_of(queue)
                past.lines[queue] = known

    def _as_before(self, line: Line, queue: str, staying: list[Waiting], *, evicts: bool) -> Work[bool]:
        """Tell a whole line what it was told in the latest cycle, but for the kinds that may be told otherwise."""
        cycle, past = self._cycle, self._past
        known = past.lines.get(queue)
        if known is None or known.source is not line.source:
            return False
        if any(not known.uids.isdisjoint(those) for those in self._holders):
            return False
        if evicts:
            assert self._preempt is not None
            if self._preempt.expects(queue) or cycle.victim_queues(queue):
                return False
            yield from cycle.victims()  # a turn would have had the ledger told which pods leave
        limits = self._limits_of(queue)
        known.follow()
        looked = dict(known.moved) if known.limits == limits else dict.fromkeys(known.kinds)
        if evicts and (there := cycle.come_free()) is not None:
            looked.update(dict.fromkeys(known.helped(there)))
        if held := cycle.reservations.held:
            looked.update(dict.fromkeys(known.helped(held.if_free())))
        if not (yield from self._look_again(known, looked, evicts=evicts)) or past.cycle != self.number:
            return False
        known.limits, known.cycle = limits, self.number
        # All of the line is told, so there is none left that an answer to its kind would be for.
        staying += known.told
        line.clear()
        stats = cycle.stats
        stats.judged += len(staying)
        stats.alike += known.alike
        stats.tried += known.tried
        if evicts:
            stats.searched += known.searched
        cycle.failures.past.spared += known.tried
        return True

    def _look_again(self, known: ToldLine, kinds: Collection[Kind], *, evicts: bool) -> Work[bool]:
        """Find out what these kinds of a line are told; false if that is not known of all."""
        work = 0
        for kind in kinds:
            work += _A_LOOK if kind.is_told else _A_REASON
            told = self._told_by_numbers(kind, evicts=evicts)
            if not told:
                return False
            kind.cycle = self.number
            if told != known.kinds[kind]:
                known.tell(kind, told)
            if work >= _A_STEP:
                self._cycle.trial.meter.spent += work
                work = 0
                yield
        self._cycle.trial.meter.spent += work
        known.looked_at(kinds)
        return True

    def _told_by_numbers(self, kind: Kind, *, evicts: bool) -> Reasons:
        """What gangs of the kind are told if no other of the same was asked in this cycle, and no victims may be found
        for them; empty where that is not known.
        """
        if not kind.valid:
            return ()
        if self.is_short(kind):
            assert kind.over_quota is not None
            return (kind.over_quota, *self.lacks(kind)) if kind.counted or kind.fixed else ()
        told = self.no_room(kind)
        if told and evicts and not hopeless(told) and not self._waits_for_none_to_leave(kind):
            return ()
        return told

    def _one_by_one(
        self, line: Line, staying: list[Waiting], *, evicts: bool
    ) -> Work[tuple[dict[Kind, Reasons], list[Kind | None]]]:
        """Tell the gangs at the head of the line as far as that is known; returns their kinds, with what was told, and
        of which each gang is that waits for no victims; None for one whose members are too few.
        """
        cycle, of, left = self._cycle, self._past.of, line.left
        claims = cycle.starving if cycle.starving is not None and cycle.starving.collected else None
        kinds: dict[Kind, Reasons] = {}
        of_each: list[Kind | None] = []
        write, alike, first, work = staying.append, 0, len(staying), 0
        any_holds, met_victims = any(self._holders), False
        line.begin()
        while left:
            gang = left[-1]
            if claims is not None and claims.has(gang):
                break
            if any_holds and self.holds(gang.uid):
                if evicts and not met_victims:
                    yield from cycle.victims()
                    met_victims = True
                if not (told := (yield from self.promised.told(gang))):
                    break
                left.pop()
                write(Waiting(gang.uid, told, len(staying) + 1))
                work += _A_PROMISE
                if work >= _A_STEP:
                    cycle.trial.meter.spent += work
                    work = 0
                    yield
                continue
            kind = of(gang, None) or self._met(gang)
            if kind is None:
                if not (told := _short(gang)):
                    break
            elif (told := kinds.get(kind, ())) and not evicts:
                alike += 1
            else:
                if evicts and not met_victims:
                    yield from cycle.victims()  # a turn would have had the ledger told which pods leave
                    met_victims = True
                work += _A_LOOK if kind.is_told else _A_REASON
                told = self._reasons(kind, gang, evicts=evicts)
                if not told:
                    break
                kinds[kind] = told
            left.pop()
            of_each.append(kind)
            write(Waiting(gang.uid, told, len(staying) + 1))
            work += _A_GANG
            if work >= _A_STEP:
                cycle.trial.meter.spent += work
                work = 0
                yield
        cycle.stats.alike += alike
        cycle.stats.judged += len(staying) - first
        cycle.trial.meter.spent += work
        return kinds, of_each

    def holds(self, gang: str) -> bool:
        """Whether room or quota is kept for the gang: what is true of others that ask for as much is not true of it."""
        of, missing, promised, paid = self._holders
        return gang in of or gang in missing or gang in promised or gang in paid

    def kind_of(self, gang: Gang) -> Kind | None:
        """The kind of a gang, with what is true of it now; None where that is not known."""
        return self._past.of(gang, None) or self._met(gang)

    def looks_up(self, queue: str) -> bool:
        spec = self._cycle.view.queues[queue].spec
        return not (spec.closed or spec.start_windows) and spec.ordering != "Strict"

    def follow(self) -> bool:
        """Bring the numbers up to the room that is free now. Returns whether they are."""
        cycle, trial, past = self._cycle, self._cycle.trial, self._past
        rows = cycle.failures.take_moved()
        if self._state == trial.state and not rows:
            return self._followed <= _FOLLOWED
        self._followed += 1
        if self._followed > _FOLLOWED:
            return False
        past.note(rows)
        starving = cycle.starving
        if starving is not None and starving.kept:
            # What is kept for gangs that collect room is part of what others are told.
            past.change(trial.free, only_room=False)
        elif self._state < 0 or (starving is not None and starving.collected):
            past.change(trial.free)
        else:
            past.change_noted(trial.free)
        self._state = trial.state
        return True

    def _met(self, gang: Gang) -> Kind | None:
        """The kind of a gang that is new."""
        signature = signature_of(gang, self._cycle)
        return None if signature is None else self._past.of(gang, signature)

    def _reasons(self, kind: Kind, gang: Gang, *, evicts: bool) -> Reasons:
        """What the gang is told; empty where its turn is needed."""
        cycle = self._cycle
        answer = cycle.failures.answer_to(kind.ident)
        kind.cycle = self.number
        ends = self._end_of(gang)
        over_quota = answer.over_quota
        if not over_quota and self.is_short(kind):
            if answer.no_room or not (kind.counted or kind.fixed):
                return ()
            assert kind.over_quota is not None
            over_quota = (kind.over_quota, *self.lacks(kind))
        if over_quota:
            if evicts and not self._finds_no_victims(kind, gang, answer, over_quota, paid=False):
                return ()
            cycle.stats.alike += bool(answer.over_quota)
            answer.over_quota = over_quota
            return over_quota
        answered = answer.no_room if ends >= answer.from_end else ()
        if cycle.advance is not None and answered not in ((), self.no_room(kind)):
            return ()  # what is reserved from a gang is not told to others that end earlier
        no_room = answered or self.no_room(kind)
        if not no_room or (evicts and not self._finds_no_victims(kind, gang, answer, no_room, paid=True)):
            return ()
        if answered:
            cycle.stats.alike += 1
        else:
            cycle.stats.tried += 1
            cycle.failures.past.spared += 1
            answer.no_room, answer.from_end = no_room, 0
        return no_room

    def lacks(self, kind: Kind) -> Reasons:
        """What a gang of the kind lacks by numbers alone, which are known."""
        return kind.lacks() if kind.counted else kind.told

    def no_room(self, kind: Kind) -> Reasons:
        """Why there is no room for the kind; empty where its turn says so."""
        found = kind.no_room()
        held = self._cycle.reservations.held
        if not found or not held or kind.fixed or not kind.counted or self.fits_if_none_is_held(kind) < kind.pods:
            return found
        if not kind.alone:
            return ()
        others, kinds = held.others("", (kind.shared.mask,))
        return (explain.held_for_other(kinds, others), *found) if others else found

    def fits_if_none_is_held(self, kind: Kind) -> int:
        """How many pods of the kind would fit by numbers if no room was held for anybody."""
        there = self._cycle.reservations.held.if_free()
        if kind.unheld is None or kind.unheld[0] is not there:
            kind.unheld = there, kind.fit_if(there)
        return kind.unheld[1]

    def is_short(self, kind: Kind) -> bool:
        """Whether the queue of the kind cannot pay for it."""
        cycle = self._cycle
        limits = self._limits_of(kind.queue)
        if kind.limits != limits:
            short = cycle.ledger.can_charge(kind.queue, kind.demand)
            kind.limits, kind.over_quota = limits, explain.quota_exceeded(short, kind.fewest) if short else None
        return kind.over_quota is not None

    def _limits_of(self, queue: str) -> Limits:
        """What the queue may have and has."""
        ledger = self._cycle.ledger
        known = self._limits.get(queue)
        if known is None or known[0] != ledger.version:
            known = self._limits[queue] = ledger.version, tuple(ledger.limits(queue))
        return known[1]

    def _finds_no_victims(self, kind: Kind, gang: Gang, answer: Answer, reasons: Reasons, *, paid: bool) -> bool:
        """Whether no victims are found for the gang; false where that is not known."""
        if hopeless(reasons):
            return True
        cycle, ends = self._cycle, self._end_of(gang)
        if answer.no_victims and ends >= answer.victims_from_end:
            return not (cycle.policy.preemption.inside_queue and gang.priority > answer.victims_priority)
        assert self._preempt is not None
        if self._preempt.expects(kind.queue):
            return False
        if not cycle.victim_queues(kind.queue):
            found = not paid or self._waits_for_none_to_leave(kind)
        else:
            found = paid and not cycle.policy.preemption.minimum_run_seconds
            found = found and kind.searched == (cycle.failures.past.scene, gang.priority, kind.shared.changed)
        if found:
            cycle.stats.searched += 1
            answer.found_no_victims(gang, ends)
        return found

    def _end_of(self, gang: Gang) -> int:
        """When the gang would end, where that may be part of what it is told."""
        return self._cycle.end_of(gang) if self._cycle.advance is not None else 0

    def _waits_for_none_to_leave(self, kind: Kind) -> bool:
        """Whether by numbers there will be too little room when all pods are gone that are leaving."""
        cycle = self._cycle
        if not kind.counted:
            return False
        there = cycle.come_free()
        return there is None or kind.fit_if(there) < kind.pods


def _short(gang: Gang) -> Reasons:
    """Why a gang waits whose members are too few, whatever else there is; empty for any other."""
    if gang.placed or gang.refilling or gang.reservation or chosen(gang)[2]:
        return ()
    return explain.members_short(gang)
