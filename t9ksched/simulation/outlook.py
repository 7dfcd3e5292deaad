"""What becomes of the live cluster if nothing else comes: its planner on virtual time, from one end to the next.

All that happens at one moment happens before the planner is asked what starts then. Jobs run as long as they may: what
nothing ends runs for ever. Evicted jobs leave when their grace is over, and wait again where something makes their pods
anew.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.plan import Assignment, Eviction, Plan
from t9ksched.engine.planner import plan
from t9ksched.engine.view import View
from t9ksched.model.forecast import Room
from t9ksched.model.gang import ExpectedEnd, Gang, Member, Running
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.start_windows import next_begin
from t9ksched.simulation.places import Books, Place, by_gang
from t9ksched.simulation.present import Present

_SECOND: Final = 1_000_000_000
_OVERDUE: Final = 60 * _SECOND
"""How much later an end that is overdue is expected, where the policy does not say."""


class Start(msgspec.Struct, frozen=True):
    """When a group gets its minimum, nanoseconds since the epoch, and where: the nodes, sorted, each with how many pods
    and how many cards the group has there.
    """

    at: int
    room: Room

    @classmethod
    def on(cls, at: int, pods: Iterable[tuple[str, PodClass]]) -> "Start":
        """On the nodes of these pods."""
        found: dict[str, tuple[int, int]] = {}
        for node, of in pods:
            known, cards = found.get(node, (0, 0))
            found[node] = known + 1, cards + sum(of.card_counts.values())
        return cls(at, tuple((node, *found[node]) for node in sorted(found)))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, sorted."""
        return tuple(node for node, _, _ in self.room)


class Outlook(msgspec.Struct):
    """What became of the groups. All is by UID.

    Attributes:
        until: how far the walk looked; nanoseconds since the epoch.
        complete: whether that is as far as was asked.
        starts: first starts, also those of groups that had lost their places. Where the walk ends before, the start
            that is planned.
        reasons: why groups were waiting after the first moment.
        victims: of preemptors, how many members of which groups they had evicted.
        lost: when groups that ran were evicted, so that less than their minimum was left.
        pods: where and when pods got places, for the first time.
    """

    until: int
    complete: bool = True
    starts: dict[str, Start] = msgspec.field(default_factory=dict)
    reasons: dict[str, tuple[Reason, ...]] = msgspec.field(default_factory=dict)
    victims: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    pods: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)


def outlook(present: Present, until: int, stop: Callable[[], bool] = lambda: False) -> Outlook:
    """Walk from the present to a later moment, or until nothing waits. After each moment `stop` is asked whether that
    is far enough.
    """
    return _Walk(present, until).run(stop)


class _Walk:
    """The state of a walk. Times are nanoseconds since the epoch."""

    def __init__(self, present: Present, until: int) -> None:
        view = present.view
        self._present = present
        self._policy = present.policy
        self._until = until
        self._memory = Memory()
        self._books = Books(view)
        self._gangs = {gang.uid: gang for gang in view.gangs if present.later.get(gang.uid, 0) <= present.at}
        self._later = {gang.uid: gang for gang in view.gangs if gang.uid not in self._gangs}
        """Groups that do not start before a moment."""
        self._places: dict[str, Place] = {}
        self._reservations = [one for one in view.reservations if not one.kind.planned]
        self._planned = tuple(one for one in view.reservations if one.kind.planned)
        self._rooms = list(view.reserved)
        self._evictions: dict[str, int] = {}
        """How often groups that wait again were evicted, by UID."""
        self._events: list[tuple[int, str]] = []
        """Moments at which a group ends, or victims of it are gone, by its UID; empty for a mere look."""
        self._leaving: dict[str, list[tuple[int, set[str]]]] = {}
        """Until when victims hold their places, by UID of their group."""
        self._running: tuple[Running, ...] = ()
        self._told = False
        """The reasons of the first moment are known."""
        self._found = Outlook(until)
        preemption = self._policy.preemption
        self._protected = preemption.minimum_run_seconds * _SECOND if "preempt" in self._policy.actions else 0
        """How long a group that got its places is no victim."""
        planning = self._policy.planning
        overdue = present.at + (planning.resolution_seconds * _SECOND if planning is not None else _OVERDUE)
        for one in present.occupants:
            place = self._places[one.gang.uid] = Place.of(one)
            if place.ends:
                place.ends = place.ends if place.ends > present.at else overdue
                heapq.heappush(self._events, (place.ends, one.gang.uid))
            self._already_leaving(place)
        for moment in self._foreseen():
            if moment > present.at:
                heapq.heappush(self._events, (moment, ""))

    def _already_leaving(self, place: Place) -> None:
        leaves = {pod.uid for pod in place.pods if pod.leaving}
        if leaves:
            self._goes(place, leaves, self._present.at + min(place.grace, self._most_grace))

    def _foreseen(self) -> Iterable[int]:
        """Moments of which is known from the beginning that something changes at them."""
        for room in self._rooms:
            yield from (room.begin, room.end)
        for one in self._reservations:
            yield from (one.since, one.until)
        for gang in self._gangs.values():
            yield gang.evicts_from
        yield from self._present.later.values()
        for place in self._places.values() if self._protected else ():
            yield place.started + self._protected
        yield self._present.resumes

    @property
    def _most_grace(self) -> int:
        return self._policy.preemption.max_grace_seconds * _SECOND

    def run(self, stop: Callable[[], bool]) -> Outlook:
        """Go from moment to moment."""
        found, now = self._found, self._present.at
        while True:
            self._happens(now)
            if self._gangs:
                self._decide(now)
            if not self._gangs and not self._leaving and not self._later:
                break
            following = self._next(now)
            if following is None or following > self._until:
                break
            if stop():
                found.complete, found.until = False, now
                break
            now = following
        for one in self._planned:
            if one.owner not in found.starts and one.since <= self._until:
                mine = ((other.node, other.pod_class) for other in self._planned if other.owner == one.owner)
                found.starts[one.owner] = Start.on(one.since, mine)
        return found

    def _next(self, now: int) -> int | None:
        """The next moment at which something may start; now, where victims have no time to end."""
        moments = [moment for moment, _ in self._events[:1]]
        moments += [one.since for one in self._planned if one.since > now]
        queues = self._present.view.queues
        for name in {gang.queue for gang in self._gangs.values()} & queues.keys():
            if (windows := queues[name].spec.start_windows) and (begin := next_begin(windows, now)) is not None:
                moments.append(begin)
        return min(moments, default=None)

    def _happens(self, now: int) -> None:
        """What ends by now has ended."""
        while self._events and self._events[0][0] <= now:
            _, uid = heapq.heappop(self._events)
            place = self._places.get(uid)
            if place is None:
                continue
            for gone in [one for one in self._leaving.get(uid, ()) if one[0] <= now]:
                self._leaving[uid].remove(gone)
                self._gone(place, gone[1], now)
            if not self._leaving.get(uid):
                self._leaving.pop(uid, None)
            if place.ends and place.ends <= now and uid in self._places:
                self._over(place)
        self._rooms = [room for room in self._rooms if room.end > now]
        for uid in [uid for uid in self._later if self._present.later[uid] <= now]:
            self._gangs[uid] = self._later.pop(uid)

    def _over(self, place: Place) -> None:
        """A group has ended, and its job with it."""
        uid = place.gang.uid
        self._books.give_back(place, [pod.uid for pod in place.pods])
        del self._places[uid]
        self._leaving.pop(uid, None)
        self._gangs.pop(uid, None)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        """Nothing is reserved for a group any more."""
        self._reservations = [one for one in self._reservations if one.owner != uid]
        self._planned = tuple(one for one in self._planned if one.owner != uid)

    # ---- a cycle

    def _decide(self, now: int) -> None:
        """Ask the planner, and let happen what it decides."""
        first, self._told = not self._told, True
        if self._present.stopped is not None and not 0 < self._present.resumes <= now:
            if first:
                self._found.reasons.update(dict.fromkeys(self._gangs, (self._present.stopped,)))
            return
        found = plan(self._view(), self._policy, now, self._memory)
        if first:
            self._found.reasons.update({one.gang: one.reasons for one in (*found.waiting, *found.surplus)})
            self._found.reasons.update(self._behind())
        for uid, assignments in by_gang(found.assignments).items():
            self._start(uid, assignments, now)
        self._evict(found, now)
        self._planned = tuple(one for one in found.planned if one.owner in self._gangs)

    def _behind(self) -> dict[str, tuple[Reason, ...]]:
        """Why elements of arrays wait that the planner was not asked about."""
        admitted = {gang.uid for gang in self._admitted()}
        found: dict[str, tuple[Reason, ...]] = {}
        for uid, (array, most) in self._present.turns.items():
            if uid in self._gangs and uid not in admitted:
                text = f"at most {most} elements of its array {array!r} run at once, and others come first"
                found[uid] = (Reason(Code.ARRAY_LIMIT, text, {"elements": 1}, {"elements": 0}),)
        return found

    def _view(self) -> View:
        """What the planner sees now."""
        present, books, places = self._present.view, self._books, self._places.values()
        if "preempt" in self._policy.actions:
            running = tuple(place.running for place in places if place.evictable and place.pods)
            # The same tuple again spares work.
            if len(running) != len(self._running) or any(
                one is not other for one, other in zip(running, self._running, strict=True)
            ):
                self._running = running
        ends: tuple[ExpectedEnd, ...] = ()
        if self._policy.planning is not None or self._rooms:
            ends = tuple(place.expected for place in places if place.ends)
        return View(
            books.nodes.freeze(),
            books.queues(),
            self._admitted(),
            (*self._reservations, *self._planned),
            self._running,
            books.neighbours(),
            present.namespaces,
            ends,
            tuple(self._used(room) for room in self._rooms),
            present.usual,
        )

    def _admitted(self) -> tuple[Gang, ...]:
        """The groups, but those elements of arrays of which as many run or come first as may run at once."""
        turns = self._present.turns
        if not turns:
            return tuple(self._gangs.values())
        count = Counter(turns[uid][0] for uid in self._places if uid in turns)
        found = []
        for uid, gang in self._gangs.items():
            array, most = turns.get(uid, ("", 0))
            if array and uid not in self._places:
                if count[array] >= most:
                    continue
                count[array] += 1
            found.append(gang)
        return tuple(found)

    def _used(self, room: ReservedRoom) -> ReservedRoom:
        """The reservation with what groups inside hold of it."""
        nodes = set(room.nodes)
        inside = [
            (place.gang.uid, node, of, pods)
            for place in self._places.values()
            if place.ends and place.ends <= room.end and room.admits(place.gang)
            for node, of, pods in place.expected.rooms
            if node in nodes
        ]
        return structs.replace(room, inside=tuple(inside))

    def _start(self, uid: str, assignments: list[Assignment], now: int) -> None:
        """Members of a group get their places."""
        gang = self._gangs[uid]
        place = self._places.get(uid)
        if place is None:
            place = self._places[uid] = Place(structs.replace(gang, waiting=()), started=now)
            place.evictions = self._evictions.get(uid, 0)
            place.ends = self._end(gang, now)
            if place.ends:
                heapq.heappush(self._events, (place.ends, uid))
            if self._protected:
                heapq.heappush(self._events, (now + self._protected, ""))
        had = place.complete and bool(place.pods)
        waiting = {member.uid: member for member in gang.waiting}
        for one in assignments:
            self._books.take(place, waiting.pop(one.pod), one)
            self._found.pods.setdefault(one.pod, (now, one.node))
        if place.complete and not had:
            self._found.starts.setdefault(uid, Start.on(now, ((pod.node, pod.pod_class) for pod in place.pods)))
        if waiting:
            self._gangs[uid] = self._left(gang, place, tuple(waiting.values()))
        else:
            del self._gangs[uid]
        self._forget(uid)

    def _end(self, gang: Gang, now: int) -> int:
        """When the group ends at the latest if it starts now; 0 for never."""
        if gang.lasts:
            return now + gang.lasts
        own = [room.end for room in self._rooms if gang.reservation == room.name]
        return min(own, default=0)

    @staticmethod
    def _left(gang: Gang, place: Place, waiting: tuple[Member, ...]) -> Gang:
        """The group of which these members have no place, and others have one."""
        held = dict(place.gang.placed)
        for pod in place.pods:
            held[pod.role] = held.get(pod.role, 0) + 1
        nodes = tuple(sorted({pod.node for pod in place.pods})) if gang.topology != "None" else ()
        return structs.replace(
            gang, waiting=waiting, placed=tuple(sorted(held.items())), refilling=True, ran=True, nodes=nodes
        )

    # ---- victims

    def _evict(self, found: Plan, now: int) -> None:
        if not found.evictions:
            return
        by_victim: dict[str, list[Eviction]] = {}
        for one in found.evictions:
            by_victim.setdefault(one.gang, []).append(one)
        for uid, evictions in by_victim.items():
            place = self._places.get(uid)
            chosen = {one.pod for one in evictions} & {pod.uid for pod in place.pods} if place is not None else set()
            if place is None or not chosen:
                self._reservations = [one for one in self._reservations if one.owner != uid]  # room that it had lost
                continue
            for one in evictions:
                victims = self._found.victims.setdefault(one.by, {})
                victims[uid] = victims.get(uid, 0) + 1
            place.pods = [
                structs.replace(pod, leaving=True, asked=True) if pod.uid in chosen else pod for pod in place.pods
            ]
            place.changed()
            self._goes(place, chosen, now + min(place.grace, self._most_grace))
        for until in {one.until for one in found.reservations}:
            heapq.heappush(self._events, (until, ""))
        owners = {one.owner for one in found.reservations}
        self._reservations = [one for one in self._reservations if not (one.owner in owners and one.kind.comes_free)]
        self._reservations += found.reservations

    def _goes(self, place: Place, pods: set[str], at: int) -> None:
        """These pods of a group leave at that moment."""
        uid = place.gang.uid
        self._leaving.setdefault(uid, []).append((at, pods))
        heapq.heappush(self._events, (at, uid))

    def _gone(self, place: Place, pods: set[str], now: int) -> None:
        """Victims have left: their members wait again, if something makes them anew."""
        gang, uid = place.gang, place.gang.uid
        had = place.complete
        gone = self._books.give_back(place, pods)
        if had and not place.complete:
            self._found.lost.setdefault(uid, now)
        if not place.pods:
            del self._places[uid]
            self._evictions[uid] = place.evictions + 1
        waits = self._gangs.get(uid)
        if not place.remade:
            if not place.pods:
                self._gangs.pop(uid, None)
            return
        waiting = (*(waits.waiting if waits is not None else ()), *gone)
        if place.pods:
            self._gangs[uid] = self._left(waits or gang, place, waiting)
            return
        self._gangs[uid] = structs.replace(
            gang, waiting=waiting, refilling=False, ran=False, accepted=True, nodes=(), evicts_from=0
        )
