"""Gangs that start one after the other, without a turn for each.

While a cluster fills, the next gang of the best queue mostly starts: its queue can pay, there is room for all its pods,
and nothing else decides. Such gangs are handed to a kernel (`engine/kernel`) as numbers, with the columns of the trial.
It goes on as their turns would, to the byte, until the next gang does not start for certain; that one has its turn.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.actions.start_tables import COMPARATORS, StartTables
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.kernel.native import chosen as kernel
from t9ksched.engine.kernel.tables import Run, Stop
from t9ksched.engine.order import Line, QueuesByRank
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.plan import Assignment
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member

_AFTER: Final = 4
"""So many gangs in a row have started at their turns before others do without one, if gangs waited when the latest
cycle ended: else those that wait now are new, and mostly start.
"""
_QUEUES: Final = 16
"""One more of them for each so many queues: the tables have a row for each."""
_FEW: Final = 8
"""With fewer gangs left it does not pay."""
_A_GANG: Final = 300
_A_POD: Final = 60
"""Units of work to write down what started."""


Charged = defaultdict[tuple[int, int], int]
"""How many times each queue pays for each kind of gangs."""


class StartingRuns:
    """The runs of one cycle."""

    def __init__(self, cycle: Cycle, lines: Mapping[str, Line]) -> None:
        self._cycle = cycle
        self._names = sorted(lines)
        self._lines = [lines[name] for name in self._names]
        self._kernel = kernel().kernel
        self._after = _AFTER + len(lines) // _QUEUES
        self._grown = 0 if cycle.waited else self._after
        self._made: StartTables | None = None

    @classmethod
    def of(cls, cycle: Cycle, lines: Mapping[str, Line]) -> "StartingRuns | None":
        """None where more than room and quota decides for any gang: plans, reservations by administrators, a queue that
        starts none now, plugins, links, packing.
        """
        trial, policy = cycle.trial, cycle.policy
        if cycle.planned is not None or cycle.advance is not None or policy.plugins:
            return None
        if cycle.windows.any and any(line and cycle.windows.closed(name) for name, line in lines.items()):
            return None
        if trial.packing is not None or trial.links is not None:
            return None
        if "allocate" not in policy.actions or not cycle.ledger.flat or not len(trial.nodes):
            return None
        if not set(policy.queue_order) <= COMPARATORS.keys() or len(policy.queue_order) > 2:
            return None
        return cls(cycle, lines)

    def served(self, *, grown: bool) -> None:
        """A gang had its turn; whether it started."""
        self._grown = self._grown + 1 if grown else 0

    def go_on(self, order: QueuesByRank) -> Work[bool]:
        """Let gangs start, if it seems to pay. Returns whether any did. If fewer did than had started before at their
        turns, twice as many have to before the next time.
        """
        if self._grown < self._after or sum(map(len, self._lines)) < _FEW or self._keeps():
            return False
        self._grown = 0
        try:
            made = self._made = self._made or StartTables(self._cycle, self._names, self._lines)
        except OverflowError:
            return False
        if not made.follow():
            return False
        started = 0
        charged: Charged = defaultdict(int)
        while True:
            made.touch()
            run = self._kernel.run(made.tables)
            started += len(run.queues)
            self._carry_out(made, run, charged)
            if run.stopped is Stop.NOT_READ:
                yield from made.read(run.at)
            elif run.stopped is not Stop.PAUSED:
                break
            yield
        if started < self._after:
            self._after *= 2
        if started:
            self._charge(made, charged)
            order.retain({name for name, line in zip(self._names, self._lines, strict=True) if line})
        return bool(started)

    def _keeps(self) -> bool:
        """Whether room or quota is kept for any gang, or collected: what was refused to others may be free again at its
        turn, and stays refused to them in this cycle.
        """
        cycle = self._cycle
        if cycle.starving is not None and cycle.starving.collects:
            return True
        of, missing = cycle.reservations.of, cycle.reservations.missing
        return bool(of or missing or cycle.promised or cycle.refills.paid or cycle.stats.preempted)

    def _charge(self, made: StartTables, charged: Charged) -> None:
        """Queues pay for what started. A ledger of the same charges names the resources in the same order."""
        cycle = self._cycle
        for (queue, number), times in charged.items():
            name, demand = self._names[queue], made.kinds[number][1]
            cycle.ledger.charge(name, {resource: amount * times for resource, amount in demand.items()})
            cycle.waits.lines.pop(name, None)
            self._lines[queue].begin()
        made.charged()

    def _carry_out(self, made: StartTables, run: Run, charged: Charged) -> None:
        """What the kernel did is decided: as at the end of a gang's turn, for all that started."""
        if not run.queues:
            return
        cycle, trial = self._cycle, self._cycle.trial
        self._assign(made, run, charged)
        trial.placed(run.rows)
        made.carried_out(run)
        cycle.failures.moved(np.array(run.rows, np.intp))
        started, pods = len(run.queues), sum(run.pods)
        cycle.failures.past.tried += started
        stats = cycle.stats
        stats.judged += started
        stats.tried += started
        stats.placed += started
        stats.pods += pods
        trial.meter.spent += (_A_GANG + self._kernel.a_start) * started + _A_POD * pods

    def _assign(self, made: StartTables, run: Run, charged: Charged) -> None:
        """Record the assignments, as `Cycle.assign` does."""
        static, found = self._cycle.trial.nodes.static, self._cycle.assignments
        names, generations = static.names, static.generation
        lefts, kinds, dealt = [line.left for line in self._lines], made.kinds, made.dealt
        places = list(zip(run.rows, run.pods, run.classes, run.idle, strict=True))
        first = 0
        for queue, number, end in zip(run.queues, run.kinds, run.ends, strict=True):
            gang, columns = lefts[queue].pop(), kinds[number][0]
            uid, waiting, times = gang.uid, gang.waiting, len(gang.waiting)
            if len(columns) > 1:
                waiting, times = self._in_order(gang, columns), 1
            charged[queue, number] += times
            members = iter(waiting)
            found += [
                Assignment(uid, next(members).uid, names[row], generations[row], cards, grant)
                for row, pods, of, idle in places[first:end]
                for cards, grant in dealt[of][idle, pods]
            ]
            first = end

    def _in_order(self, gang: Gang, columns: Sequence[ClassFit]) -> Sequence[Member]:
        """The members of a gang by class, in the order in which its classes were placed."""
        of_class = dict(self._cycle.keys.by_class(gang.queue, gang.waiting))
        return [member for column in columns for member in of_class[column]]
