"""The first phase: each gang's minimum, whole or not at all, by the actions of a table."""

from collections.abc import Sequence
from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Action, Turn
from t9ksched.engine.actions.affordable import Affordable
from t9ksched.engine.actions.allocate import Allocate
from t9ksched.engine.actions.await_victims import AwaitVictims
from t9ksched.engine.actions.behind_again import BehindAgain
from t9ksched.engine.actions.late_plan import LatePlan, fails
from t9ksched.engine.actions.one_kind import OneKind
from t9ksched.engine.actions.passed_over import PassedOver
from t9ksched.engine.actions.preempt import Preempt
from t9ksched.engine.actions.reserve import Reserve, told
from t9ksched.engine.actions.told_again import ToldAgain
from t9ksched.engine.blocks import Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.members import chosen
from t9ksched.engine.order import Line
from t9ksched.engine.plan import Waiting
from t9ksched.engine.starvation import Starving
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.reasons import Code, Reason

ACTIONS: Final[Sequence[type[Action]]] = (Allocate, AwaitVictims, Preempt, Reserve)
"""In the order in which a gang that has its turn is tried by them."""
_A_REFUSAL: Final = 20_000
"""Units of work to find out why a gang waits, beside what is looked at for that."""


class Minima:
    """Judges gang after gang.

    Attributes:
        staying: gangs that wait, by queue and in its order.
        above: gangs that have their minimum, with members above it, by queue and in its order.
        gave_way: whether the gang that was judged last is to have its turn after those that came before it.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._affordable = Affordable.of(cycle)
        several = len(cycle.trial.nodes.static.card_kinds) > 1
        self._one_kind = OneKind(cycle, self._affordable) if several else None
        self._actions = [action(cycle) for action in ACTIONS if action.needs in cycle.policy.actions]
        self._planning = [action for action in self._actions if isinstance(action, Reserve)]
        """What is done for a gang that may not start now."""
        preempt = next((action for action in self._actions if isinstance(action, Preempt)), None)
        self._told_again = ToldAgain.of(cycle, preempt)
        self._passed_over = PassedOver.of(cycle, self._told_again)
        if cycle.planned is not None and self._passed_over is None:
            self._told_again = None  # nobody would ask what it learns
        plain = cycle.planned is None and self._affordable is None
        self._behind_again = BehindAgain(cycle) if plain and not cycle.policy.plugins else None
        self._planned_before = frozenset(cycle.planned.moments) if cycle.planned is not None else frozenset()
        self._put_off: set[str] = set()
        """Gangs that gave way in this cycle."""
        self.gave_way = False
        self.staying: dict[str, list[Waiting]] = {}
        self.above: dict[str, list[tuple[Gang, list[Member]]]] = {}

    def judge(self, gang: Gang, *, firm: bool = False) -> Work[bool]:
        """Place the gang's minimum whole, or say why not. Returns whether its queue pays for more than before. A `firm`
        one, whose plan does not come about, may give way once.
        """
        cycle = self._cycle
        self.gave_way = False
        paid = cycle.stats.placed + cycle.stats.preempted
        rank = cycle.view.queues[gang.queue].spec.priority
        if cycle.starving is not None:
            cycle.starving.focus(rank)
        if cycle.planned is not None:
            cycle.planned.focus(rank)
        if self._one_kind is not None:
            if (mixed := self._one_kind.mixed(gang)) is not None:
                self._never(gang, mixed)
                return False
            gang = yield from self._one_kind.settle(gang)
        if self._affordable is not None:
            gang = yield from self._affordable.settle(gang)
        yield from self._judge(gang, may_give_way=firm and gang.uid not in self._put_off)
        if cycle.planned is not None:
            cycle.planned.promised.lay((gang.uid,))
        if gang.uid in cycle.promised:
            victims = yield from cycle.victims()
            cycle.reservations.keep(gang.uid, victims.leaving)
        return cycle.stats.placed + cycle.stats.preempted > paid

    def pass_over(self, queue: str, line: Line) -> Work[None]:
        """Gangs at the head of the line of a queue whose turn it is wait, as far as numbers alone, or what was found in
        earlier cycles, say so.
        """
        cycle, spec = self._cycle, self._cycle.view.queues[queue].spec
        rank = spec.priority
        strict = self._behind_again if spec.ordering == "Strict" else None
        if strict is not None and not (spec.closed or cycle.windows.closed(queue)):
            yield from strict.told(line, self.staying.setdefault(queue, []))
            return
        if self._passed_over is None and self._told_again is None:
            return
        if cycle.starving is not None:
            cycle.starving.focus(rank)
        if self._told_again is not None and cycle.planned is None:
            yield from self._told_again.told(line, self.staying.setdefault(queue, []))
        elif self._passed_over is not None and cycle.planned is not None:
            cycle.planned.focus(rank)
            told = yield from self._passed_over.told(line)
            cycle.stats.judged += len(told)
            for gang, reasons in told:
                self._stay(gang, reasons)

    def rest_of(self, gang: Gang, members: list[Member]) -> list[Member]:
        """Members above the minimum of a gang, narrowed to nodes where its queue can pay for them now."""
        return members if self._affordable is None else self._affordable.above(gang, members)

    def without_queue(self, name: str, gangs: Sequence[Gang]) -> None:
        """These gangs, the best one first, name a queue that does not exist."""
        for gang in gangs:
            self._never(gang, explain.queue_not_found(name))

    def _never(self, gang: Gang, reason: Reason) -> None:
        """No turn of the gang would end otherwise."""
        self._cycle.stats.judged += 1
        members, rest, enough = chosen(gang)
        if members or not enough:
            self._stay(gang, (reason,))
        elif rest:
            self._cycle.short.append(Waiting(gang.uid, (reason,)))

    def _judge(self, gang: Gang, *, may_give_way: bool) -> Work[None]:
        cycle = self._cycle
        queue, planned = cycle.view.queues[gang.queue], cycle.planned
        cycle.stats.judged += 1
        cycle.refills.open(gang)
        members, rest, enough = chosen(gang)
        closed = queue.spec.closed and not (gang.accepted or gang.ran or gang.placed)
        had: Block | None = None
        if planned is not None:
            judged = members and enough and not closed and gang.uid not in cycle.reservations.of
            judged = judged and gang.uid not in self._put_off
            judged = judged and gang.uid in self._planned_before and not (yield from self._may_evict(gang, members))
            if judged and (block := (yield from planned.rests(gang, members))) is not None:
                self._wait(gang, told(cycle, gang, block))
                return
            had = planned.turn(gang)
        if closed:
            self._wait(gang, (explain.queue_closed(gang.queue, draining=queue.draining),))
            return
        if not enough:
            if planned is not None and had is not None and not closed:
                planned.awaits(gang, had)
            self._wait(gang, explain.members_short(gang))
            return
        if members and (outside := self._outside(gang)) is not None:
            self._wait(gang, (outside,))
            return
        if members:
            key = yield from cycle.keys.of(gang, members)
            late = None
            if planned is not None and fails(cycle, planned, gang, key, had):
                late = LatePlan(cycle, planned, gang, key, had, may_give_way=may_give_way)
                if late.kept is not None:
                    planned.keep(gang, late.kept, looked=False)
                    self._wait(gang, told(cycle, gang, late.kept))
                    return
                if late.gives_way:
                    planned.put_off(gang, had)
                    self._put_off.add(gang.uid)
                    self.gave_way = True
                    return
            if self._behind_again is not None and queue.spec.ordering == "Strict":
                self._behind_again.learn(gang, key)
            reasons = yield from self._place(Turn(gang, members, key, (), had), late)
            if late is not None:
                late.over()
            if reasons:
                self._wait(gang, reasons)
                return
        if rest:
            self.above.setdefault(gang.queue, []).append((gang, rest))

    def _outside(self, gang: Gang) -> Reason | None:
        """Why the gang starts nothing outside the windows of its queue, where nothing else is to be told."""
        cycle, starving = self._cycle, self._cycle.starving
        if cycle.planned is not None or not cycle.windows.any:
            return None
        if cycle.view.queues[gang.queue].spec.ordering == "Strict" or (starving is not None and starving.has(gang)):
            return None
        if gang.uid in cycle.promised or gang.uid in cycle.reservations.of:
            return None
        return cycle.windows.shut(gang)

    def _place(self, turn: Turn, late: LatePlan | None) -> Work[tuple[Reason, ...]]:
        """Let the actions place these members; why they do not."""
        cycle, gang, key = self._cycle, turn.gang, turn.key
        turn.behind = yield from cycle.failures.behind(gang.queue, key)
        shut: tuple[Reason, ...] = ()
        if cycle.windows.any and not cycle.reservations.start_decided(gang.uid):
            outside = cycle.windows.shut(gang)
            shut = () if outside is None else (outside,)
        if turn.behind and gang.uid not in cycle.reservations.of:
            return (*shut, *turn.behind)
        if (promise := cycle.promised.get(gang.uid)) is not None:
            cycle.ledger.uncharge(gang.queue, promise)
        turn.reasons = shut
        if cycle.starving is not None:
            cycle.starving.turn(gang)
        for action in self._planning if shut else self._actions:
            if late is not None and not isinstance(action, Allocate):
                late.started_not()
            if (yield from action.attempt(turn)):
                break
        if cycle.starving is not None and cycle.starving.has(gang):
            self._collect(cycle.starving, turn)
        if turn.reasons:
            cycle.trial.meter.spent += _A_REFUSAL
        steady = self._affordable is None or not self._affordable.differs(key)
        if turn.reasons and self._told_again is not None and steady:
            self._told_again.learning.learn(gang, key, turn.reasons)
        if turn.reasons and cycle.view.queues[gang.queue].spec.ordering == "Strict":
            cycle.failures.waits(gang.queue, len(self.staying.get(gang.queue, ())) + 1, key)
        return turn.reasons

    def _collect(self, starving: Starving, turn: Turn) -> None:
        """A gang for which room is collected has had its turn: it goes on, or what it does not need is free."""
        codes = {reason.code for reason in turn.reasons}
        if turn.reasons and not codes & {Code.PLANNED_START, Code.WAITING_FOR_VICTIMS}:
            starving.goes_on(turn.gang)
            turn.reasons = (*turn.reasons, starving.told(turn.gang))
        elif starving.started(turn.gang):
            self._cycle.failures.room_came_free()

    def _may_evict(self, gang: Gang, members: Sequence[Member]) -> Work[bool]:
        """Whether victims may be found for the gang, which has a plan, or it may come to count on the room of pods that
        are leaving: then time and every end may help it, and others find less, so that it is tried in each cycle.
        Beside other plans of its queue none are looked for while that cannot pay.
        """
        cycle, planned = self._cycle, self._cycle.planned
        assert planned is not None
        if not cycle.victims_matter(gang.queue):
            return False
        if cycle.starving is not None and cycle.starving.has(gang):
            return True
        key = yield from cycle.keys.of(gang, members)
        if cycle.ledger.can_charge(gang.queue, key.demand) and any(
            block.queue == gang.queue and block.owner != gang.uid for block in planned.blocks()
        ):
            return False
        return (yield from cycle.within_reach(gang, key))

    def _wait(self, gang: Gang, reasons: tuple[Reason, ...]) -> None:
        """The gang stays, and keeps the room of members that it lost."""
        self._stay(gang, (*reasons, *self._cycle.refills.close(gang)))

    def _stay(self, gang: Gang, reasons: tuple[Reason, ...]) -> None:
        staying = self.staying.setdefault(gang.queue, [])
        known = gang.queue in self._cycle.view.queues
        staying.append(Waiting(gang.uid, reasons, len(staying) + 1 if known else 0))
