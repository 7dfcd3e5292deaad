"""Preemption and planned starts together, through random histories.

After every cycle: a plan moved later only for a queue of larger priority, and what runs, is promised or planned fits
on the nodes at every moment. Victims leave in the next cycle, and wait again.

The short form plays the same histories each time. The long form draws new ones.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from t9ksched.engine.plan import Plan
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS, Reservation
from tests.ahead import HOUR, Interval, Pool
from tests.builders import GPU, queue

CARDS = 2
RANKS = {"low": 1, "mid": 3, "firm": 3, "few": 3, "high": 5}
QUEUES = {
    name: queue(ordering="Backfill", priority=rank, preemptible=name != "firm", quota={GPU: 3} if name == "few" else {})
    for name, rank in RANKS.items()
}
SECOND = 1_000_000_000


class PreemptingPool(Pool):
    """Gangs of larger queues evict those of smaller ones, which leave when the next cycle begins.

    Attributes:
        promised: the room that gangs were promised in the latest cycle, by name. Who does not have it when the victims
            have left waits like any other.
    """

    def __init__(self, nodes: int, mode: str) -> None:
        super().__init__(nodes, CARDS, None, QUEUES)
        self.policy = Policy(actions=("allocate", "preempt"), planning=Planning(mode), starvation=None)  # type: ignore[arg-type]
        self.promised: dict[str, tuple[Reservation, ...]] = {}
        self.leaving: set[str] = set()

    def view(self, hour: float) -> View:
        seen = super().view(hour)
        promised = tuple(one for those in self.promised.values() for one in those)
        running = tuple(self._shown(name) for name in sorted(self.running))
        return replace(seen, running=running, reservations=(*seen.reservations, *promised))

    def _shown(self, name: str) -> Running:
        of, at, places = self.job(name)
        leaves = name in self.leaving
        pods = tuple(
            RunningPod(f"{name}-{nth}", f"ns/{name}-{nth}", "", of.waiting[0].pod_class, where, grant, leaves)  # type: ignore[arg-type]
            for nth, (where, grant) in enumerate(places)
        )
        return Running(name, of.name, of.queue, pods, created=of.created, started=at, min_member=len(pods))

    def cycle(self, hour: float) -> Plan:
        for name in self.leaving & self.running:
            of, _, _ = self.job(name)
            self.end(name)
            self._waiting[name] = of
        self.leaving.clear()
        found = super().cycle(hour)
        self.leaving = {one.gang for one in found.evictions}
        made: dict[str, list[Reservation]] = {}
        for one in found.reservations:
            made.setdefault(one.owner, []).append(one)
        self.promised = {owner: tuple(those) for owner, those in made.items()}
        return found

    def intervals(self, hour: float) -> list[Interval]:
        found = super().intervals(hour)
        for owner, those in self.promised.items():
            lasts = self.waiting[owner].lasts
            # At the latest it starts when the victims have left; a promise lasts somewhat longer.
            end = (those[0].until - PROMISE_SLACK_SECONDS * SECOND + lasts) / HOUR if lasts else 1e9
            each = those[0].pod_class.card_counts[GPU]
            found += [(hour, end, ("node", one.node), each, owner, 1000) for one in those]
        return found


class Histories(RuleBasedStateMachine):
    """Times are whole hours."""

    @initialize(nodes=st.integers(2, 5), mode=st.sampled_from(["Conservative", "EASY"]))
    def begin(self, nodes: int, mode: str) -> None:
        self.hour = 0
        self.pool = PreemptingPool(nodes, mode)
        self.count = 0
        self.runs: dict[str, int] = {}

    @rule(
        of=st.sampled_from(["low", "low", "mid", "mid", "firm", "few", "high"]),
        pods=st.integers(1, 5),
        cards=st.integers(1, CARDS),
        hours=st.sampled_from([0, 1, 2, 3, 5, 8]),
        early=st.integers(0, 2),
    )
    def submit(self, of: str, pods: int, cards: int, hours: int, early: int) -> None:
        """A job that runs as long as it may, or ends early, or never."""
        self.count += 1
        name = f"{of}-{self.count:03}"
        self.pool.submit(name, pods, hours, cards=cards, of=of)
        self.runs[name] = max(1, hours - early) if hours else 1000

    @rule(hours=st.sampled_from([0, 1, 1, 2]))
    def go_on(self, hours: int) -> None:
        """Time passes, with cycles at each hour until nothing changes."""
        for _ in range(hours):
            self.hour += 1
            for name in sorted(self.pool.running):
                if self.hour - self.pool.started[name] >= self.runs[name]:
                    self.pool.end(name)
            self.cycles()
        if not hours:
            self.cycles()

    def cycles(self) -> None:
        for _ in range(8):
            before, waited = self.pool.planned, set(self.pool.waiting)
            promised = set(self.pool.promised)
            self.pool.cycle(self.hour)
            gone = waited - set(self.pool.waiting)
            served = gone | (set(self.pool.promised) - promised)
            served |= {name for name, hour in self.pool.planned.items() if hour != before.get(name)}
            best = max((RANKS[name.split("-")[0]] for name in served), default=0)
            self.never_later(before, best)
            self.promised_once()
            if not gone and before == self.pool.planned:
                break

    def never_later(self, before: dict[str, float], best: int) -> None:
        for name, hour in before.items():
            if name in self.pool.waiting and name not in self.pool.promised and RANKS[name.split("-")[0]] >= best:
                now = self.pool.planned.get(name, 1e9)
                assert now <= hour, f"{name} was to start at {hour}, and is to start at {now}"

    def promised_once(self) -> None:
        """Of what victims leave and what is promised on a node, the larger counts: no gang has the room of victims
        before they have left, which may be never.
        """
        intervals = self.pool.intervals(self.hour)
        for moment in {begin for begin, *_ in intervals}:
            taken: dict[str, Counter[str]] = {}
            for begin, end, (what, name), cards, owner, _ in intervals:
                if begin <= moment < end and what == "node":
                    kinds = {"leaving": self.pool.leaving, "promised": self.pool.promised}
                    kind = next((kind for kind, those in kinds.items() if owner in those), "")
                    taken.setdefault(name, Counter())[kind] += cards
            for name, of in taken.items():
                cards = of[""] + max(of["leaving"], of["promised"])
                assert cards <= CARDS, f"{cards} cards of {name} are promised at hour {moment}"


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(
    SETTINGS, max_examples=40, stateful_step_count=25, phases=[Phase.generate], derandomize=True
)
TestHistories = Histories.TestCase


@pytest.mark.soak
def test_long_histories() -> None:
    run_state_machine_as_test(Histories, settings=settings(SETTINGS, max_examples=2000, stateful_step_count=50))


FAULTS = {
    "victims are taken without a look at plans": lambda: patch.object(PlannedStarts, "taken_from", lambda *_: None),
    "the ends of victims count for plans": lambda: patch.object(PlannedStarts, "taken_from", _with_their_ends),
}


def _with_their_ends(self: PlannedStarts, gang: object, going: object, delay: int) -> object:
    return self._lowest(gang, self._now, (), delay)  # type: ignore[arg-type]


@contextmanager
def blocked() -> Iterator[Histories]:
    """Two nodes: on one a gang that may be evicted, on the other one that may not, both for five hours; a gang of its
    queue's priority needs both and is to start then.
    """
    machine = Histories()
    machine.begin(nodes=2, mode="Conservative")
    for of in ("firm", "low"):
        machine.submit(of=of, pods=1, cards=2, hours=5, early=0)
    machine.go_on(hours=0)
    machine.submit(of="mid", pods=2, cards=2, hours=2, early=0)
    machine.go_on(hours=0)
    assert machine.pool.planned == {"mid-003": 5}
    yield machine


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str) -> None:
    with blocked() as machine:
        machine.submit(of="mid", pods=1, cards=1, hours=8, early=0)
        machine.go_on(hours=2)
    with blocked() as machine, FAULTS[fault]():
        machine.submit(of="mid", pods=1, cards=1, hours=8, early=0)
        with pytest.raises(AssertionError):
            machine.go_on(hours=2)


LEFT = """\
mid 1 2 0 2
low 5 1 5 2
go 0
high 2 1 1 0
go 2
go 0
mid 2 1 5 2
low 1 1 0 2
low 4 1 8 2
mid 4 2 0 0
go 0
go 0
low 5 2 3 1
mid 3 1 5 1
high 1 1 1 1
high 3 1 5 0
go 2
firm 1 1 5 0
mid 3 1 3 2
go 1"""
"""Queue, pods, cards of each, hours (0: no limit), hours that it ends early; or that time goes on."""


def test_a_victim_without_an_end_moves_no_plan_on_its_node() -> None:
    """A history in which a gang took one of two cards of a node while the other one was kept for a plan."""
    machine = Histories()
    machine.begin(nodes=3, mode="Conservative")
    for line in LEFT.split("\n"):
        of, *rest = line.split()
        if of == "go":
            machine.go_on(hours=int(rest[0]))
        else:
            pods, cards, hours, early = map(int, rest)
            machine.submit(of=of, pods=pods, cards=cards, hours=hours, early=early)
