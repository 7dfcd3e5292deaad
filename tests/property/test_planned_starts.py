"""Planned starts through random histories: jobs that end early, late and never, nodes that are lost and come back,
queues of several priorities with quotas, jobs that are withdrawn, a planner that forgets, reservations by
administrators that come and go.

After every cycle: no plan moved later without a cause, no room is promised twice at any moment, no job starts later
than its plan while all ends are in time, and who starts leaves reserved room to those it is for. What a planner
remembers changes nothing (`tests.ahead` compares).
"""

from collections import Counter
from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from t9ksched.engine import planned_starts, planner
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.blocks import NEVER_ENDS
from t9ksched.engine.ends import Ends
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.memory import Memory
from t9ksched.engine.order import Firm
from t9ksched.engine.past_plans import Deviation
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.policy import Planning
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.windows import Windows
from t9ksched.model.gang import Gang
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.start_windows import StartWindow
from tests.ahead import HOUR, MINUTE, Interval, Pool
from tests.builders import GPU, queue

CARDS = 2
DAY = 24
OPEN = ((2, 4), (7, 8), (11, 14), (17, 19), (23, 1))
"""The hours of a day between which the queue `night` starts jobs."""
QUEUES = {
    "high": queue(ordering="Backfill", priority=5),
    "q": queue(ordering="Backfill"),
    "small": queue(ordering="Backfill", quota={GPU: 5}),
    "free": queue(ordering="BestEffort"),
    "night": queue(ordering="Backfill", start_windows=tuple(StartWindow(begin=a * 60, end=b * 60) for a, b in OPEN)),
}


def may_start(of: str, hour: float) -> bool:
    """Whether the queue starts jobs then; hours count from the begin of a day."""
    now = hour % DAY
    return of != "night" or any(begin <= now < end or (end < begin and not end <= now < begin) for begin, end in OPEN)


class Histories(RuleBasedStateMachine):
    """Times are whole hours, so that ends and starts meet."""

    @initialize(
        nodes=st.integers(2, 5),
        mode=st.sampled_from(["Conservative", "Conservative", "EASY"]),
        alike=st.booleans(),
        most=st.sampled_from([1, 3, 10, 10]),
    )
    def begin(self, nodes: int, mode: str, alike: bool = False, most: int = 10) -> None:
        """With `alike` all pods have one card; at most so many jobs of a queue have a plan."""
        self.hour = 0
        self.alike = alike
        self.pool = Pool(nodes, CARDS, Planning(mode, per_queue=most), QUEUES)  # type: ignore[arg-type]
        self.names = list(self.pool.nodes.names)
        self.count = 0
        self.runs: dict[str, int] = {}
        self.excused = True

    @rule(
        of=st.sampled_from(["q", "q", "high", "small", "small", "free", "night", "night"]),
        pods=st.sampled_from([1, 1, 2, 2, 3, 4, 5, 6, 8]),
        cards=st.integers(1, CARDS),
        hours=st.sampled_from([0, 1, 2, 2, 3, 5, 8]),
        early=st.integers(0, 3),
        priority=st.sampled_from([0, 0, 0, 3]),
        inside=st.sampled_from([False, False, True]),
    )
    def submit(
        self, of: str, pods: int, cards: int, hours: int, early: int, priority: int, inside: bool = False
    ) -> None:
        """A job that runs as long as it may, or ends early, or never; with `inside` it names a reservation."""
        self.count += 1
        name, cards = f"{of}-{self.count:03}", 1 if self.alike else cards
        reservation = next(iter(sorted(self.pool.rooms)), "") if inside else ""
        self.pool.submit(name, pods, hours, cards=cards, of=of, priority=priority, reservation=reservation)
        self.runs[name] = max(1, hours - early) if hours else 1000
        self.excused |= of == "high"

    @rule(
        at=st.integers(0, 4),
        nodes=st.integers(1, 3),
        ahead=st.integers(-1, 5),
        hours=st.integers(1, 6),
        of=st.sampled_from(["", "q", "free"]),
        part=st.booleans(),
        drain=st.integers(0, 3),
    )
    def reserve(self, at: int, nodes: int, ahead: int, hours: int, of: str, part: bool, drain: int) -> None:
        """An administrator reserves nodes, or a card of each, for a queue or for maintenance."""
        self.count += 1
        names = [self.names[(at + more) % len(self.names)] for more in range(min(nodes, len(self.names)))]
        begin, fields = self.hour + ahead, {"queues": (of,) if of else (), "cards": (GPU, 1) if part else None}
        self.pool.reserve(f"r{self.count:03}", begin, begin + hours, names, drain=drain, **fields)
        self.excused = True

    @rule(at=st.integers(0, 5))
    def give_up_reservation(self, at: int) -> None:
        if self.pool.rooms:
            del self.pool.rooms[sorted(self.pool.rooms)[at % len(self.pool.rooms)]]
            self.excused = True

    @rule(at=st.integers(0, 5), hours=st.integers(-3, 3))
    def edit_reservation(self, at: int, hours: int) -> None:
        """It ends earlier, or later, than was said: what runs inside goes on until its own end."""
        if self.pool.rooms:
            name = sorted(self.pool.rooms)[at % len(self.pool.rooms)]
            room = self.pool.rooms[name]
            end = max(room.end + hours * HOUR, room.begin + HOUR)
            self.pool.rooms[name] = structs.replace(room, end=end)
            self.excused = True

    @rule(at=st.integers(0, 20), hours=st.sampled_from([0, 1, 2, 5]))
    def limit_anew(self, at: int, hours: int) -> None:
        """A running job may run so much longer from now on, or for ever."""
        running = sorted(self.pool.running)
        if running:
            name = running[at % len(running)]
            self.pool.limit_anew(name, self.hour - self.pool.started[name] + hours if hours else 0)
            self.excused = True

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

    @rule(at=st.integers(0, 4))
    def cordon(self, at: int) -> None:
        """A node is closed, or open again."""
        name = self.names[at % len(self.names)]
        if name in self.pool.nodes:
            self.pool.cordon(name, CARDS)
            self.excused = True

    @precondition(lambda self: not self.pool.rooms)
    @rule(at=st.integers(0, 20))
    def lose_member(self, at: int) -> None:
        """A job loses a pod."""
        running = sorted(self.pool.running)
        if running:
            self.pool.lose_member(running[at % len(running)])

    @rule()
    def give_up_kept(self) -> None:
        self.pool.give_up_kept()

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
                over = ran >= min(self.runs[name], self.pool.limit(name) or 1000)
                self.excused |= (over and late) or 0 < self.pool.limit(name) < ran
                if over and not late:
                    self.pool.end(name)
            self.cycle()
        if not hours:
            self.cycle()

    def cycle(self) -> None:
        before, running, waited = self.pool.planned, self.pool.running, set(self.pool.waiting)
        places, promised = self.places(), self.pool.intervals(self.hour)
        self.pool.cycle(self.hour)
        self.heed_reservations(self.pool.running - running)
        self.inside_windows()
        # A gang of a larger priority may take room of plans when it starts or gets a plan, or an earlier one.
        begun = waited - set(self.pool.waiting) | {name for name, _ in self.pool.planned.items() - before.items()}
        begun -= {name for name, hour in before.items() if hour == self.hour}
        self.excused |= any(name.startswith("high") for name in begun)
        if not self.excused:
            self.never_later(before)
        self.excused = False
        if self.alike and not self.pool.rooms:
            stood = {job for job, where in places.items() if self.places().get(job) == where}
            self.in_order(before, running, stood, promised)
        self.promised_once()
        for _ in range(10):
            known, running = (self.pool.planned, set(self.pool.waiting)), self.pool.running
            self.pool.cycle(self.hour)
            self.heed_reservations(self.pool.running - running)
            if known == (self.pool.planned, set(self.pool.waiting)):
                break
        self.plans_heed_reservations()
        if not any(room.end > self.hour * HOUR for room in self.pool.rooms.values()):
            self.earliest()

    def heed_reservations(self, started: Iterable[str]) -> None:
        """Each of the jobs that have just started may have the places that it got."""
        for name in started:
            of, _, places = self.pool.job(name)
            self.heed(name, of, self.hour, {where for where, _ in places})

    def plans_heed_reservations(self) -> None:
        """Once plans stand still, each job may start when and where it is to."""
        nodes: dict[str, set[str]] = {}
        for one in self.pool.plans:
            nodes.setdefault(one.owner, set()).add(one.node)
        for name, hour in self.pool.planned.items():
            self.heed(name, self.pool.waiting[name], hour, nodes[name])

    def heed(self, name: str, of: Gang, hour: float, nodes: set[str]) -> None:
        """The job may start then on these nodes."""
        for room in self.pool.rooms.values():
            begin, end = room.begin / HOUR, room.end / HOUR
            named = bool(of.reservation) and room.name == of.reservation
            until = hour + of.lasts / HOUR if of.lasts else end if named else 1e9
            inside = room.admits(of) and hour < end and until <= end
            if named:
                assert inside, f"{name} would outlast {room.name}"
                assert begin <= hour, f"{name} is not in {room.name}"
                assert nodes <= set(room.nodes)
            if inside or hour >= end or until <= begin:
                continue
            if not of.lasts and not of.reservation and hour < room.drain / HOUR:
                continue
            for where in nodes & set(room.nodes):
                assert room.cards is not None, f"{name} has room of {room.name} on {where}"
                self.leaves(room, where, max(begin, hour), min(end, until))

    def leaves(self, room: ReservedRoom, where: str, begin: float, end: float) -> None:
        """What is reserved of the node is free then, or used by those that it is for and end with it."""
        assert room.cards is not None
        held = []
        for name in self.pool.running:
            of, at, places = self.pool.job(name)
            cards = of.waiting[0].pod_class.card_counts[GPU] * sum(there == where for there, _ in places)
            until = max((at + of.lasts) / HOUR, self.hour + MINUTE / HOUR) if of.lasts else 1e9
            held.append((0, until, cards, room.admits(of) and bool(of.lasts) and (at + of.lasts) <= room.end))
        for one in self.pool.plans:
            if one.node == where and one.owner in self.pool.waiting:
                of, until = self.pool.waiting[one.owner], one.until / HOUR or 1e9
                cards, inside = one.pod_class.card_counts[GPU], room.admits(of) and until <= room.end / HOUR
                held.append((one.since / HOUR, until, cards, inside))
        for moment in {begin, *(at for since, until, *_ in held for at in (since, until) if begin < at < end)}:
            there = [(cards, inside) for since, until, cards, inside in held if since <= moment < until]
            inside = sum(cards for cards, inside in there if inside)
            free = CARDS - sum(cards for cards, _ in there) + min(inside, room.cards[1])
            assert free >= room.cards[1], f"of {room.name} on {where} {free} are left at {moment}"

    def never_later(self, before: dict[str, float]) -> None:
        for name, hour in before.items():
            if name in self.pool.waiting:
                assert self.pool.planned.get(name, 1e9) <= hour, f"{name} was to start at {hour}"
                assert hour > self.hour, f"{name} was to start at {hour} and waits"

    def places(self) -> dict[str, tuple[float, list[str]]]:
        """When and where each job with a plan is to start, or has just started."""
        found: dict[str, tuple[float, list[str]]] = {}
        for one in self.pool.plans:
            found.setdefault(one.owner, (one.since / HOUR, []))[1].append(one.node)
        for name in self.pool.running:
            if self.pool.started[name] == self.hour:
                found[name] = self.hour, [where for where, _ in self.pool.job(name)[2]]
        return {name: (hour, sorted(nodes)) for name, (hour, nodes) in found.items()}

    def in_order(
        self, before: dict[str, float], running: set[str], stood: set[str], promised: Iterable[Interval]
    ) -> None:
        """A plan that was moved later is held up by what ran, by queues of larger priority, by plans of jobs that came
        before, and by those that were earlier and came about as they were (`stood`): by no job without a plan, and by
        none that came later and was moved itself, or was to start later. A job that came before may have its turn
        after it, and only then leave room that was `promised` to it: the next cycle makes use of that.
        """
        intervals, rank = self.pool.intervals(self.hour), {name: state.spec.priority for name, state in QUEUES.items()}
        turn = {name: (hour, self.pool.created(name)) for name, hour in before.items()}
        for name, hour in before.items():
            now = self.pool.planned.get(name, self.hour + 300)
            if name not in self.pool.waiting or now <= hour:
                continue
            of = self.pool.waiting[name]
            older = {other for other in turn if self.pool.created(other) < self.pool.created(name)}
            earlier = {other for other, when in turn.items() if when < turn[name]}
            ahead = earlier & stood | older
            others = [
                one
                for one in intervals
                if one[4] in running or one[4] in ahead or rank[one[4].partition("-")[0]] > rank[of.queue]
            ]
            others += [one for one in promised if one[4] in older - stood - running]
            self.none_earlier(of, others, now)

    def inside_windows(self) -> None:
        """Jobs start, and are planned to start, only when their queue starts jobs."""
        for name, hour in (*self.pool.started.items(), *self.pool.planned.items()):
            of = name.partition("-")[0]
            assert may_start(of, hour), f"{name} starts at {hour}"

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
            self.none_earlier(of, others, hour)

    def none_earlier(self, of: Gang, others: Iterable[Interval], hour: float) -> None:
        """The job does not fit beside the others before that hour."""
        opens = {day * DAY + begin for day in range(20) for begin, _ in OPEN} if of.queue == "night" else set()
        for start in sorted({self.hour, *(end for _, end, _, _, _, _ in others), *opens}):
            if start >= hour:
                break
            if start < self.hour or not may_start(of.queue, start):
                continue
            end = start + of.lasts / HOUR if of.lasts else 1e9
            assert not self.fits(of, others, start, end), f"{of.uid} is planned for {hour} and fits at {start}"

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
        rooms = sum((CARDS - least.get(("node", name), 0)) // each for name in self.pool.open_nodes)
        return rooms >= len(of.waiting)

    @invariant()
    def cards_are_there(self) -> None:
        if hasattr(self, "pool"):
            assert self.pool.cards_used() <= CARDS * len(self.names)


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(SETTINGS, max_examples=80, stateful_step_count=30)
TestHistories = Histories.TestCase


class Crowded(Histories):
    """Histories in which many jobs wait at a time."""

    @rule(
        jobs=st.lists(
            st.tuples(
                st.sampled_from(["q", "q", "q", "high", "free", "small", "night"]),
                st.sampled_from([2, 3, 4, 5, 6, 7, 8, 10]),
                st.sampled_from([1, 2, 3, 5, 8]),
                st.sampled_from([0, 0, 0, 1, 2]),
                st.sampled_from([0, 0, 3]),
            ),
            min_size=1,
            max_size=6,
        ),
        hours=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def come(self, jobs: list[tuple[str, int, int, int, int]], hours: int) -> None:
        """Jobs of pods with one card come one after the other; time goes by after the last."""
        for of, pods, length, early, priority in jobs:
            self.submit(of, min(pods, CARDS * len(self.names)), 1, length, early, priority)
            self.go_on(0, late=False)
        self.go_on(hours, late=False)


@pytest.mark.soak
def test_long_histories() -> None:
    run_state_machine_as_test(Crowded, settings=settings(SETTINGS, max_examples=3000, stateful_step_count=60))


def _nothing_is_taken(self: PlannedStarts, gang: object, *, lends: bool = False) -> None:
    return None


def _ends_come_early(self: Ends, moment: int, then: int) -> Int64s:
    found = AT_LEAST(self, moment, then)
    return np.where(found > moment + HOUR, found - HOUR, found)


AT_LEAST = Ends.at_least
FAULTS = {
    "who starts now leaves no room to plans": lambda: patch.multiple(
        PlannedStarts, taken=_nothing_is_taken, places=lambda *_: None
    ),
    "ends are expected too early": lambda: patch.object(Ends, "at_least", _ends_come_early),
    "quota is not planned": lambda: patch.multiple(
        FutureCharges, payable=lambda *_: [], pays_until=lambda *_: NEVER_ENDS
    ),
    "plans of equal queues are not seen": lambda: patch.object(
        PlannedStarts, "focus", lambda self, rank: self.lift(self.blocks())
    ),
    "plans keep no order": lambda: patch.object(planner, "Firm", lambda lines, specs, _: Firm(lines, specs, {})),
    "plans heed no windows": lambda: patch.object(Windows, "_steps", lambda self, gang, until: None),
    "all is always as expected": lambda: patch.object(
        planned_starts.PastPlans, "as_expected", lambda *_: Deviation(None, 0)
    ),
}


Step = int | tuple[str, int, int] | tuple[str, int, int, int]
"""Hours that go by; or a job that comes: queue, pods of one card, hours it may run, and how much earlier it ends."""
BLOCKED: tuple[Step, ...] = (("q", 7, 5), 0, ("q", 8, 1), 0)
SHOWN: dict[str, tuple[Step, ...]] = {
    "who starts now leaves no room to plans": (*BLOCKED, ("q", 1, 8), 0),
    "ends are expected too early": (*BLOCKED, 5),
    "quota is not planned": (("small", 5, 5), ("small", 3, 5), ("small", 3, 5), 0),
    "plans of equal queues are not seen": (*BLOCKED, ("q", 1, 8), 0),
    "plans keep no order": (("q", 5, 5), 0, ("q", 7, 2), 0, ("free", 7, 2), 0, ("high", 8, 1), 0),
    "plans heed no windows": (*BLOCKED, ("night", 8, 1), 0),
    "all is always as expected": (("q", 8, 5, 3), 0, ("q", 8, 5), 3),
}


def play(steps: Iterable[Step]) -> None:
    """A history that is written down, on four nodes of two cards."""
    machine = Histories()
    machine.begin(nodes=4, mode="Conservative", alike=True)
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


def reserved_history(*, part: bool) -> None:
    """Jobs that come before and while room of two of four nodes is reserved for another queue."""
    machine = Histories()
    machine.begin(nodes=4, mode="Conservative")
    machine.reserve(at=0, nodes=2, ahead=3, hours=4, of="free", part=part, drain=1)
    for hours in (3, 5, 0, 2):
        machine.submit("q", 3, 1, hours, 0, 0)
        machine.submit("free", 1, 1, hours, 0, 0, inside=True)
        machine.go_on(2, late=False)


@pytest.mark.parametrize("part", [False, True], ids=["whole nodes", "a card of each"])
def test_a_reservation_that_is_not_heeded_is_noticed(part: bool) -> None:
    reserved_history(part=part)
    with patch.object(ReservedRooms, "heeded", lambda *_, **__: None), pytest.raises(AssertionError):
        reserved_history(part=part)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    dice = settings(SETTINGS, max_examples=1500, stateful_step_count=30, database=None, phases=[Phase.generate])
    with FAULTS[fault](), pytest.raises(AssertionError):
        run_state_machine_as_test(Crowded, settings=dice)
