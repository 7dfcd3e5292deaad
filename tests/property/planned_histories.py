"""Random histories of planned starts: jobs that end early, late and never, nodes that are lost and come back, queues of
several priorities with quotas, jobs that are withdrawn, a planner that forgets, reservations by administrators that
come and go.

After every cycle the checks of `plan_checks.py` are made. What a planner remembers changes nothing (`tests.ahead`
compares).
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.policy import Planning
from tests.ahead import HOUR, Pool
from tests.builders import GPU
from tests.property.plan_checks import CARDS, QUEUES, PlanChecks


class Histories(PlanChecks, RuleBasedStateMachine):
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
            there = {job for job, (_, nodes) in places.items() if set(nodes) <= set(self.pool.open_nodes)}
            stood = {job for job in there if (now := self.places().get(job)) and now[0] == places[job][0]}
            self.in_order(before, running, stood, there, promised)
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

    @invariant()
    def cards_are_there(self) -> None:
        if hasattr(self, "pool"):
            assert self.pool.cards_used() <= CARDS * len(self.names)


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
