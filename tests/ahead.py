"""A small cluster on virtual time, on which the planner plans starts ahead: jobs come and end as a test says."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from unittest.mock import patch

from msgspec import structs

from t9ksched.engine.actions.passed_over import PassedOver
from t9ksched.engine.memory import Memory
from t9ksched.engine.plan import Plan
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy, Starvation
from t9ksched.engine.view import QueueState, View, dump, load
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD, CARDS
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.reserved_room import ReservedRoom
from tests.builders import GPU, gang, node, pod_class, queue, table

HOUR = 3_600_000_000_000
MINUTE = HOUR // 60
Interval = tuple[float, float, tuple[str, str], int, str, int]
"""From when to when, on which node or of which queue, how many cards, whose, and the priority of the queue."""


class Pool:
    """Alike nodes with cards, and the jobs on them. Times are hours.

    Attributes:
        started: when each job started, by name.
        planned: the start that is planned for each waiting job that has one, by name.
        rooms: what is reserved by administrators, by name.
        closed: nodes that are cordoned.
    """

    def __init__(
        self,
        nodes: int = 10,
        cards: int = 1,
        planning: Planning | None = Planning(),
        queues: Mapping[str, QueueState] | None = None,
        *,
        facts: Iterable[NodeFacts] = (),
        starvation: Starvation | None = None,
        delay: int = 0,
        compares: bool = True,
    ) -> None:
        """So many nodes with so many cards, or those of `facts`; what starts is counted to have done so as many
        nanoseconds as `delay` later. `compares` says that each plan is made anew without memory, see `cycle`.
        """
        self._delay = delay
        self._compares = compares
        self.nodes = table(facts or (node(f"n{at:03}", gpu=cards, cpu=1000, pods=1000) for at in range(nodes)))
        self.policy = Policy(planning=planning, starvation=starvation)
        self.memory = Memory()
        self._queues = dict(queues or {"q": queue(ordering="Backfill")})
        self._waiting: dict[str, Gang] = {}
        self._running: dict[str, tuple[Gang, int, list[tuple[str, CardGrant]]]] = {}
        self._reservations: tuple[Reservation, ...] = ()
        self._age = 0
        self.rooms: dict[str, ReservedRoom] = {}
        self._kept: dict[str, list[str]] = {}
        """Nodes on which room is kept for lost members, by job."""
        self.closed: set[str] = set()
        self.started: dict[str, float] = {}

    def submit(
        self,
        name: str,
        pods: int,
        hours: float = 0,
        *,
        cards: int = 1,
        of: str = "q",
        priority: int = 0,
        user: str = "",
        reservation: str = "",
        of_class: PodClass | None = None,
    ) -> None:
        """A gang of so many pods comes, of a class or with so many cards each; it runs no longer than `hours`, or for
        ever when that is 0.
        """
        self._age += 1
        asked = of_class or pod_class(cpu=0, memory=0, gpu=cards)
        made = gang(name, of, pods, of=asked, created=self._age, priority=priority)
        lasts = round(hours * HOUR)
        self._waiting[name] = structs.replace(made, lasts=lasts, user=user, reservation=reservation)

    def reserve(
        self, name: str, begin: float, end: float, nodes: Sequence[int | str], *, drain: float = 24, **fields: object
    ) -> None:
        """An administrator reserves these nodes, by number or name, from `begin` to `end`; `drain` hours ahead no job
        without an end starts there. `fields` are those of a `ReservedRoom`.
        """
        names = tuple(f"n{one:03}" if isinstance(one, int) else one for one in nodes)
        times = (round(begin * HOUR), round(end * HOUR), round((begin - drain) * HOUR))
        self.rooms[name] = ReservedRoom(name, *times, names, **fields)  # type: ignore[arg-type]

    def _reserved(self, now: int) -> tuple[ReservedRoom, ...]:
        """What is reserved, with what jobs inside hold."""
        found = []
        for room in self.rooms.values():
            inside = [
                (name, where, of.waiting[0].pod_class, 1)
                for name, (of, at, places) in self._running.items()
                if room.admits(of) and of.lasts and at + of.lasts <= room.end
                for where, _ in places
                if where in room.nodes
            ]
            if room.end > now:
                found.append(structs.replace(room, inside=tuple(inside)))
        return tuple(found)

    def change_queue(self, name: str, state: QueueState) -> None:
        """An administrator changes a queue."""
        self._queues[name] = state

    def ask_anew(self, name: str, pods: int, *, cards: int = 1) -> None:
        """The waiting job asks for so many pods from now on, each with so many cards; it is as old as it was."""
        had = self._waiting[name]
        of = pod_class(cpu=0, memory=0, gpu=cards)
        made = gang(name, had.queue, pods, of=of, created=had.created, priority=had.priority)
        self._waiting[name] = structs.replace(made, lasts=had.lasts, user=had.user, reservation=had.reservation)

    def cancel(self, name: str) -> None:
        """The job waits no longer."""
        del self._waiting[name]

    def end(self, name: str) -> None:
        """The job has ended."""
        of, _, places = self._running.pop(name)
        self._kept.pop(name, None)
        for where, grant in places:
            self.nodes.discharge(self.nodes.row(where), of.waiting[0].pod_class, grant)

    def limit_anew(self, name: str, hours: float) -> None:
        """The running job may run so long, from its start on, or for ever when that is 0."""
        of, at, places = self._running[name]
        self._running[name] = structs.replace(of, lasts=round(hours * HOUR)), at, places

    def is_free(self, row: int) -> bool:
        """Whether a card of the node is."""
        view = self.nodes.freeze()
        return bool(view.free()[view.static.resources.index(GPU), row] > 0)

    def lose_member(self, name: str) -> None:
        """The running job loses a pod, and its room is kept for another; the job ends when it was to."""
        of, _, places = self._running[name]
        if places:
            where, grant = places.pop()
            self.nodes.discharge(self.nodes.row(where), of.waiting[0].pod_class, grant)
            self._kept.setdefault(name, []).append(where)

    def replace_member(self, name: str) -> None:
        """The running job loses a pod for good, and another scheduler's pod, which never ends, has its room at once."""
        self.lose_member(name)
        where = self._kept.pop(name)[0]
        self.nodes.charge(self.nodes.row(where), self._running[name][0].waiting[0].pod_class)

    def limited(self, name: str, hours: float) -> None:
        """The running job may run so long in all from now on."""
        of, *rest = self._running[name]
        self._running[name] = (structs.replace(of, lasts=round(hours * HOUR)), *rest)

    def change(self, name: str, **fields: object) -> None:
        """The waiting job is another one in these fields of a `Gang`."""
        self._waiting[name] = structs.replace(self._waiting[name], **fields)

    def give_up_kept(self) -> None:
        """No room is kept any more: what has lost members ends, member by member."""
        for name in sorted(self._kept):
            self.end(name)

    def cordon(self, name: str, cards: int) -> None:
        """The node is closed, or open again; what runs there goes on."""
        self.closed ^= {name}
        self.nodes.upsert(node(name, gpu=cards, cpu=1000, pods=1000, unschedulable=name in self.closed))

    def view(self, hour: float) -> View:
        """What the planner sees then."""
        used: dict[str, dict[str, int]] = {}
        expected_ends = []
        for name, (of, at, places) in self._running.items():
            charged = used.setdefault(of.queue, {})
            for resource, units in of.waiting[0].pod_class.requests:
                charged[resource] = charged.get(resource, 0) + units * len(places)
            if any(CARDS in state.spec.quota for state in self._queues.values()):
                cards = of.waiting[0].pod_class.card_counts.get(GPU, 0)
                charged[CARDS] = charged.get(CARDS, 0) + CARD * cards * len(places)
            if of.lasts:
                rooms = tuple((where, of.waiting[0].pod_class, 1) for where, _ in places)
                parts = tuple((where, grant.divided) for where, grant in places if grant.parts)
                expected_ends.append(ExpectedEnd(name, of.queue, at + of.lasts, rooms, parts))
        queues = {name: structs_of(state, used.get(name, {})) for name, state in self._queues.items()}
        gangs = (*self._waiting.values(), *map(self._without_members, self._kept))
        reserved, ends = self._reserved(round(hour * HOUR)), tuple(expected_ends)
        reservations = (*self._refills(), *self._reservations)
        return View(self.nodes.freeze(), queues, gangs, reservations, expected_ends=ends, reserved=reserved)

    def _without_members(self, name: str) -> Gang:
        """The running job that has lost members: no pod of it waits."""
        of, _, places = self._running[name]
        placed = (("", len(places)),) if places else ()
        left = {"total": len(places), "total_roles": placed, "placed": placed}
        return structs.replace(of, waiting=(), refilling=True, ran=True, **left)

    def _refills(self) -> Iterator[Reservation]:
        """Room that is kept."""
        for name, nodes in self._kept.items():
            of, at, _ = self._running[name]
            for where in nodes:
                of_class, kind = of.waiting[0].pod_class, ReservationKind.REFILL
                yield Reservation(name, where, of_class, kind, since=at, queue=of.queue)

    def cycle(self, hour: float) -> Plan:
        """Plan at that hour, and start what the plan says. A view that was written and read gives the same plan, and so
        does a planner that looks at every gang with a plan anew and gives each of the others its turn.
        """
        now = round(hour * HOUR)
        seen = self.view(hour)
        found = plan(seen, self.policy, now, self.memory)
        if self._compares:
            self._compare(seen, now, found)
        for one in found.assignments:
            of = self._waiting[one.gang]
            if of.reservation and not of.lasts:
                # It gets the rest of the reservation as its limit.
                of = structs.replace(of, lasts=self.rooms[of.reservation].end - now)
            self._running.setdefault(one.gang, (of, now + self._delay, []))[2].append((one.node, one.grant))
            self.nodes.charge(self.nodes.row(one.node), of.waiting[0].pod_class, one.grant)
        for name in {one.gang for one in found.assignments}:
            del self._waiting[name]
            self.started[name] = hour
        self._reservations = found.planned
        return found

    def _compare(self, seen: View, now: int, found: Plan) -> None:
        with (
            patch.object(PlannedStarts, "rests", lambda *_: iter(())),
            patch.object(PassedOver, "of", lambda *_: None),
        ):
            again = plan(load(dump(seen)), self.policy, now)
        assert structs.replace(again, stats=found.stats).to_bytes() == found.to_bytes(), "memory spares work alone"

    @property
    def planned(self) -> dict[str, float]:
        """The hour of each planned start."""
        return {one.owner: one.since / HOUR for one in self._reservations}

    @property
    def plans(self) -> tuple[Reservation, ...]:
        """The planned starts, one reservation a pod."""
        return self._reservations

    @property
    def waiting(self) -> dict[str, Gang]:
        """The jobs that wait, by name."""
        return self._waiting

    @property
    def open_nodes(self) -> list[str]:
        """The nodes that take jobs."""
        return [name for name in self.nodes.names if name not in self.closed]

    def created(self, name: str) -> int:
        """The age of a job that waits or runs; 0 for others."""
        running = self._running.get(name)
        of = self._waiting.get(name) or (running[0] if running is not None else None)
        return of.created if of is not None else 0

    @property
    def running(self) -> set[str]:
        """The jobs that run."""
        return set(self._running)

    def limit(self, name: str) -> float:
        """How long the running job may run; 0 for ever."""
        return self._running[name][0].lasts / HOUR

    def job(self, name: str) -> tuple[Gang, int, list[tuple[str, CardGrant]]]:
        """The running job: its gang, when it started, and its nodes with their cards."""
        return self._running[name]

    def on(self, name: str) -> list[str]:
        """The jobs that have pods on the node, or room kept there."""
        return [
            job
            for job, (_, _, places) in self._running.items()
            if name in self._kept.get(job, ()) or any(where == name for where, _ in places)
        ]

    def bring(self, name: str, cards: int) -> None:
        """A node comes, or comes back."""
        self.closed.discard(name)
        self.nodes.upsert(node(name, gpu=cards, cpu=1000, pods=1000))

    def intervals(self, hour: float) -> list[Interval]:
        """What is held, and what is planned to be.

        A job that is overdue holds its cards for a minute more.
        """
        found = []
        for name, (of, at, places) in self._running.items():
            rank = 1000  # what runs gives way to nothing
            end = max((at + of.lasts) / HOUR, hour + MINUTE / HOUR) if of.lasts else 1e9
            each = of.waiting[0].pod_class.card_counts[GPU]
            for where in (*(where for where, _ in places), *self._kept.get(name, ())):
                found += [(hour, end, what, each, name, rank) for what in (("node", where), ("queue", of.queue))]
        for one in self._reservations:
            begin, end = one.since / HOUR, one.until / HOUR or 1e9
            each = one.pod_class.card_counts[GPU]
            both = (("node", one.node), ("queue", one.queue))
            found += [(begin, end, what, each, one.owner, one.rank) for what in both]
        return found

    def cards_used(self) -> int:
        """All cards that running jobs hold."""
        return sum(self.nodes.used(name).get(GPU, 0) for name in self.nodes.names)


def structs_of(state: QueueState, used: Mapping[str, int]) -> QueueState:
    """The queue with what its jobs use."""
    return QueueState(state.spec, used, state.draining)
