"""Gangs that start one after the other, without a turn for each.

While a cluster fills, the next gang of the best queue mostly starts: its queue can pay, there is room for all its pods,
and nothing else decides. Such gangs are handed to a kernel (`engine/kernel`) as numbers, with the columns of the trial.
It goes on as their turns would, to the byte, until the next gang does not start for certain; that one has its turn.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import numpy as np

from t9ksched.engine.actions.start_tables import COMPARATORS, StartTables
from t9ksched.engine.cards import deal
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.kernel.native import chosen as kernel
from t9ksched.engine.kernel.tables import Run, Stop
from t9ksched.engine.order import Line, QueuesByRank
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.plan import Assignment
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang

_AFTER: Final = 4
"""So many gangs in a row have started at their turns before others do without one."""
_FEW: Final = 8
"""With fewer gangs left it does not pay."""
_A_GANG: Final = 300
_A_POD: Final = 60
"""Units of work to write down what started."""


class StartingRuns:
    """The runs of one cycle."""

    def __init__(self, cycle: Cycle, lines: Mapping[str, Line]) -> None:
        self._cycle = cycle
        self._names = sorted(lines)
        self._lines = [lines[name] for name in self._names]
        self._kernel = kernel().kernel
        self._grown = 0
        self._made: StartTables | None = None

    @classmethod
    def of(cls, cycle: Cycle, lines: Mapping[str, Line]) -> "StartingRuns | None":
        """None where more than room and quota decides for any gang: plans, reservations by administrators, windows,
        plugins, links, packing, cards of several kinds.
        """
        trial, policy = cycle.trial, cycle.policy
        if cycle.planned is not None or cycle.advance is not None or cycle.windows.any or policy.plugins:
            return None
        if trial.packing is not None or trial.links is not None or len(trial.nodes.static.card_kinds) > 1:
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
        """Let gangs start, if it seems to pay. Returns whether any did."""
        if self._grown < _AFTER or sum(map(len, self._lines)) < _FEW or self._keeps():
            return False
        self._grown = 0
        try:
            made = self._made = self._made or StartTables(self._cycle, self._names, self._lines)
        except OverflowError:
            return False
        if not made.follow():
            return False
        started = 0
        while True:
            made.touch()
            run = self._kernel.run(made.tables)
            started += len(run.queues)
            self._carry_out(made, run)
            if run.stopped is Stop.NOT_READ:
                yield from made.read(run.at)
            elif run.stopped is not Stop.PAUSED:
                break
            yield
        if started:
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

    def _carry_out(self, made: StartTables, run: Run) -> None:
        """What the kernel did is decided: as at the end of a gang's turn, for all that started."""
        if not run.queues:
            return
        cycle, trial = self._cycle, self._cycle.trial
        charged = self._assign(made, run)
        # A ledger of the same charges names the resources in the same order.
        for (queue, number), times in charged.items():
            name, demand = self._names[queue], made.kinds[number][1]
            cycle.ledger.charge(name, {resource: amount * times for resource, amount in demand.items()})
            cycle.waits.lines.pop(name, None)
        made.charged()
        trial.placed(run.rows)
        made.touched(len(run.rows))
        cycle.failures.moved(np.array(run.rows, np.intp))
        started, pods = len(run.queues), sum(run.pods)
        cycle.failures.past.tried += started
        stats = cycle.stats
        stats.judged += started
        stats.tried += started
        stats.placed += started
        trial.meter.spent += (_A_GANG + self._kernel.a_start) * started + _A_POD * pods

    def _assign(self, made: StartTables, run: Run) -> dict[tuple[int, int], int]:
        """Record the assignments, as `Cycle.assign` does; gangs of one class go a shorter way. Returns how many times
        each queue pays for each kind.
        """
        static, stats = self._cycle.trial.nodes.static, self._cycle.stats
        names, generations = static.names, static.generation
        lefts, kinds, write = [line.left for line in self._lines], made.kinds, self._cycle.assignments.append
        places = list(zip(run.rows, run.pods, run.classes, run.idle, strict=True))
        charged: dict[tuple[int, int], int] = {}
        first = 0
        for queue, number, end in zip(run.queues, run.kinds, run.ends, strict=True):
            gang, columns = lefts[queue].pop(), kinds[number][0]
            if len(columns) > 1:
                charged[queue, number] = charged.get((queue, number), 0) + 1
                self._assign_parts(made, gang, places[first:end])
                first = end
                continue
            charged[queue, number] = charged.get((queue, number), 0) + len(gang.waiting)
            stats.pods += len(gang.waiting)
            column, uid, members = columns[0], gang.uid, iter(gang.waiting)
            written, needs = column.written, column.card_needs
            for row, pods, _, idle in places[first:end]:
                node, generation = names[row], generations[row]
                if not needs:
                    for member in islice(members, pods):
                        write(Assignment(uid, member.uid, node, generation))
                    continue
                # The shares come first: when there are no more of them, no member may be taken out.
                for share, member in zip(deal(idle, needs[0][1], pods)[0], members, strict=False):
                    cards = written.get(share)
                    if cards is None:
                        grant = column.grant(row, share)
                        cards = written[share] = (grant.by_container(column.pod_class.cards), grant)
                    write(Assignment(uid, member.uid, node, generation, cards[0], cards[1]))
            first = end
        return charged

    def _assign_parts(self, made: StartTables, gang: Gang, places: list[tuple[int, int, int, int]]) -> None:
        placements = []
        for row, pods, number, idle in places:
            column = made.columns[number]
            shares = deal(idle, column.card_needs[0][1], pods)[0] if column.card_needs else ()
            placements.append(Placement(column, row, pods, shares))
        self._cycle.assign(gang, gang.waiting, placements)
