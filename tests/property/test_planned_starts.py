"""Planned starts through random histories: jobs that end early, late and never, nodes that are lost and come back,
queues of several priorities with quotas, jobs that are withdrawn, a planner that forgets.

After every cycle: no plan moved later without a cause, no room is promised twice at any moment, and no job starts later
than its plan while all ends are in time. What a planner remembers changes nothing (`tests.ahead` compares).
"""

from collections import Counter
from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from t9ksched.engine import planned_starts
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.ends import Ends
from t9ksched.engine.memory import Memory
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.policy import Planning
from t9ksched.model.gang import Gang
from tests.ahead import HOUR, Interval, Pool
from tests.builders import GPU, queue

CARDS = 2
QUEUES = {
    "high": queue(ordering="Backfill", priority=5),
    "q": queue(ordering="Backfill"),
    "small": queue(ordering="Backfill", quota={GPU: 5}),
    "free": queue(ordering="BestEffort"),
}


class Histories(RuleBasedStateMachine):
    """Times are whole hours, so that ends and starts meet."""

    @initialize(nodes=st.integers(2, 5), mode=st.sampled_from(["Conservative", "Conservative", "EASY"]))
    def begin(self, nodes: int, mode: str) -> None:
        self.hour = 0
        self.pool = Pool(nodes, CARDS, Planning(mode), QUEUES)  # type: ignore[arg-type]
        self.names = list(self.pool.nodes.names)
        self.count = 0
        self.runs: dict[str, int] = {}
        self.excused = True

    @rule(
        of=st.sampled_from(["q", "q", "high", "small", "small", "free"]),
        pods=st.integers(1, 5),
        cards=st.integers(1, CARDS),
        hours=st.sampled_from([0, 1, 2, 2, 3, 5, 8]),
        early=st.integers(0, 3),
        priority=st.sampled_from([0, 0, 0, 3]),
    )
    def submit(self, of: str, pods: int, cards: int, hours: int, early: int, priority: int) -> None:
        """A job that runs as long as it may, or ends early, or never."""
        self.count += 1
        name = f"{of}-{self.count:03}"
        self.pool.submit(name, pods, hours, cards=cards, of=of, priority=priority)
        self.runs[name] = max(1, hours - early) if hours else 1000
        self.excused |= of == "high"

    @rule()
    def forget(self) -> None:
        """The scheduler starts again: it knows the plans, and nothing of how it came by them."""
        self.pool.memory = Memory()

    @rule(at=st.integers(0, 4))
    def lose(self, at: int) -> None:
        """A node goes with what runs there."""
        name = self.names[at % len(self.names)]
        if name in self.pool.nodes:
            for job in self.pool.on(name):
                self.pool.end(job)
            self.pool.nodes.remove(name)
        else:
            self.pool.bring(name, CARDS)
        self.excused = True

    @rule(at=st.integers(0, 20))
    def withdraw(self, at: int) -> None:
        waiting = sorted(self.pool.waiting)
        if waiting:
            self.pool.cancel(waiting[at % len(waiting)])

    @rule(hours=st.sampled_from([0, 1, 1, 2]), late=st.sampled_from([False, False, False, False, True]))
    def go_on(self, hours: int, late: bool) -> None:
        """Time passes from event to event, with a cycle at each. With `late`, nothing ends at its limit."""
        for _ in range(hours):
            self.hour += 1
            for name in sorted(self.pool.running):
                ran = self.hour - self.pool.started[name]
                over = ran >= self.runs[name]
                self.excused |= (over and late) or 0 < self.pool.limit(name) < ran
                if over and not late:
                    self.pool.end(name)
            self.cycle()
        if not hours:
            self.cycle()

    def cycle(self) -> None:
        before = self.pool.planned
        self.pool.cycle(self.hour)
        if not self.excused:
            self.never_later(before)
        self.excused = False
        self.promised_once()
        for _ in range(10):
            known = self.pool.planned, set(self.pool.waiting)
            self.pool.cycle(self.hour)
            if known == (self.pool.planned, set(self.pool.waiting)):
                break
        self.earliest()

    def never_later(self, before: dict[str, float]) -> None:
        for name, hour in before.items():
            if name in self.pool.waiting:
                assert self.pool.planned.get(name, 1e9) <= hour, f"{name} was to start at {hour}"
                assert hour > self.hour, f"{name} was to start at {hour} and waits"

    def promised_once(self) -> None:
        """Sums of what runs and what is planned, at every moment at which something begins."""
        intervals = self.pool.intervals(self.hour)
        for moment in {begin for begin, *_ in intervals}:
            taken: dict[tuple[str, str], int] = {}
            for begin, end, where, cards, _, _ in intervals:
                if begin <= moment < end:
                    taken[where] = taken.get(where, 0) + cards
            for (what, name), cards in taken.items():
                if what == "node":
                    assert cards <= CARDS, f"{cards} cards of {name} are promised at hour {moment}"
                elif (quota := QUEUES[name].spec.quota.get(GPU)) is not None:
                    assert cards <= quota, f"{cards} of {quota} of queue {name} are promised at hour {moment}"

    def earliest(self) -> None:
        """Once plans stand still, no job fits before its plan beside all others of at least its priority."""
        intervals = self.pool.intervals(self.hour)
        for name, hour in self.pool.planned.items():
            of = self.pool.waiting[name]
            others = [one for one in intervals if one[4] != name and one[5] >= QUEUES[of.queue].spec.priority]
            for start in sorted({self.hour, *(end for _, end, _, _, _, _ in others)}):
                if start >= hour:
                    break
                end = start + of.lasts / HOUR if of.lasts else 1e9
                assert not self.fits(of, others, start, end), f"{name} is planned for {hour} and fits at {start}"

    def fits(self, of: Gang, others: Iterable[Interval], start: float, end: float) -> bool:
        """Whether its pods find room on nodes, and its queue quota, all the time."""
        moments = {start, *(begin for begin, *_ in others if start < begin < end)}
        least: dict[tuple[str, str], int] = {}
        for moment in moments:
            taken = Counter[tuple[str, str]]()
            for begin, until, where, cards, _, _ in others:
                if begin <= moment < until:
                    taken[where] += cards
            for where, cards in taken.items():
                least[where] = max(least.get(where, 0), cards)
        each = of.waiting[0].pod_class.card_counts[GPU]
        quota = QUEUES[of.queue].spec.quota.get(GPU, 1000)
        if least.get(("queue", of.queue), 0) + each * len(of.waiting) > quota:
            return False
        rooms = sum((CARDS - least.get(("node", name), 0)) // each for name in self.pool.nodes.names)
        return rooms >= len(of.waiting)

    @invariant()
    def cards_are_there(self) -> None:
        if hasattr(self, "pool"):
            assert self.pool.cards_used() <= CARDS * len(self.names)


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(SETTINGS, max_examples=80, stateful_step_count=30)
TestHistories = Histories.TestCase


@pytest.mark.soak
def test_long_histories() -> None:
    run_state_machine_as_test(Histories, settings=settings(SETTINGS, max_examples=3000, stateful_step_count=60))


def _nothing_is_taken(self: PlannedStarts, gang: object) -> None:
    return None


def _ends_come_early(self: Ends, moment: int, then: int) -> Int64s:
    found = AT_LEAST(self, moment, then)
    return np.where(found > moment + HOUR, found - HOUR, found)


AT_LEAST = Ends.at_least
FAULTS = {
    "who starts now leaves no room to plans": lambda: patch.object(PlannedStarts, "taken", _nothing_is_taken),
    "ends are expected too early": lambda: patch.object(Ends, "at_least", _ends_come_early),
    "quota is not planned": lambda: patch.object(PlannedStarts, "_quota", lambda self, queue, demand: []),
    "plans of equal queues are not seen": lambda: patch.object(
        PlannedStarts, "focus", lambda self, gang: self.lift(self.blocks())
    ),
    "all is always as expected": lambda: patch.object(planned_starts.PastPlans, "as_expected", lambda *_: True),
}


Step = int | tuple[str, int, int] | tuple[str, int, int, int]
"""Hours that go by; or a job that comes: queue, pods of one card, hours it may run, and how much earlier it ends."""
BLOCKED: tuple[Step, ...] = (("q", 7, 5), 0, ("q", 8, 1), 0)
SHOWN: dict[str, tuple[Step, ...]] = {
    "who starts now leaves no room to plans": (*BLOCKED, ("q", 1, 8), 0),
    "ends are expected too early": (*BLOCKED, 5),
    "quota is not planned": (("small", 5, 5), ("small", 3, 5), ("small", 3, 5), 0),
    "plans of equal queues are not seen": (*BLOCKED, ("q", 1, 8), 0),
    "all is always as expected": (("q", 8, 5, 3), 0, ("q", 8, 5), 3),
}


def play(steps: Iterable[Step]) -> None:
    """A history that is written down, on four nodes of two cards."""
    machine = Histories()
    machine.begin(nodes=4, mode="Conservative")
    for step in steps:
        if isinstance(step, int):
            machine.go_on(step, late=False)
        else:
            of, pods, hours, *early = step
            machine.submit(of, pods, 1, hours, *(early or [0]), 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str) -> None:
    play(SHOWN[fault])
    with FAULTS[fault](), pytest.raises(AssertionError):
        play(SHOWN[fault])


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    dice = settings(SETTINGS, max_examples=1500, stateful_step_count=30, database=None, phases=[Phase.generate])
    with FAULTS[fault](), pytest.raises(AssertionError):
        run_state_machine_as_test(Histories, settings=dice)
