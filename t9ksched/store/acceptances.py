"""What was true when a job was accepted, by the object's UID.

Users can edit labels and annotations afterwards, but not these rows, so the scheduler uses the rows: the submitter, the
queue and group, the priority, time limit and cards.
"""

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, case, delete, literal_column, select
from sqlalchemy.engine import RowMapping

from t9ksched.store import changes
from t9ksched.store.bulk import Bulk, Speaker
from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, inserting
from t9ksched.store.tables import acceptance
from t9ksched.workloads.registry import ENDLESS_KINDS


class Acceptance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One accepted object; `cards` and `requests` are the whole job's totals by resource (millicores, bytes, units).

    `groups` are the submitter's at that time; `permitted_by` is the rule that admitted it, None where no rule was
    asked. `replicas` is the number of pods that was accepted together with the object, None where it was not recorded.
    `started_at` is when its latest run began: since when its minimum ran by the clock of its limit; before that is
    known, and where no clock was needed, when the scheduler saw its first pod in a place; None before. `began_with` is
    how many members the minimum of a PodGroup was when it began to run, and `began_roles` how many of each role; 0 once
    it lost its whole place, None where that was not recorded.
    """

    uid: str
    kind: str
    namespace: str
    name: str
    group_uid: str | None = None
    group_name: str | None = None
    submitter: str | None = None
    groups: list[str] = msgspec.field(default_factory=list)
    permitted_by: str | None = None
    queue: str | None = None
    priority: int = 0
    time_limit: timedelta | None = None
    cards: dict[str, int] = msgspec.field(default_factory=dict)
    requests: dict[str, int] = msgspec.field(default_factory=dict)
    accepted_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    replicas: int | None = None
    started_at: datetime | None = None
    began_with: int | None = None
    began_roles: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def amounts(self) -> dict[str, int]:
        """Everything that was accepted with it, by resource in units."""
        return self.requests | self.cards

    @property
    def by_itself(self) -> bool:
        """Whether it is of a pod or a group that was accepted as a job of its own: of those that an owner makes, the
        number of pods is recorded with the owner.
        """
        return self.kind in ("Pod", "PodGroup") and self.replicas is not None

    @property
    def time_limit_seconds(self) -> int | None:
        """Whole ones, as the table has it, rounded up: half a second is a limit, 0 would be none."""
        return None if self.time_limit is None else math.ceil(self.time_limit.total_seconds())


class Acceptances:
    """The repository of acceptances.

    The first acceptance of a UID remains in force. A later one may add a submitter where none was known: the scheduler
    can see an object before the service that created it has recorded its submitter. One with `replicas` replaces the
    amounts: the object was scaled, and that was accepted. So does one with `began_with` for what a group began with,
    and one with a later `started_at`: the job runs again. The queue changes only for kinds that may move to another
    queue, and of a PodGroup that was made anew: the scheduler accepts it in the queue that pays for the members it
    found.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_many(self, accepted: Sequence[Acceptance]) -> None:
        """Record acceptances and announce them in the change log, all or none of a thousand."""
        for start in range(0, len(accepted), BATCH):
            batch = accepted[start : start + BATCH]
            async with self._database.write() as connection:
                await changes.append(connection, "acceptance", *(one.uid for one in batch))
                await connection.run_sync(self.add, batch)

    @staticmethod
    def add(connection: Connection, accepted: Sequence[Acceptance]) -> None:
        """Record acceptances within the caller's transaction. The caller announces them in the change log if needed."""
        FIRST.write(connection, accepted)

    async def get(self, uid: str) -> Acceptance | None:
        """The acceptance of one object."""
        return (await self.of([uid])).get(uid)

    async def of(self, uids: Iterable[str]) -> dict[str, Acceptance]:
        """The acceptances of these objects, by UID; unknown ones are left out."""
        wanted, found = list(uids), {}
        for start in range(0, len(wanted), BATCH):
            query = select(acceptance).where(acceptance.c.uid.in_(wanted[start : start + BATCH]))
            async with self._database.read() as connection:
                for row in (await connection.execute(query)).mappings():
                    found[row["uid"]] = _acceptance(row)
        return found

    async def all(self) -> list[Acceptance]:
        """Every acceptance, oldest first."""
        found = [one async for piece in self.pieces() for one in piece]
        return sorted(found, key=lambda one: (one.accepted_at, one.uid))

    async def pieces(self) -> AsyncIterator[list[Acceptance]]:
        """Every acceptance, a thousand at a time, in the order of UIDs: what a scheduler reads when it starts."""
        last = ""
        while True:
            query = select(acceptance).where(acceptance.c.uid > last).order_by(acceptance.c.uid).limit(BATCH)
            async with self._database.read() as connection:
                piece = [_acceptance(row) for row in (await connection.execute(query)).mappings()]
            if not piece:
                return
            yield piece
            last = piece[-1].uid

    async def forget(self, uids: Iterable[str]) -> int:
        """Remove the acceptances of objects that are gone; how many there were. History keeps what happened."""
        gone, count = list(uids), 0
        for start in range(0, len(gone), BATCH):
            async with self._database.write() as connection:
                statement = delete(acceptance).where(acceptance.c.uid.in_(gone[start : start + BATCH]))
                count += int((await connection.execute(statement)).rowcount)
        return count


def _first(speaker: Speaker) -> Any:
    statement: Any = inserting(speaker, acceptance)
    old, new = acceptance.c, statement.excluded
    unnamed = old.submitter.is_(None) & new.submitter.is_not(None)
    counted = new.replicas.is_not(None)
    movable: list[Any] = [literal_column(f"'{kind}'") for kind in (*ENDLESS_KINDS, "PodGroup")]
    began = new.began_with.is_not(None)
    moved = counted & new.queue.is_not(None) & (old.queue != new.queue) & old.kind.in_(movable)
    began_anew = new.started_at.is_not(None) & (old.started_at.is_(None) | (new.started_at > old.started_at))
    rules = (
        (unnamed, ("submitter", "groups")),
        ((unnamed & (old.queue.is_(None) | (old.queue == new.queue))) | moved, ("permitted_by",)),
        (moved, ("queue", "priority")),
        (counted, ("cards", "requests", "replicas")),
        (began, ("began_with", "began_roles")),
        (began_anew, ("started_at",)),
    )
    changed = {name: case((rule, new[name]), else_=old[name]) for rule, names in rules for name in names}
    where = unnamed | counted | began | began_anew
    return statement.on_conflict_do_update(index_elements=[old.uid], set_=changed, where=where)


FIRST: Final[Bulk[Acceptance]] = Bulk(
    acceptance, [column.name for column in acceptance.columns], _first, in_order_of="uid"
)
"""Puts down acceptances; of one that is there only what `Acceptances` says is changed."""


def _acceptance(row: RowMapping) -> Acceptance:
    values = dict(row)
    seconds = values.pop("time_limit_seconds")
    values["began_roles"] = values["began_roles"] or {}
    return Acceptance(**values, time_limit=None if seconds is None else timedelta(seconds=seconds))
