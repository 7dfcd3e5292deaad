"""What planned starts must keep to, checked on the pool of `tests.ahead` after a cycle. Times are whole hours.

No plan moved later without a cause, no room is promised twice at any moment, no job starts later than its plan while
all ends are in time, and who starts leaves reserved room to those it is for.
"""

from collections import Counter
from collections.abc import Iterable

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


class PlanChecks:
    """Checks of a pool at an hour.

    Attributes:
        pool: the cluster and its jobs.
        hour: which it is.
    """

    pool: Pool
    hour: int

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
                self.leaves(room, where, max(begin, hour), min(end, until), hour)

    def leaves(self, room: ReservedRoom, where: str, begin: float, end: float, hour: float) -> None:
        """What is reserved of the node is free then, or used by those that it is for and end with it; or by jobs
        without an end that may take it, and may have come after what began at `hour`.
        """
        assert room.cards is not None
        held = []

        def may_take(of: Gang, at: float) -> bool:
            return not of.lasts and not of.reservation and hour <= at < room.drain / HOUR

        for name in self.pool.running:
            of, at, places = self.pool.job(name)
            if may_take(of, at / HOUR):
                continue
            cards = of.waiting[0].pod_class.card_counts[GPU] * sum(there == where for there, _ in places)
            until = max((at + of.lasts) / HOUR, self.hour + MINUTE / HOUR) if of.lasts else 1e9
            held.append((0, until, cards, room.admits(of) and bool(of.lasts) and (at + of.lasts) <= room.end))
        for one in self.pool.plans:
            if one.node == where and one.owner in self.pool.waiting:
                of, until = self.pool.waiting[one.owner], one.until / HOUR or 1e9
                if may_take(of, one.since / HOUR):
                    continue
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
        self,
        before: dict[str, float],
        running: set[str],
        stood: set[str],
        there: set[str],
        promised: Iterable[Interval],
    ) -> None:
        """A plan that was moved later is held up by what ran, by queues of larger priority, by plans of jobs that came
        before, and by those that were earlier, whose nodes are `there`, and that keep their moment (`stood`): by no job
        without a plan, and by none that came later and was moved later itself, or was to start later. Others may hold
        it up where they were `promised` room: a job that came before may have its turn after it, and only then leave
        that room, which the next cycle makes use of; one that was earlier may start sooner than it was to, or be moved
        later only then.
        """
        intervals, rank = self.pool.intervals(self.hour), {name: state.spec.priority for name, state in QUEUES.items()}
        turn = {name: (hour, self.pool.created(name)) for name, hour in before.items()}
        for name, hour in before.items():
            now = self.pool.planned.get(name, self.hour + 300)
            if name not in self.pool.waiting or now < hour + 1.5 * MINUTE / HOUR:
                continue  # a plan that slips by the resolution of plans, a minute, keeps its place
            of = self.pool.waiting[name]
            older = {other for other in turn if self.pool.created(other) < self.pool.created(name)}
            earlier = {other for other, when in turn.items() if when < turn[name]}
            ahead = earlier & stood | older
            sooner = {other for other in earlier if self.pool.planned.get(other, self.hour) < before[other]}
            others = [
                one
                for one in intervals
                if one[4] in running or one[4] in ahead or rank[one[4].partition("-")[0]] > rank[of.queue]
            ]
            others += [one for one in promised if one[4] in (older | sooner | earlier & there) - stood - running]
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
