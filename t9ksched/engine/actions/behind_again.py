"""Gangs of strict queues that wait behind others: they are told so without a turn.

Whether a gang would take what one ahead of it waits for follows from what both ask for and what nodes have, not from
what is free (`past_order.py`).
"""

from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.actions.learning import signature_of
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.order import Line
from t9ksched.engine.past_order import NO_NODE
from t9ksched.engine.plan import Waiting
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang

_A_GANG: Final = 200
"""Units of work to look a gang up."""
_A_STEP: Final = 50_000
"""After so many units of work others may have their turn."""


class BehindAgain:
    """Tells gangs, in one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._past = cycle.order
        self._past.begin(
            cycle.trial.nodes.static,
            {name: state.spec for name, state in cycle.view.queues.items()},
            len(cycle.view.gangs),
        )
        self._number = self._past.number

    def told(self, line: Line, staying: list[Waiting]) -> Work[None]:
        """Gangs at the head of the line of a strict queue that wait behind others, taken out of it, with why each does.
        It ends at the first of which that is not known without its turn.
        """
        cycle, meter = self._cycle, self._cycle.trial.meter
        if not line or not cycle.failures.strict(line.best().queue):
            return
        due = meter.spent + _A_STEP
        while line:
            gang = line.best()
            at = self._position_ahead(gang)
            if not at:
                return
            line.pop()
            staying.append(Waiting(gang.uid, (explain.behind(at, gang.queue),), len(staying) + 1))
            cycle.stats.judged += 1
            meter.spent += _A_GANG
            if meter.spent >= due:
                due = meter.spent + _A_STEP
                yield

    def _position_ahead(self, gang: Gang) -> int:
        """The position of the first gang that this one may not pass; 0 where its turn says that."""
        failures, signature = self._cycle.failures, signature_of(gang, self._cycle)
        if signature is None or gang.uid in self._cycle.reservations.of or self._past.number != self._number:
            return 0
        asks = self._past.of(signature, gang.waiting[0].pod_class)
        if asks is None:
            return 0
        for position, ahead in failures.ahead(gang.queue):
            if ahead.bounded:
                return 0
            lacks = failures.lacks_quota(ahead)
            if lacks is not None:
                competes = not asks.pays.isdisjoint(lacks)
            elif (row := asks.meets.get(ahead.ident)) is not None:
                competes = row != NO_NODE
            else:
                return 0
            if competes:
                return position
        return 0

    def learn(self, gang: Gang, key: SchedulingKey) -> None:
        """The gang had its turn, at which it was found whether it may pass those ahead of it."""
        signature, failures = signature_of(gang, self._cycle), self._cycle.failures
        if signature is None or not failures.strict(gang.queue) or self._past.number != self._number:
            return
        asks = self._past.learn(signature, gang.waiting[0].pod_class, key.demand)
        for _, ahead in failures.ahead(gang.queue):
            lacks = failures.lacks_quota(ahead)
            if lacks is None:
                row = failures.meet(key, ahead)
                asks.note(ahead.ident, row)
                competes = row != NO_NODE
            else:
                competes = not asks.pays.isdisjoint(lacks)
            if competes:
                return
