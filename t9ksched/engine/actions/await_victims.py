"""A gang with promised room waits until its victims have left, and gets no other victims meanwhile."""

from collections.abc import Mapping
from typing import ClassVar

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Turn
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.work import Work


class AwaitVictims:
    """A promise stands as long as it covers what the gang asks for; a lost node takes its part away."""

    needs: ClassVar[str] = "allocate"
    """It runs whatever the policy says of preemption: promises made under another one are kept."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def attempt(self, turn: Turn) -> Work[bool]:
        """The gang goes on waiting, and its queue pays for what was promised."""
        cycle, gang, demand = self._cycle, turn.gang, turn.key.demand
        promise = cycle.promised.get(gang.uid)
        if promise is None or not self._stands(promise, demand):
            return False
        cycle.ledger.charge(gang.queue, promise)
        turn.reasons = (explain.waiting_for_victims(0, 0), *turn.reasons)
        return True
        yield  # an action is a generator, though this one is done in one slice

    def _stands(self, promise: Mapping[str, int], demand: Mapping[str, int]) -> bool:
        return all(promise.get(resource, 0) >= amount for resource, amount in demand.items())
