"""Reservations that administrators make: the record that the scheduler and the REST service follow by the change log.

A reservation is judged against all others before it is written. So whoever writes one names the revision up to which
the others were seen, and nothing is written if one of them has changed since. The ETag of a reservation changes with
what administrators write, not with the nodes that the scheduler chooses for it.
"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.model.errors import Invalid
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, nanoseconds, written_moment
from t9ksched.store import changes, history
from t9ksched.store.database import Database
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing, StoreError
from t9ksched.store.history import Event
from t9ksched.store.rows import insert_new
from t9ksched.store.tables import change_log, reservation

TABLE: Final = "reservation"
OVER: Final = "Over"
RELEASED: Final = "Released"
MISSED: Final = "Missed"


class ReservationsChanged(StoreError):
    """Another reservation was changed since this one was judged: judge again."""

    public = "another reservation was changed at the same time"
    remedy = "repeat the request"


@dataclass(frozen=True, slots=True)
class Ended:
    """An occurrence that ended before its time: the moment at which it began or was to begin, and why."""

    begin: datetime
    why: str


class Outcome(msgspec.Struct, frozen=True):
    """What became of an occurrence, from `begin` to `end`: `Over`, `Released` or `Missed`; so since `at`."""

    begin: datetime
    end: datetime
    what: str
    at: datetime

    def to_dict(self) -> dict[str, str]:
        """As REST shows it and SQL keeps it."""
        times = {"from": self.begin, "to": self.end, "at": self.at}
        return {key: written_moment(moment) for key, moment in times.items()} | {"outcome": self.what}

    @classmethod
    def of(cls, raw: dict[str, str]) -> "Outcome":
        """As `to_dict` wrote it."""
        begin, end, at = (datetime.fromisoformat(raw[key]) for key in ("from", "to", "at"))
        return cls(begin, end, raw["outcome"], at)


@dataclass(frozen=True, slots=True)
class ReservationRecord:
    """A reservation as stored: `spec` as administrators wrote it, with every field; `nodes` that were chosen for it;
    what became of the latest occurrence that is over; the beginning of the one of which others held room when it was
    last looked at; and until when one was used or not free, its end while it is.
    """

    name: str
    uid: str
    spec: dict[str, Any]
    nodes: tuple[str, ...]
    ended: Ended | None
    revision: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    outcome: Outcome | None = None
    blocked: datetime | None = None
    used_until: datetime | None = None


_COLUMNS = tuple(reservation.c[name] for name in ReservationRecord.__slots__)


class AdvanceReservations:
    """The repository of these reservations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[ReservationRecord]:
        """All reservations, by name."""
        rows = await self._database.fetch(select(*_COLUMNS).order_by(reservation.c.name))
        return [_record(row) for row in rows]

    async def get(self, name: str) -> ReservationRecord | None:
        """The reservation of that name, if there is one."""
        rows = await self._database.fetch(select(*_COLUMNS).where(reservation.c.name == name))
        return _record(rows[0]) if rows else None

    async def names(self) -> frozenset[str]:
        """The names of all reservations."""
        rows = await self._database.fetch(select(reservation.c.name))
        return frozenset(str(row.name) for row in rows)

    async def create(
        self, spec: dict[str, Any], nodes: Sequence[str], seen: int, *, by: str | None = None
    ) -> ReservationRecord:
        """Create the reservation that `spec` describes, with these nodes; `seen` is the revision of the others.

        Raises:
            RowExists: there is one of that name.
            ReservationsChanged: another one changed after `seen`.
        """
        name = spec["name"]
        async with self._database.write() as connection:
            revision = await self._append(connection, name, seen)
            now = datetime.now(UTC)
            made = ReservationRecord(name, str(uuid.uuid4()), spec, tuple(nodes), None, revision, by, now, now)
            if not await insert_new(connection, reservation, _row(made)):
                raise RowExists(f"the reservation {name!r} exists already")
            await _note(connection, history.RESERVATION_CREATED, by, None, made)
            return made

    async def edit(
        self,
        name: str,
        spec: dict[str, Any],
        nodes: Sequence[str],
        seen: int,
        expected: int | None = None,
        *,
        by: str | None = None,
    ) -> ReservationRecord:
        """Replace what a reservation says, and its nodes. An occurrence that ended early stays over if the reservation
        repeats; any other one is open again.

        Raises:
            RowMissing: no such reservation.
            RevisionChanged: `expected` is given and no longer current.
            ReservationsChanged: this or another one changed after `seen`.
        """
        async with self._database.write() as connection:
            before = await _require(connection, name, expected)
            if (before.spec, before.nodes) == (spec, tuple(nodes)):
                return before
            revision = await self._append(connection, name, seen)
            after = replace(before, spec=spec, nodes=tuple(nodes), ended=_still_over(before, spec), revision=revision)
            after = replace(after, updated_at=datetime.now(UTC))
            if after.ended is None and after.outcome is not None and after.outcome.end > after.updated_at:
                after = replace(after, outcome=None)  # what was released is open again
            await connection.execute(update(reservation).where(reservation.c.name == name).values(_row(after)))
            await _note(connection, history.RESERVATION_CHANGED, by, before, after)
            return after

    async def delete(self, name: str, expected: int | None = None, *, by: str | None = None) -> ReservationRecord:
        """Remove a reservation; as it was.

        Raises:
            RowMissing, RevisionChanged: as `edit`.
        """
        async with self._database.write() as connection:
            before = await _require(connection, name, expected)
            await changes.append(connection, TABLE, name)
            await connection.execute(delete(reservation).where(reservation.c.name == name))
            await _note(connection, history.RESERVATION_DELETED, by, before, None)
            return before

    async def choose(self, name: str, uid: str, nodes: Sequence[str], event: Event) -> bool:
        """Give a reservation other nodes, because some were lost, which `event` says in history; False if the
        reservation is there no longer.
        """
        return await self._set(name, uid, {"nodes": list(nodes)}, event)

    async def end(self, name: str, uid: str, outcome: Outcome, event: Event) -> bool:
        """One occurrence is over: if it ended early its room is free, and `event` says so in history. False as
        `choose`.
        """
        values: dict[str, Any] = {"outcome": outcome.to_dict()}
        if outcome.what != OVER:
            values["ended"] = {"from": outcome.begin.isoformat(), "why": outcome.what}
        return await self._set(name, uid, values, event)

    async def note_use(self, name: str, uid: str, blocked: datetime | None, used_until: datetime | None) -> bool:
        """Others hold room of the occurrence that began at `blocked`, None where no one does; one was used or not free
        until `used_until`. False as `choose`.
        """
        return await self._set(name, uid, {"blocked": blocked, "used_until": used_until})

    async def _set(self, name: str, uid: str, values: dict[str, Any], event: Event | None = None) -> bool:
        """A change by the scheduler: the revision that administrators see stays."""
        async with self._database.write() as connection:
            await changes.append(connection, TABLE, name)
            chosen = update(reservation).where(reservation.c.name == name, reservation.c.uid == uid)
            if not (await connection.execute(chosen.values(values))).rowcount:
                await connection.rollback()
                return False
            if event is not None:
                await history.record(connection, event)
            return True

    async def _append(self, connection: AsyncConnection, name: str, seen: int) -> int:
        """Take the next revision, if no reservation changed after the one that was seen."""
        revision = await changes.append(connection, TABLE, name)
        newer = select(change_log.c.key).where(
            change_log.c.revision > seen, change_log.c.revision < revision, change_log.c.table_name == TABLE
        )
        if (found := (await connection.execute(newer.limit(1))).first()) is not None:
            raise ReservationsChanged(f"the reservation {found[0]!r} was changed at the same time")
        return revision


async def _require(connection: AsyncConnection, name: str, expected: int | None) -> ReservationRecord:
    query = select(*_COLUMNS).where(reservation.c.name == name).with_for_update()
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise RowMissing(f"there is no reservation {name!r}")
    found = _record(row)
    if expected is not None and found.revision != expected:
        raise RevisionChanged(
            f"the reservation {name!r} was changed since you read it (revision {expected} then, {found.revision} now)",
            found.revision,
        )
    return found


async def _note(
    connection: AsyncConnection,
    event: str,
    by: str | None,
    before: ReservationRecord | None,
    after: ReservationRecord | None,
) -> None:
    if by is None:
        return
    about = after or before
    assert about is not None
    told = (("before", before), ("after", after))
    detail = {key: one.spec | {"chosen": list(one.nodes)} for key, one in told if one is not None}
    await history.record(connection, Event(event=event, actor=by, name=about.name, detail=detail))


def _still_over(before: ReservationRecord, spec: dict[str, Any]) -> Ended | None:
    """The occurrence that is over after an edit, because it ended early before."""
    if before.ended is None:
        return None
    try:
        old, new = parse_reservation(before.spec), parse_reservation(spec)
    except Invalid:
        return None
    begin = old.still_over(new, nanoseconds(before.ended.begin), time.time_ns())
    return None if begin is None else replace(before.ended, begin=moment_at(begin))


def _record(row: Any) -> ReservationRecord:
    found = ReservationRecord(*row)
    ended = row.ended and Ended(datetime.fromisoformat(row.ended["from"]), row.ended["why"])
    outcome = Outcome.of(row.outcome) if row.outcome else None
    return replace(found, nodes=tuple(row.nodes), ended=ended or None, outcome=outcome)


def _row(record: ReservationRecord) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in ReservationRecord.__slots__}
    ended = record.ended and {"from": record.ended.begin.isoformat(), "why": record.ended.why}
    outcome = record.outcome and record.outcome.to_dict()
    return values | {"nodes": list(record.nodes), "ended": ended, "outcome": outcome}
