"""The book of administrators' reservations: what is reserved when, for a view of the engine.

SQL is the record; this follows it. Of a reservation that repeats, as many occurrences are in a view as the planner may
look ahead.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence
from t9ksched.model.duration import FARTHEST, parse_duration
from t9ksched.model.podclass import PodClass
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.wall_clock import nanoseconds
from t9ksched.scheduler.state.asks import asks_nothing
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.store.advance_reservations import ReservationRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * SECOND
_AHEAD: Final = 8 * _DAY
"""Further than planned starts: a job that is longer than the pause between two occurrences meets one of them."""
_KEPT: Final = _DAY
"""How long the occurrences that were found for a view serve others, unless one of them ends."""
SLACK: Final = 10 * SECOND
"""How much later than its limit a job is ended at most."""


def length(text: str) -> int:
    """A duration of a reservation, in nanoseconds; 0 for none."""
    found = parse_duration(text)
    return 0 if found is None else round(found.total_seconds() * SECOND)


@dataclass(frozen=True, slots=True)
class KnownReservation:
    """A reservation as stored, and as it was read."""

    record: ReservationRecord
    reservation: AdvanceReservation

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def ended(self) -> int | None:
        """When the occurrence began that ended early, nanoseconds since the epoch; None where none did."""
        return None if self.record.ended is None else nanoseconds(self.record.ended.begin)

    def present(self, now: int) -> Occurrence | None:
        """The occurrence that is in force, else the next one; None where none is left. One that ended early is over."""
        return self.reservation.current(now, self.ended)

    def ahead(self, now: int, until: int) -> list[Occurrence]:
        """The occurrences from now on that begin at that moment or before; the first one whenever it begins."""
        found: list[Occurrence] = []
        for one in self.reservation.occurrences(now, self.ended):
            if found and one.begin > until:
                break
            found.append(one)
        return found

    def room(self, of: Occurrence) -> ReservedRoom:
        """That occurrence for the engine, without what jobs inside hold."""
        one = self.reservation
        return ReservedRoom(
            name=one.name,
            begin=min(of.begin, FARTHEST),
            end=min(of.end, FARTHEST + 1),
            drain=min(of.begin, FARTHEST) - length(one.drain_ahead),
            nodes=self.record.nodes,
            cards=None if one.cards is None else (one.cards.resource, one.cards.count),
            queues=tuple(sorted(one.queues)),
            users=tuple(sorted(one.users)),
            groups=tuple(sorted(one.groups)),
        )

    def admits(self, gang: GangRecord, groups: Iterable[str], user: str) -> bool:
        """Whether a group of pods may use it: its queue, its submitter or a group of that is named."""
        return self.reservation.admits(gang.queue, user, tuple(groups))


class _Rooms(NamedTuple):
    """The rooms of a reservation, and until when they are all that a view needs."""

    held: KnownReservation
    rooms: tuple[ReservedRoom, ...]
    until: int


class AdvanceBook:
    """All reservations, by name. Times are nanoseconds since the epoch, passed in.

    Attributes:
        known: the reservations.
        horizon: how far ahead starts may be planned, in nanoseconds.
        counts: how many occurrences ended early, by why.
    """

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self.known: dict[str, KnownReservation] = {}
        self.horizon = 14 * _DAY
        self.counts = {"Released": 0, "Missed": 0}
        self._rooms: dict[str, _Rooms] = {}
        self._inside: dict[ReservedRoom, ReservedRoom] = {}
        self._next: int | None = None
        self._viewed = 0

    def __bool__(self) -> bool:
        return bool(self.known)

    def take(self, reservations: Iterable[KnownReservation]) -> None:
        """Take over all reservations."""
        found = {held.name: held for held in reservations}
        if found != self.known:
            self.known = found
            self._rooms = {name: one for name, one in self._rooms.items() if found.get(name) == one.held}
            self._state.wake()

    def look_ahead(self, horizon: int) -> None:
        """Starts may be planned so far ahead, in nanoseconds."""
        if horizon != self.horizon:
            self.horizon = horizon
            self._rooms.clear()

    def note_end(self, why: str) -> None:
        """An occurrence ended early."""
        self.counts[why] += 1

    def names_groups(self) -> bool:
        """Whether some reservation is for groups of users."""
        return any(held.reservation.groups for held in self.known.values())

    def phases(self) -> tuple[int, int]:
        """How many reservations are in force, and how many are to come, when a view was last taken."""
        begins = {room.name: room.begin <= self._viewed for kept in self._rooms.values() for room in kept.rooms[:1]}
        return sum(begins.values()), sum(not begun for begun in begins.values())

    # ---- views

    def rooms(self, now: int) -> tuple[ReservedRoom, ...]:
        """What is reserved from now on, with what jobs inside hold where that matters."""
        self._viewed = now
        if not self.known:
            self._next = None
            return ()
        found: list[ReservedRoom] = []
        for name, held in self.known.items():
            kept = self._rooms.get(name)
            if kept is None or now >= kept.until:
                rooms = tuple(map(held.room, held.ahead(now, now + self.horizon + _AHEAD)))
                ends = [room.end for room in rooms[:1]]
                kept = self._rooms[name] = _Rooms(held, rooms, min(ends, default=now + _KEPT))
                if held.reservation.every:
                    kept = self._rooms[name] = kept._replace(until=min(kept.until, now + _KEPT))
            found += kept.rooms
        times = {at for room in found for at in (room.drain, room.begin, room.end) if at > now}
        self._next = min(times, default=None)
        return tuple(room if room.cards is None else self._with_inside(room) for room in found)

    def next_change(self) -> int | None:
        """When what a view says of reservations changes next by time alone; None while nothing does."""
        return self._next

    def _with_inside(self, room: ReservedRoom) -> ReservedRoom:
        """The room with what jobs hold in it; the same value while that stays the same."""
        held, found = self.known[room.name], dict[tuple[str, str, PodClass], int]()
        for gang, node, of in self.holding(held):
            end = self._end(gang)
            if end is not None and end <= room.end:
                found[gang.uid, node, of] = found.get((gang.uid, node, of), 0) + 1
        if not found:
            return room
        made = structs.replace(room, inside=tuple((*key, pods) for key, pods in sorted(found.items(), key=_by_place)))
        return self._inside.setdefault(made, made) if len(self._inside) < 1000 else made

    def holding(self, held: KnownReservation) -> list[tuple[GangRecord, str, PodClass]]:
        """The groups it is for that hold room of its nodes: each pod of theirs with its node and class."""
        found, admitted = [], dict[str, bool]()
        for node in held.record.nodes:
            for charge in self._state.charges.on_node(node):
                pod = self._state.pods.get(charge.uid)
                gang = pod.gang if pod is not None else None
                if gang is None:
                    continue
                if gang.uid not in admitted:
                    admitted[gang.uid] = self.admits(held, gang)
                if admitted[gang.uid]:
                    found.append((gang, node, charge.pod_class))
        return found

    def admits(self, held: KnownReservation, gang: GangRecord) -> bool:
        """Whether a group may use the reservation."""
        permissions = self._state.permissions
        return held.admits(gang, permissions.groups_of_submitter(gang), permissions.submitter(gang) or "")

    def _end(self, gang: GangRecord) -> int | None:
        ends = self._state.enforced_ends
        return None if ends is None else ends.end_of(gang)

    # ---- jobs that name a reservation

    def read(self, gang: GangRecord) -> None:
        """Note the reservation that a waiting group asks for, and its submitter's groups where they matter."""
        if gang.reservation_seen != gang.changes:
            gang.reservation_seen = gang.changes
            reservation = self.asked(gang)
            if reservation != gang.reservation:
                gang.reservation, gang.stale = reservation, True
        if self.known or gang.groups:
            permissions = self._state.permissions
            groups = tuple(sorted(permissions.groups_of_submitter(gang))) if self.names_groups() else ()
            if groups != gang.groups:
                gang.groups, gang.stale = groups, True

    def asked(self, gang: GangRecord) -> str:
        """The reservation that the group's job asks for, by annotation; empty for none."""
        if asks_nothing(gang):
            return ""
        job = self._state.jobs.get(job_of(gang))
        if job is not None and job.asks.reservation:
            return job.asks.reservation
        if gang.asks.reservation:
            return gang.asks.reservation
        return next((pod.asks.reservation for pod in gang.members.values() if pod.asks.reservation), "")

    def started(self, gang: GangRecord, now: int) -> None:
        """The group got places: without a limit of its own it may use the rest of the reservation that it names."""
        rest = self._rest(gang, now) if gang.reservation and not gang.lasts else None
        self._state.clocks.reserve(job_of(gang), rest or 0)

    def until(self, gang: GangRecord) -> int | None:
        """Until when the group may run because it got the rest of a reservation as its limit; None for others."""
        clock = self._state.clocks.of(gang)
        recorded = clock.run.reserved_until if clock is not None else 0
        if not (recorded or gang.reservation) or not any(pod.placed for pod in gang.members.values()):
            return None
        # Without a record it was started by a process that ended before it could write one.
        unwritten = not recorded and not gang.lasts and gang.first_bound
        return self._rest(gang, gang.first_bound) if unwritten else recorded or None

    def _rest(self, gang: GangRecord, at: int) -> int | None:
        """The end of the occurrence in which the group was at that moment."""
        held = self.known.get(gang.reservation)
        if held is None or not self.admits(held, gang):
            return None
        present = held.reservation.current(at)
        return present.end if present is not None and present.begin <= at else None


def _by_place(entry: tuple[tuple[str, str, PodClass], int]) -> tuple[str, str, str]:
    (gang, node, of), _ = entry
    return gang, node, repr(of)
