"""Follows the reservations of administrators: takes them over from SQL, replaces nodes that are lost, and ends what
nobody uses.

An occurrence whose room is free, and that no job uses for its `releaseUnusedAfter`, is released: others may use its
room at once. One of which others held room until its end is written down as missed, every other one as over, also if no
scheduler ran when it ended.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any, Final

import structlog

from t9ksched.model.advance_reservation import Occurrence
from t9ksched.model.errors import Invalid
from t9ksched.model.names import EVENT_RESERVATION_MISSED, EVENT_RESERVATION_RELEASED
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, nanoseconds, written_moment
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.state.advance_book import KnownReservation, length
from t9ksched.scheduler.state.advance_conflicts import blockers
from t9ksched.scheduler.state.lost_nodes import losses, replacements
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.advance_reservations import (
    MISSED,
    OVER,
    RELEASED,
    TABLE,
    AdvanceReservations,
    Outcome,
    ReservationRecord,
)
from t9ksched.store.changes import Change
from t9ksched.store.errors import StoreError
from t9ksched.store.history import (
    RESERVATION_MISSED,
    RESERVATION_NODES_REPLACED,
    RESERVATION_OVER,
    RESERVATION_RELEASED,
    Event,
)

log = structlog.get_logger(__name__)

LOST_AFTER_NS: Final = 300 * 1_000_000_000
"""How long a node is of no use, but may come back, until another one replaces it: as long as Kubernetes leaves pods on
a node that is not ready.
"""
_LOOK_AGAIN_NS: Final = 10 * 1_000_000_000
"""Between two looks for nodes that could take the place of lost ones: each goes over all nodes."""
_TOLD_LATE_NS: Final = 7 * 86_400 * 1_000_000_000
"""Occurrences that ended so long ago, while no scheduler ran, are not told any more."""
_AT_ONCE: Final = 20
"""So many occurrences of one reservation are written down in one sweep."""
_HISTORY: Final = {OVER: RESERVATION_OVER, RELEASED: RESERVATION_RELEASED, MISSED: RESERVATION_MISSED}
_EVENTS: Final = {RELEASED: EVENT_RESERVATION_RELEASED, MISSED: EVENT_RESERVATION_MISSED}
_Key = tuple[str, str, Occurrence]
"""Name and UID of a reservation, and one of its occurrences."""


def read(records: Iterable[ReservationRecord]) -> tuple[list[KnownReservation], list[tuple[str, str]]]:
    """Stored reservations as they are used; and the names of those that cannot be read, each with the reason."""
    found, faults = [], []
    for record in records:
        try:
            found.append(KnownReservation(record, parse_reservation(record.spec)))
        except Invalid as error:
            faults.append((record.name, str(error)))
    return found, faults


def _unused_since(record: ReservationRecord, present: Occurrence, now: int) -> int:
    """Since when an occurrence is unused, in nanoseconds since the epoch, of which no more is known than what is
    stored: since it began, was changed, or was last used. What was in use before the restart, and is not after it, is
    unused from now on.
    """
    used = 0 if record.used_until is None else nanoseconds(record.used_until)
    return min(now, max(present.begin, nanoseconds(record.updated_at), used))


class ReservationKeeper:
    """`sweep` is called by housekeeping; `queues` are the Queue objects by name, on which events are written."""

    def __init__(
        self,
        reservations: AdvanceReservations,
        state: ClusterState,
        events: EventWriter,
        queues: Callable[[], Mapping[str, dict[str, Any]]],
        clock: Callable[[], int],
    ) -> None:
        self._reservations = reservations
        self._state = state
        self._events = events
        self._queues = queues
        self._clock = clock
        self._used: dict[_Key, int] = {}
        """When an occurrence in force was last used or not free, nanoseconds since the epoch."""
        self._useless: dict[str, dict[str, int]] = {}
        """Since when nodes of a reservation have been of no use to it, by the reservation's UID and node."""
        self._looked: dict[str, int] = {}
        """When other nodes were looked for and not found, by UID."""

    async def load(self) -> None:
        """Read all of them.

        Raises:
            StoreError: the database is away; those known last stay.
        """
        found, faults = read(await self._reservations.list())
        for name, fault in faults:
            log.error("a reservation in the database cannot be read, it is left out", name=name, error=fault)
        self._state.advance.take(found)

    async def take(self, changes: Iterable[Change]) -> None:
        """Read them again if one changed.

        Raises:
            StoreError: as `load`.
        """
        if any(change.table == TABLE for change in changes):
            await self.load()

    async def sweep(self) -> None:
        """Look at every reservation that is in force or to come."""
        now, state = self._clock(), self._state
        if not (state.advance or self._used) or state.outage.unread or state.outage.away:
            return
        try:
            for held in list(state.advance.known.values()):
                await self._close(held, now)
            for held in list(state.advance.known.values()):
                if (present := held.present(now)) is None:
                    continue
                await self._replace_lost(held, present, now)
                if present.begin <= now:
                    await self._watch(held, present, now)
            self._forget(now)
        except StoreError as error:
            log.warning("reservations wait for the database", error=str(error))

    async def _replace_lost(self, held: KnownReservation, present: Occurrence, now: int) -> None:
        """Give a reservation that selects its nodes others for those that it lost, as far as there are some."""
        lost = losses(self._state, held, in_force=present.begin <= now)
        uid = held.record.uid
        before = self._useless.pop(uid, {})
        since = {one.node: before.get(one.node, now) for one in lost if one.passing}
        if since:
            self._useless[uid] = since
        due = [one for one in lost if not one.passing or now - since[one.node] >= LOST_AFTER_NS]
        if not due or now - self._looked.get(uid, 0) < _LOOK_AGAIN_NS:
            return
        others = [other for other in self._state.advance.known.values() if other.name != held.name]
        found = replacements(self._state, held, due, others, present, now, self._end_of)
        self._looked[uid] = now
        if not found:
            return  # the lost ones may come back
        nodes = sorted(found.get(name, name) for name in held.record.nodes)
        why = {one.node: one.why for one in due if one.node in found}
        told = "; ".join(f"node {name} {why[name]}, {other} takes its place" for name, other in found.items())
        text = f"reservation {held.name}: {told}"
        detail = {"replaced": found, "why": why, "nodes": nodes, "message": text}
        at = datetime.fromtimestamp(now / 1e9, UTC)
        event = Event(event=RESERVATION_NODES_REPLACED, at=at, name=held.name, detail=detail)
        if await self._reservations.choose(held.name, uid, nodes, event):
            log.info(text)
            await self.load()

    async def _watch(self, held: KnownReservation, present: Occurrence, now: int) -> None:
        """An occurrence is in force: release it once nobody has used it for long enough."""
        key = (held.name, held.record.uid, present)
        one = held.reservation
        blocked = blockers(self._state, one, held.record.nodes, Occurrence(now, present.end), self._end_of)
        if blocked or self._state.advance.holding(held):
            self._used[key] = now
            await self._note_use(held, moment_at(present.begin) if blocked else None, moment_at(present.end))
            return
        unused = length(one.release_unused_after)
        since = self._used.setdefault(key, _unused_since(held.record, present, now))
        used = held.record.used_until
        await self._note_use(held, None, used if used is None or nanoseconds(used) <= now else moment_at(since))
        if one.maintenance or not unused or now - since < unused:
            return
        text = f"reservation {held.name} was not used for {one.release_unused_after}: its room is free"
        await self._end(held, present, RELEASED, text)
        self._used.pop(key, None)

    async def _close(self, held: KnownReservation, now: int) -> None:
        """Write down the occurrences that are over; those of which others held room until the end were missed."""
        record, one = held.record, held.reservation
        told = record.updated_at if record.outcome is None else max(record.updated_at, record.outcome.end)
        since = max(nanoseconds(told), now - _TOLD_LATE_NS)
        over = takewhile(lambda of: of.end <= now, one.occurrences(since, held.ended))
        for of in islice(over, _AT_ONCE):
            if record.blocked is not None and nanoseconds(record.blocked) == of.begin:
                text = f"reservation {held.name} was missed: others held its room until its end"
                await self._end(held, of, MISSED, text)
            else:
                await self._end(held, of, OVER, f"reservation {held.name} is over")

    async def _note_use(self, held: KnownReservation, blocked: datetime | None, used: datetime | None) -> None:
        """Keep in mind, also over a restart, that others hold room of the occurrence that began at `blocked`, or that
        none do, and until when an occurrence was used or not free.
        """
        record = held.record
        if (record.blocked, record.used_until) == (blocked, used):
            return
        if await self._reservations.note_use(held.name, record.uid, blocked, used):
            await self.load()

    def _forget(self, now: int) -> None:
        """Forget occurrences that are over, and the nodes of reservations that are there no longer."""
        for key in [key for key in self._used if key[2].end <= now]:
            del self._used[key]
        uids = {held.record.uid for held in self._state.advance.known.values()}
        for known in (self._useless, self._looked):
            for uid in known.keys() - uids:
                del known[uid]

    async def _end(self, held: KnownReservation, of: Occurrence, what: str, text: str) -> None:
        """Write down what became of an occurrence, and tell those whom it was for unless it was used to its end."""
        begin, end = moment_at(of.begin), moment_at(of.end)
        at = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        outcome = Outcome(begin, end, what, at if what == RELEASED else end)
        detail = {"from": written_moment(begin), "to": written_moment(end), "message": text}
        event = Event(event=_HISTORY[what], at=at, name=held.name, detail=detail)
        if not await self._reservations.end(held.name, held.record.uid, outcome, event):
            return
        log.info(text)
        if what in _EVENTS:
            self._state.advance.note_end(what)
            self._tell(held, _EVENTS[what], text)
        await self.load()

    def _tell(self, held: KnownReservation, reason: str, text: str) -> None:
        """An event on the queues that it was for, and on what waits for it by name."""
        queues = self._queues()
        for name in sorted(held.reservation.queues):
            if (queue := queues.get(name)) is not None:
                self._events.event(queue, reason, text)
        for gang in self._state.gangs.values():
            waits = gang.reservation == held.name and not any(pod.placed for pod in gang.members.values())
            if waits and self._state.advance.admits(held, gang):
                self._events.gang(gang, reason, text)

    def _end_of(self, gang: GangRecord) -> int | None:
        ends = self._state.enforced_ends
        return None if ends is None else ends.end_of(gang)
