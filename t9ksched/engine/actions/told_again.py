"""Gangs that wait on, because nothing changed that they wait for: they are told so without a turn.

Of thousands of gangs that found no room in earlier cycles most would be told the same again. `PastWaits` says which, by
kind; what it says is what a turn would say. Where it says nothing, or more than room, quota and victims decides, the
gang has its turn, and what that finds is kept. A cycle that plans starts has another way (`passed_over.py`).
"""

from collections.abc import Collection
from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.actions.collecting_again import CollectingAgain
from t9ksched.engine.actions.learning import Learning, signature_of
from t9ksched.engine.actions.no_victims import NoVictims, end_that_counts
from t9ksched.engine.actions.others_room import OthersRoom
from t9ksched.engine.actions.preempt import Preempt
from t9ksched.engine.actions.promised_again import PromisedAgain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.members import chosen
from t9ksched.engine.order import Line
from t9ksched.engine.past_waits import PastWaits
from t9ksched.engine.plan import Waiting
from t9ksched.engine.starvation import Starving
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
_A_CLAIM: Final = 10_000
"""Units of work to tell a gang that collects room."""
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
        self._open: dict[str, bool] = {}
        """What `looks_up` said of queues."""
        reservations = cycle.reservations
        self._holders = reservations.of, reservations.missing, cycle.promised, cycle.refills.paid
        """What is kept for which gangs, by UID."""
        self._begin()
        self.number = self._past.cycle
        self.no_victims = NoVictims(cycle, preempt)
        self.room = OthersRoom(cycle)
        self.promised = PromisedAgain(cycle, self)
        self.collecting = CollectingAgain(cycle, self)
        self.learning = Learning(cycle, self)

    @classmethod
    def of(cls, cycle: Cycle, preempt: Preempt | None) -> "ToldAgain | None":
        """None where more than room, quota, victims and plans counts: plugins."""
        if cycle.policy.plugins or not len(cycle.trial.nodes):
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
        if not line or not self.looks_up(line.best().queue):
            return
        queue = line.best().queue
        if not self.follow():
            return
        evicts = self._preempt is not None and cycle.victims_matter(queue)
        source = line.source if not staying else None
        if evicts and (cycle.advance is not None or (starving is not None and starving.collected)):
            source = None  # victims are looked for, for each that ends earlier than those before it or collects room
        if source is not None and (yield from self._as_before(line, queue, staying, evicts=evicts)):
            return
        past.lines.pop(queue, None)
        kinds, of, own = yield from self._one_by_one(line, staying, evicts=evicts)
        if source is not None and not line and len(of) == len(staying) and self.is_latest:
            known = yield from ToldLine.made(source, kinds, of, staying.copy(), self.number, cycle.trial.meter)
            if self.is_latest:
                known.begin()
                known.limits, known.collecting = self._limits_of(queue), own
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
        own = self.collecting.all_told(queue, known.collecting)
        if own is None:
            return False
        if own:
            cycle.trial.meter.spent += _A_CLAIM * len(own)
            yield
        limits = self._limits_of(queue)
        known.follow()
        looked = dict(known.moved) if known.limits == limits else dict.fromkeys(known.kinds)
        if evicts and (there := cycle.come_free()) is not None:
            looked.update(dict.fromkeys(known.helped(there)))
        looked.update(dict.fromkeys(known.beside))
        if held := cycle.reservations.held:
            looked.update(dict.fromkeys(known.helped(held.if_free())))
        if self.room.kept:
            looked.update(dict.fromkeys(known.helped(self.room.if_none_is_kept())))
        if not (yield from self._look_again(known, looked, evicts=evicts)) or not self.is_latest:
            return False
        known.limits, known.cycle = limits, self.number
        for uid, told in own.items():
            known.tell_collecting(uid, told)
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
        self.collecting.count(own.values())
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
        told = self.room.no_room(kind)
        if told and evicts and not hopeless(told) and not self.no_victims.waits_for_none_to_leave(kind):
            return ()
        return told

    def _one_by_one(
        self, line: Line, staying: list[Waiting], *, evicts: bool
    ) -> Work[tuple[dict[Kind, Reasons], list[Kind | None], dict[str, int]]]:
        """Tell the gangs at the head of the line as far as that is known; returns their kinds, with what was told; of
        which each gang is that waits for no victims, None for one whose members are too few or that collects room; and
        the positions of these last ones.
        """
        cycle, of, left = self._cycle, self._past.of, line.left
        claims = cycle.starving if cycle.starving is not None and cycle.starving.collected else None
        kinds: dict[Kind, Reasons] = {}
        of_each: list[Kind | None] = []
        own: dict[str, int] = {}
        told_own: list[Reasons] = []
        write, alike, first, work = staying.append, 0, len(staying), 0
        any_holds, met_victims = any(self._holders), False
        line.begin()
        while left:
            gang = left[-1]
            kind: Kind | None = None
            is_own = (claims is not None and claims.has(gang)) or (any_holds and self.holds(gang.uid))
            if not is_own:
                kind = of(gang, None) or self._met(gang)
            if evicts and not met_victims and (is_own or kind is not None):
                yield from cycle.victims()  # a turn would have had the ledger told which pods leave
                met_victims = True
            if is_own:
                told = yield from self._of_its_own(gang, claims, evicts=evicts)
                work += _A_CLAIM if claims is not None and claims.has(gang) else _A_PROMISE
            elif kind is None:
                told = _short(gang)
            elif (told := kinds.get(kind, ())) and not evicts:
                alike += 1
            else:
                work += _A_LOOK if kind.is_told else _A_REASON
                told = self._reasons(kind, gang, evicts=evicts)
                kinds[kind] = told
            if not told:
                break
            left.pop()
            if claims is not None and claims.has(gang):
                own[gang.uid] = len(of_each)
                of_each.append(None)
                told_own.append(told)
            elif not is_own:
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
        self.collecting.count(told_own)
        return kinds, of_each, own

    def _of_its_own(self, gang: Gang, claims: Starving | None, *, evicts: bool) -> Work[Reasons]:
        """What a gang is told for which room is kept; empty where its turn is needed."""
        if claims is not None and claims.has(gang):
            return self.collecting.told(gang, claims, evicts=evicts)
        return (yield from self.promised.told(gang))

    @property
    def is_latest(self) -> bool:
        """Whether no other cycle has begun since, for which the numbers are others."""
        return self._past.cycle == self.number

    def holds(self, gang: str) -> bool:
        """Whether room or quota is kept for the gang: what is true of others that ask for as much is not true of it."""
        of, missing, promised, paid = self._holders
        return gang in of or gang in missing or gang in promised or gang in paid

    def kind_of(self, gang: Gang) -> Kind | None:
        """The kind of a gang, with what is true of it now; None where that is not known."""
        return self._past.of(gang, None) or self._met(gang)

    def looks_up(self, queue: str) -> bool:
        """Whether gangs of the queue are told without a turn: it is open, and its order is no promise."""
        found = self._open.get(queue)
        if found is None:
            spec = self._cycle.view.queues[queue].spec
            found = not (spec.closed or spec.ordering == "Strict" or self._cycle.windows.closed(queue))
            self._open[queue] = found
        return found

    def follow(self) -> bool:
        """Bring the numbers up to the room that is free now. Returns whether they are: not once they are those of a
        cycle that began later.
        """
        if not self.is_latest:
            return False
        cycle, past, free = self._cycle, self._past, self._cycle.trial.free
        past.note(cycle.failures.take_moved())
        if not self._followed:
            past.note_if_changed(free)
        if cycle.starving is not None:
            past.note_if_changed(free, cycle.starving.take_shifted())
        if past.has_noted or not self._followed:
            self._followed += 1
            if self._followed <= _FOLLOWED:
                past.change(free)
        return self._followed <= _FOLLOWED

    def _met(self, gang: Gang) -> Kind | None:
        """The kind of a gang that is new."""
        signature = signature_of(gang, self._cycle)
        return None if signature is None else self._past.of(gang, signature)

    def _reasons(self, kind: Kind, gang: Gang, *, evicts: bool) -> Reasons:
        """What the gang is told; empty where its turn is needed."""
        cycle = self._cycle
        answer = cycle.failures.answer_to(kind.ident)
        kind.cycle = self.number
        ends = end_that_counts(cycle, gang)
        over_quota = answer.over_quota
        if not over_quota and self.is_short(kind):
            if answer.no_room or not (kind.counted or kind.fixed):
                return ()
            assert kind.over_quota is not None
            over_quota = (kind.over_quota, *self.lacks(kind))
        if over_quota:
            if evicts and not self.no_victims.found(kind, gang, answer, over_quota, paid=False):
                return ()
            cycle.stats.alike += bool(answer.over_quota)
            answer.over_quota = over_quota
            return over_quota
        answered = answer.no_room if ends >= answer.from_end else ()
        if cycle.advance is not None and answered not in ((), self.room.no_room(kind)):
            return ()  # what is reserved from a gang is not told to others that end earlier
        no_room = answered or self.room.no_room(kind)
        if not no_room or (evicts and not self.no_victims.found(kind, gang, answer, no_room, paid=True)):
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
            known = self._limits[queue] = ledger.version, (*ledger.limits(queue), *ledger.kept(queue))
        return known[1]


def _short(gang: Gang) -> Reasons:
    """Why a gang waits whose members are too few, whatever else there is; empty for any other."""
    if gang.placed or gang.refilling or gang.reservation or chosen(gang)[2]:
        return ()
    return explain.members_short(gang)
