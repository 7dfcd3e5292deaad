"""The decision of one cycle: `plan(view, policy, now) -> Plan`, a pure function.

`Planner` does the same in slices, so that a service can do other work in between. The result depends neither on the
slices nor on the memory. Minima first: the best queue's best gang is placed whole on the trial and committed, or
the trial is undone and the reasons are recorded. When every minimum has been judged, members above minima take what
room is left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol, TypeVar

from t9ksched.engine.actions.grow import grow
from t9ksched.engine.actions.minima import Minima
from t9ksched.engine.actions.starting_runs import StartingRuns
from t9ksched.engine.coming_of_age import next_of_age
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.memory import Memory
from t9ksched.engine.order import Firm, Line, QueuesByRank, sort_gangs
from t9ksched.engine.plan import Assignment, Eviction, Plan, Stats, Waiting
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Member

__all__ = ["Assignment", "Eviction", "Plan", "Planner", "Stats", "Waiting", "plan"]

T_co = TypeVar("T_co", covariant=True)
_GANG: Final = 10_000
"""Units of work that a gang costs whatever it asks for."""


class _Waiting(Protocol[T_co]):
    """What waits in one queue, the next one last."""

    def __len__(self) -> int: ...

    def pop(self) -> T_co: ...


def plan(view: View, policy: Policy, now: int, memory: Memory | None = None) -> Plan:
    """Decide where pods run. `now`, in nanoseconds since the epoch, ends reservations and says how long jobs have
    run.
    """
    planner = Planner(view, policy, now, memory)
    while not planner.step(1 << 60):
        pass
    made = planner.result()
    planner.close()
    return made


class Planner:
    """A cycle in slices: call `step` until it says done, then take `result`."""

    def __init__(self, view: View, policy: Policy, now: int, memory: Memory | None = None) -> None:
        self.meter = Meter()
        """Counts the work done so far."""
        self._again: int | None = None
        self._given = view, policy, now, memory or Memory()
        self._cycle: Cycle
        self._minima: Minima
        self._begun = False
        self._lines: dict[str, Line] = {}
        self._work = self._phases()
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

    def _phases(self) -> Work[None]:
        """Judge every minimum, then let the gangs that have theirs grow."""
        yield from self._begin()
        minima = self._minima
        lines = yield from self._line_up()
        if (planned := self._cycle.planned) is not None:
            if planned.promised.come_free:
                planned.promised.follow((yield from self._cycle.victims()))
            yield from planned.begin()
        if self._cycle.starving is not None:
            yield from self._cycle.starving.begin(lines)
        yield from self._judge(self._ordered(self._lines))
        for gangs in minima.above.values():
            gangs.reverse()
        yield from self._serve(self._ordered(minima.above), minima.above, self._grow)
        self._again = yield from next_of_age(self._cycle, minima.staying)

    def _begin(self) -> Work[None]:
        """Find out what stands where, and who runs; all else of the cycle begins with it."""
        view, policy, now, memory = self._given
        standing = yield from memory.standing(view, self.meter)
        if "preempt" in policy.actions:
            yield from memory.meet(view.running, self.meter)
        self._cycle = yield from Cycle.begin(view, policy, now, memory, self.meter, standing)
        self._minima = Minima(self._cycle)
        self._begun = True

    def _line_up(self) -> Work[Mapping[str, Sequence[Gang]]]:
        """Bring the gangs of each queue into their order; returns them by queue, in the order of `gang_key`."""
        cycle = self._cycle
        known, pod_affinity, policy = cycle.view.queues, cycle.trial.pod_affinity, cycle.policy
        gangs = cycle.view.gangs if pod_affinity is None else pod_affinity.gangs
        by_queue = yield from cycle.lines.follow(gangs, self.meter)
        sort = partial(sort_gangs, policy=policy, plugins=cycle.trial.plugins, now=cycle.now)
        for name, line in by_queue.items():
            if name in known:
                self._lines[name] = Line(line) if policy.gang_order == ("basic",) else Line(line.copy(), sort)
        for name in sorted(by_queue.keys() - known.keys()):
            self._minima.without_queue(name, by_queue[name])
        return by_queue

    def _judge(self, order: QueuesByRank) -> Work[None]:
        """Judge the minimum of every gang: of queues of a priority, those with planned starts first."""
        cycle, judge = self._cycle, self._minima.judge
        planned = cycle.planned.moments if cycle.planned is not None else {}
        specs = {name: state.spec for name, state in cycle.view.queues.items()}
        firm = Firm(self._lines, specs, planned)
        runs = StartingRuns.of(cycle, self._lines)
        while (name := order.best()) is not None:
            if runs is not None and (yield from runs.go_on(order)):
                continue
            if (gang := firm.pop(specs[name].priority)) is not None:
                if (yield from judge(gang, firm=True)):
                    order.reorder()
                if self._minima.gave_way:
                    firm.put_off(specs[name].priority, gang)
            else:
                line = self._lines[name]
                yield from self._minima.pass_over(name, line)
                grown = bool(line) and (yield from judge(line.pop()))
                order.served(more=bool(line), grown=grown)
                if runs is not None:
                    runs.served(grown=grown)
            self.meter.spent += _GANG
            yield

    def _serve(
        self, order: QueuesByRank, waiting: Mapping[str, _Waiting[T_co]], serve: Callable[[T_co], Work[bool]]
    ) -> Work[None]:
        """Serve what waits, the best queue's next one first, until nothing does; `serve` says whether a share grew."""
        while (name := order.best()) is not None:
            line = waiting[name]
            grown = yield from serve(line.pop())
            order.served(more=bool(line), grown=grown)
            self.meter.spent += _GANG
            yield

    def _grow(self, turn: tuple[Gang, list[Member]]) -> Work[bool]:
        gang, members = turn
        yield from grow(self._cycle, gang, self._minima.rest_of(gang, members))
        return True

    @property
    def assignments(self) -> Sequence[Assignment]:
        """What has been decided so far: it only grows, and stays decided."""
        return self._cycle.assignments if self._begun else ()

    def result(self) -> Plan:
        """The plan of what has been judged."""
        cycle, (*_, memory) = self._cycle, self._given
        memory.waited = any(self._minima.staying.values())
        if cycle.planned is not None and cycle.starving is not None and cycle.starving.collected:
            # What was kept from plans may be free in the next cycle: for gangs that have planned starts none is.
            cycle.planned.look_again()
        waiting = chain.from_iterable(gangs for _, gangs in sorted(self._minima.staying.items()))
        return Plan(
            tuple(cycle.assignments),
            tuple(waiting),
            tuple(cycle.short),
            cycle.stats,
            tuple(cycle.evictions),
            tuple(cycle.reserved),
            tuple(cycle.refills.found),
            tuple(cycle.trial.plugins.faults),
            cycle.planned.standing() if cycle.planned is not None else (),
            self._again,
        )

    def close(self) -> None:
        """Let go of all that the cycle needed: its parts know each other, and would stay, with columns of all nodes,
        until the garbage collector finds them. To be called once the result was taken; nothing else is asked then.
        """
        if self._begun:
            self._cycle.trial.close()

    def _ordered(self, names: Iterable[str]) -> QueuesByRank:
        cycle = self._cycle
        specs = {name: state.spec for name, state in cycle.view.queues.items()}
        plugins, used = cycle.trial.plugins, cycle.ledger.used
        ranks = {
            use.name: lambda name, use=use: plugins.queue_rank(use, name, specs[name], used(name))
            for use in cycle.policy.plugins
            if use.name in cycle.policy.queue_order
        }
        share = cycle.ledger.share
        return QueuesByRank(list(names), specs, share, cycle.policy, ranks, lambda: len(plugins.faults))
