"""The decision of one cycle: `plan(view, policy, now) -> Plan`, a pure function.

`Planner` does the same in slices, for a shell that must answer others in between; the result does not depend on how it
is sliced, nor on the memo it was given. Minima first: the best queue's best gang is placed whole on the trial and
committed, or undone and explained. When every minimum has been judged, members above minima take what room is left.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.actions.allocate import Allocate
from t9ksched.engine.actions.grow import grow
from t9ksched.engine.actions.preempt import Preempt
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.order import Line, QueueOrder, gang_key, sort_gangs
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.plan import Assignment, Eviction, Plan, Stats, Waiting
from t9ksched.engine.policy import Policy
from t9ksched.engine.scheduling_key import Ask, chosen
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.reasons import Reason

__all__ = ["Assignment", "Eviction", "Plan", "Planner", "Stats", "Waiting", "plan"]

_GANG: Final = 2_000
"""Units of work that a gang costs whatever it asks for."""


def plan(view: View, policy: Policy, now: int, memo: FeasibilityCache | None = None) -> Plan:
    """Decide who goes where. `now` is in nanoseconds since the epoch; it ends holds and tells how long jobs ran."""
    planner = Planner(view, policy, now, memo)
    while not planner.step(1 << 60):
        pass
    return planner.result()


class Planner:
    """A cycle in slices: call `step` until it says done, then take `result`."""

    def __init__(self, view: View, policy: Policy, now: int, memo: FeasibilityCache | None = None) -> None:
        cycle = self._cycle = Cycle(view, policy, now, memo)
        self._allocate = Allocate(cycle)
        self._preempt = Preempt(cycle)
        self._staying: dict[str, list[tuple[Gang, tuple[Reason, ...]]]] = {}
        crowd = cycle.trial.crowd
        by_queue: dict[str, list[Gang]] = {}
        for gang in view.gangs if crowd is None else crowd.derive(view.gangs):
            by_queue.setdefault(gang.queue, []).append(gang)
        sort = partial(sort_gangs, policy=policy, plugins=cycle.trial.plugins, now=now)
        self._minima = {name: Line(gangs, sort) for name, gangs in by_queue.items() if name in view.queues}
        self._above: dict[str, list[tuple[Gang, list[Member]]]] = {}
        for name in sorted(by_queue.keys() - view.queues.keys()):
            self._without_queue(name, by_queue[name])
        cycle.promised = self._promise()
        self._order = self._ordered(self._minima)
        self._work = self._all()
        self._done = False

    def step(self, work: int) -> bool:
        """Go on for about so many units of work (see `work.py`), within a gang too. Returns whether it is complete."""
        meter = self.meter
        ends = meter.spent + work
        while not self._done:
            try:
                next(self._work)
            except StopIteration:
                self._done = True
            if meter.spent >= ends:
                break
        return self._done

    def _all(self) -> Work[None]:
        """Judge every gang, then let those that run grow."""
        meter = self._cycle.trial.meter
        while (name := self._order.best()) is not None:
            yield from self._next(name)
            meter.spent += _GANG
            yield
        self._order = self._ordered(self._above)
        for gangs in self._above.values():
            gangs.reverse()
        while (name := self._order.best()) is not None:
            gang, members = self._above[name].pop()
            yield from grow(self._cycle, gang, members)
            self._order.served(more=bool(self._above[name]), grown=True)
            meter.spent += _GANG
            yield

    def _next(self, queue: str) -> Work[None]:
        """Judge the best gang of a queue."""
        cycle, line = self._cycle, self._minima[queue]
        paid = cycle.stats.placed + cycle.stats.preempted
        gang = line.pop()
        yield from self._judge(gang)
        if gang.uid in cycle.promised:
            victims = yield from cycle.victims()
            cycle.held.keep(gang.uid, victims.leaving)
        self._order.served(more=bool(line), grown=cycle.stats.placed + cycle.stats.preempted > paid)

    @property
    def meter(self) -> Meter:
        """Counts the work done so far."""
        return self._cycle.trial.meter

    @property
    def assignments(self) -> Sequence[Assignment]:
        """What has been decided so far: it only grows, and stays decided."""
        return self._cycle.assignments

    def result(self) -> Plan:
        """The plan of what has been judged."""
        cycle = self._cycle
        known = cycle.view.queues
        waiting = [
            Waiting(gang.uid, reasons, position if name in known else 0)
            for name, gangs in sorted(self._staying.items())
            for position, (gang, reasons) in enumerate(gangs, start=1)
        ]
        return Plan(
            tuple(cycle.assignments),
            tuple(waiting),
            tuple(cycle.short),
            cycle.stats,
            tuple(cycle.evictions),
            tuple(cycle.holds),
            tuple(cycle.refills.found),
            tuple(cycle.trial.plugins.faults),
        )

    def _ordered(self, names: Iterable[str]) -> QueueOrder:
        cycle = self._cycle
        specs = {name: state.spec for name, state in cycle.view.queues.items()}
        plugins, used = cycle.trial.plugins, cycle.ledger.used
        ranks = {
            use.name: lambda name, use=use: plugins.queue_rank(use, name, specs[name], used(name))
            for use in cycle.policy.plugins
            if use.name in cycle.policy.queue_order
        }
        share = cycle.ledger.share
        return QueueOrder(list(names), specs, share, cycle.policy, ranks, lambda: len(plugins.faults))

    def _without_queue(self, name: str, gangs: list[Gang]) -> None:
        reasons = (explain.queue_not_found(name),)
        self._cycle.stats.judged += len(gangs)
        for gang in sorted(gangs, key=gang_key):
            members, rest, enough = chosen(gang)
            if members or not enough:
                self._stay(gang, reasons)
            elif rest:
                self._cycle.short.append(Waiting(gang.uid, reasons))

    def _judge(self, gang: Gang) -> Work[None]:
        """Place the gang's minimum whole, or say why not."""
        cycle = self._cycle
        cycle.stats.judged += 1
        cycle.refills.open(gang)
        queue = cycle.view.queues[gang.queue]
        spec = queue.spec
        if spec.closed and not (gang.accepted or gang.ran or gang.placed):
            self._wait(gang, (explain.queue_closed(gang.queue, draining=queue.draining),))
            return
        members, rest, enough = chosen(gang)
        if not enough:
            missing = explain.incomplete(gang)
            reasons = (*((missing,) if missing else ()), *gang.blocked)
            self._wait(gang, reasons or (explain.too_few(gang),))
            return
        if members:
            together = () if gang.topology == "None" else (gang.topology, gang.levels, gang.nodes)
            ask = yield from cycle.asks.get(gang.queue, members, together)
            behind = yield from cycle.behind(gang.queue, ask)
            if behind is not None and gang.uid not in cycle.held.of:
                self._wait(gang, behind)
                return
            promise = cycle.promised.get(gang.uid)
            if promise is not None:
                cycle.ledger.uncharge(gang.queue, promise)
            reasons = yield from self._allocate.place(gang, ask, members, behind)
            if reasons and promise is not None and self._kept(promise, ask):
                cycle.ledger.charge(gang.queue, promise)
                reasons = (explain.waiting_for_victims(0, 0), *reasons)
            elif reasons and behind is None and "preempt" in cycle.policy.actions:
                reasons = yield from self._preempt.preempt(gang, ask, reasons)
            if reasons:
                if spec.ordering == "Strict":
                    position = len(self._staying.get(gang.queue, ())) + 1
                    cycle.strict.setdefault(gang.queue, []).append((position, ask))
                self._wait(gang, reasons)
                return
        if rest:
            self._above.setdefault(gang.queue, []).append((gang, rest))

    def _promise(self) -> dict[str, dict[str, int]]:
        """What gangs were promised when victims were evicted for them; their queues pay for it from then on."""
        cycle = self._cycle
        queues = {gang.uid: gang.queue for gang in cycle.view.gangs if gang.queue in cycle.view.queues}
        promised = {owner: demand for owner, demand in cycle.held.promised().items() if owner in queues}
        for owner, demand in promised.items():
            cycle.ledger.charge(queues[owner], demand)
        return promised

    def _kept(self, promise: dict[str, int], ask: Ask) -> bool:
        """Whether the promise still stands: a lost node takes its part away."""
        return all(promise.get(resource, 0) >= amount for resource, amount in ask.demand.items())

    def _wait(self, gang: Gang, reasons: tuple[Reason, ...]) -> None:
        """The gang stays, and keeps the room of members that it lost."""
        self._stay(gang, (*reasons, *self._cycle.refills.close(gang)))

    def _stay(self, gang: Gang, reasons: tuple[Reason, ...]) -> None:
        self._staying.setdefault(gang.queue, []).append((gang, reasons))
