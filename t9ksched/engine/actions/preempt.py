"""Making room for a gang that found none: who has to go, and the room that is promised to it."""

from collections import Counter, defaultdict
from operator import itemgetter

from t9ksched.engine import explain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.plan import Eviction
from t9ksched.engine.scheduling_key import Ask
from t9ksched.engine.victims.victim_search import Choice
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.hold import VICTIMS, Hold
from t9ksched.model.reasons import Code, Reason

_NO_ROOM_HELPS = (Code.NO_NODE_MATCHES, Code.NEVER_FITS)
"""With one of these among its reasons a gang would not fit, whoever went."""


class Preempt:
    """The action `preempt`."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._expected: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """What gangs will charge to their queues that need no victims, as room comes free without, by queue."""

    def preempt(self, gang: Gang, ask: Ask, reasons: tuple[Reason, ...]) -> Work[tuple[Reason, ...]]:
        """Choose who has to go for the gang, promise it their room, and say so; or leave the reasons as they are."""
        cycle = self._cycle
        holder = gang.uid in cycle.held.of  # needs fewer victims than one like it
        if (ask.no_victims and not holder) or any(reason.code in _NO_ROOM_HELPS for reason in reasons):
            return reasons
        victims = yield from cycle.victims()  # tells the ledger who leaves already
        demand = self._expected[gang.queue] + Counter(ask.demand) if gang.queue in self._expected else ask.demand
        short = cycle.ledger.can_charge(gang.queue, demand, staying=True)
        cycle.stats.searched += 1
        # With a minimum run time, time alone makes victims; a quota that is short changes with every charge.
        timed = bool(cycle.policy.preemption.minimum_run_seconds)
        lasts = not (short or timed or holder)
        if lasts and cycle.recall.in_vain(gang, ask):
            ask.no_victims = True
            return reasons
        cycle.recall.failures.searched += 1
        trial = cycle.trial
        mark = trial.mark()
        for placement in cycle.held.of.get(gang.uid, ()):
            trial.release(placement)
        choice = yield from victims.choose(gang, ask.groups, short, ruled=ask.ruled)
        if choice is None:
            trial.undo(mark)
            if not (ask.ruled or holder) and victims.expect():
                self._expected[gang.queue].update(ask.demand)
                return reasons  # gangs alike are asked anew: that room is expected by this one
            ask.no_victims = ask.no_victims or not holder
            if lasts and not (
                cycle.evictions or victims.expecting
            ):  # those who go may stay, those who wait may be gone
                cycle.recall.note_vain(gang, ask)
            return (*reasons, explain.victims_not_found()) if victims.gave_up else reasons
        if choice.victims and cycle.now < gang.evicts_from:
            trial.undo(mark)
            return (explain.evicts_later(gang.evicts_from), *reasons)
        cycle.give_up(gang.uid)
        victims.take(choice)
        self._evict(gang, ask, choice)
        cycle.ledger.charge(gang.queue, ask.demand)
        trial.commit()
        cycle.stats.preempted += 1
        jobs = len(set(map(id, map(itemgetter(0), choice.victims))))
        return (explain.waiting_for_victims(len(choice.victims), jobs), *reasons)

    def _evict(self, gang: Gang, ask: Ask, choice: Choice) -> None:
        """Write down who goes and hold the room; on the trial it is taken twice until they are gone."""
        cycle = self._cycle
        queues, names = cycle.view.queues, cycle.trial.nodes.names
        spec = queues[gang.queue].spec
        first = {running.queue: running for running, _ in choice.victims}
        whys = {
            name: explain.evicted_for(gang, spec, ask.groups, running, queues[name].spec)
            for name, running in first.items()
        }
        uid = gang.uid
        cycle.refills.leave(running.uid for running, _ in choice.victims)
        cycle.evictions += [Eviction(group.uid, pod.uid, uid, whys[group.queue]) for group, pod in choice.victims]
        for column, rows, counts in choice.places:
            cycle.recall.moved[rows] = True
            cycle.held.promise(column, rows, counts)
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                hold = Hold(gang.uid, names[row], column.pod_class, (), spec.priority, cycle.now, 0, False, VICTIMS)
                cycle.holds += [hold] * count
            if column.ports:
                for row in rows.tolist():
                    cycle.trial.occupy(column, row, {})
            else:
                cycle.trial.place_many(column, rows, counts, held=True)
