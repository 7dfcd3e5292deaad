"""The latest known state of each job, kept after the job itself is gone.

Lists come from here when the leader is away, and after the fact. The leader writes in batches when something changed;
`shape` is the job's JSON as REST shows it.
"""

import builtins
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from t9ksched.model.names import ARRAY_LABEL
from t9ksched.model.run_times import Likeness
from t9ksched.store import conditions
from t9ksched.store.bulk import Bulk
from t9ksched.store.database import Database
from t9ksched.store.history import DELETED, Event, Visibility
from t9ksched.store.moment import Moment
from t9ksched.store.rows import BATCH, among, batches, inserting_missing, lengths, upserting
from t9ksched.store.tables import job

PENDING = "Pending"
TERMINATING = "Terminating"
_ENDED: Final = ("Succeeded", "Failed")


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as last seen at `updated_at`. `deleted_at` is set once its object is gone."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue: str | None = None
    phase: str = PENDING
    submitted_at: datetime
    updated_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None
    deleted_at: datetime | None = None
    shape: dict[str, Any]

    @property
    def submitter(self) -> str | None:
        """The user who submitted it."""
        return self.shape.get("submitter")


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be written, of which `shape` is JSON that was encoded before."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue: str | None
    phase: str
    submitter: str | None
    submitted_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    deleted_at: None = None
    shape: msgspec.Raw


class Written(NamedTuple):
    """A job as stored in SQL; `shape` is the text of its JSON."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue: str | None
    phase: str
    finished_at: datetime | None
    shape: str


@dataclass(frozen=True, slots=True)
class Matching:
    """Filters of jobs; an empty one lets all through. A job was submitted at `since` or later, and before `until`."""

    namespace: str | None = None
    queues: Sequence[str] = ()
    phases: Sequence[str] = ()
    kinds: Sequence[str] = ()
    users: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    def where(self, query: Select[Any]) -> Select[Any]:
        """The query for those jobs alone."""
        if self.namespace is not None:
            query = query.where(job.c.namespace == self.namespace)
        several = ((job.c.queue, self.queues), (job.c.phase, self.phases), (job.c.kind, self.kinds))
        for column, values in (*several, (job.c.submitter, self.users)):
            if values:
                query = query.where(column.in_(values))
        if self.since is not None:
            query = query.where(job.c.submitted_at >= self.since)
        return query if self.until is None else query.where(job.c.submitted_at < self.until)


class Gone(NamedTuple):
    """That a job's object was seen to be gone at that time, which phase the job had before it was deleted, and whether
    history tells of its end.
    """

    at: datetime
    phase: str = PENDING
    told: bool = True


_GONE: Final = (
    update(job)
    .where(job.c.uid == bindparam("gone"), job.c.deleted_at.is_(None))
    .values(
        deleted_at=bindparam("at"),
        updated_at=bindparam("at"),
        phase=case((job.c.phase == TERMINATING, bindparam("before")), else_=job.c.phase),
    )
)


class Jobs:
    """The repository of last known job states."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_many(self, records: Sequence[JobRecord]) -> None:
        """Write what is known now; the time of submission stays as first written."""
        for batch in batches(records):
            await self._database.transact(partial(self.put, records=batch))

    @staticmethod
    def put(connection: Connection, records: Sequence[JobRecord | JobRow]) -> None:
        """The same within the caller's transaction."""
        _PUT.write(connection, records)

    async def mark_deleted(self, uids: Iterable[str], at: datetime) -> None:
        """Note that these jobs' objects are gone."""
        await self._database.transact(partial(self.end, gone={uid: Gone(at) for uid in uids}))

    @staticmethod
    def end(connection: Connection, gone: Mapping[str, Gone]) -> builtins.list[Event]:
        """Note that the objects of these jobs are gone, within the caller's transaction. They do not terminate any
        more: they have the phase that they had before. Returns the events to write of jobs that are on record and of
        whose end history does not tell.
        """
        untold = [uid for uid, one in gone.items() if not one.told]
        events: builtins.list[Event] = []
        if untold:
            names = (job.c.uid, job.c.kind, job.c.namespace, job.c.name, job.c.queue)
            there = among(connection, job.c.uid, untold) & job.c.deleted_at.is_(None)
            for uid, kind, namespace, name, queue in connection.execute(select(*names).where(there)).all():
                about = {"uid": uid, "kind": kind, "namespace": namespace, "name": name, "queue": queue}
                detail = {"phase": gone[uid].phase}
                events.append(Event(event=DELETED, at=gone[uid].at, actor="scheduler", detail=detail, **about))
        if gone:
            rows = [{"gone": uid, "at": one.at, "before": one.phase} for uid, one in gone.items()]
            connection.execute(_GONE, rows)
        return events

    async def mark_terminating(self, uid: str) -> None:
        """Note that the job's object was deleted on request, unless the job had ended before."""
        chosen = (job.c.uid == uid) & job.c.deleted_at.is_(None) & job.c.phase.not_in(_ENDED)
        async with self._database.write() as connection:
            await connection.execute(update(job).where(chosen).values(phase=TERMINATING))

    async def list(
        self,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        phase: str | None = None,
        deleted: bool = False,
        live_since: datetime | None = None,
        seen_by: Visibility | None = None,
        limit: int = 10_000,
    ) -> list[JobRecord]:
        """Jobs that match every filter given, oldest first; of more than `limit` the newest.

        Jobs whose objects are gone are included only if `deleted`, others only if submitted after `live_since`.
        """
        some = [() if one is None else (one,) for one in (queue, phase)]
        matching = Matching(namespace, queues=some[0], phases=some[1])
        rows = await self.page(
            matching, deleted=deleted, live_since=live_since, seen_by=seen_by, limit=limit, newest_first=True
        )
        return rows[::-1]

    async def page(
        self,
        matching: "Matching",
        *,
        deleted: bool,
        live_since: datetime | None,
        seen_by: Visibility | None,
        limit: int,
        newest_first: bool = False,
        after: tuple[datetime, str] | None = None,
    ) -> builtins.list[JobRecord]:
        """As `list`, the next `limit` jobs behind the one that was submitted then and has that UID."""
        behind = tuple_(job.c.submitted_at, job.c.uid)
        order = (job.c.submitted_at.desc(), job.c.uid.desc()) if newest_first else (job.c.submitted_at, job.c.uid)
        query: Select[Any] = select(*_COLUMNS).order_by(*order).limit(limit)
        if after is not None:
            cursor = tuple_(literal(after[0], Moment), literal(after[1]))
            query = query.where(behind < cursor if newest_first else behind > cursor)
        query = matching.where(query)
        if seen_by is not None:  # case differs between databases, so more may be found: the caller checks each again
            query = query.where(_seen(seen_by))
        live, gone = job.c.deleted_at.is_(None), job.c.deleted_at.is_not(None)
        recent = live if live_since is None else live & (job.c.submitted_at > live_since)
        if deleted and matching.users:  # those that are there and those that are gone have indexes of their own
            either = union_all(*(select(query.where(one).subquery()) for one in (recent, gone))).subquery()
            place = (either.c.submitted_at, either.c.uid)
            query = select(either).order_by(*(each.desc() if newest_first else each for each in place)).limit(limit)
        elif deleted and live_since is not None:
            query = query.where(or_(recent, gone))
        elif not deleted:
            query = query.where(recent)
        return [_record(row) for row in await self._database.fetch(query)]

    async def written(self) -> AsyncIterator[Sequence[Written]]:
        """What was written of every job that is not known to be gone, a thousand at a time, those that were submitted
        first first: so the index of these jobs has them.
        """
        columns = (job.c.uid, job.c.kind, job.c.namespace, job.c.name, job.c.queue, job.c.phase, job.c.finished_at)
        place = (job.c.submitted_at, job.c.uid)
        query = select(job.c.submitted_at, *columns, cast(job.c.shape, Text)).where(job.c.deleted_at.is_(None))
        query = query.order_by(*place).limit(BATCH)
        following = query
        while True:
            async with self._database.read() as connection:
                rows = (await connection.execute(following)).all()
            if not rows:
                return
            yield [Written(*row[1:]) for row in rows]
            following = query.where(tuple_(*place) > tuple_(literal(rows[-1][0], Moment), literal(rows[-1][1])))

    async def get(self, uid: str) -> JobRecord | None:
        """The job of that UID, also one that is gone."""
        rows = await self._database.fetch(select(*_COLUMNS).where(job.c.uid == uid))
        return _record(rows[0]) if rows else None

    async def gone(self, namespace: str, kind: str, name: str, since: datetime) -> JobRecord | None:
        """Of the jobs of that name whose objects went at `since` or later, the one that went first; None if none
        did.
        """
        named = (job.c.namespace == namespace) & (job.c.kind == kind) & (job.c.name == name)
        query = select(*_COLUMNS).where(named, job.c.deleted_at >= since).order_by(job.c.deleted_at).limit(1)
        rows = await self._database.fetch(query)
        return _record(rows[0]) if rows else None

    async def elements(
        self, namespace: str, kind: str, array: str, gone_since: datetime | None = None
    ) -> builtins.list[JobRecord]:
        """The elements of an array that are there, or with `gone_since` those whose objects went then or later: jobs
        that carry its label, called `ARRAY-INDEX`.
        """
        there = job.c.deleted_at.is_(None) if gone_since is None else job.c.deleted_at >= gone_since
        mine = (job.c.namespace == namespace) & (job.c.kind == kind) & there
        query = select(*_COLUMNS).where(mine, job.c.name.startswith(f"{array}-", autoescape=True))
        rows = map(_record, await self._database.fetch(query.order_by(job.c.uid)))
        return [row for row in rows if (row.shape.get("labels") or {}).get(ARRAY_LABEL) == array]

    async def run_times(self, most: int) -> builtins.list[tuple[Likeness, float]]:
        """How many seconds the jobs ran that ended last, and what they were like; jobs without a submitter, or that
        never ran, are left out.
        """
        shape = job.c.shape
        members, cards = shape["members"]["total"].as_integer(), shape["gpus"].as_integer()
        columns = (job.c.submitter, job.c.queue, job.c.kind, members, cards, shape["startedAt"].as_string())
        known = job.c.submitter.is_not(None) & job.c.queue.is_not(None) & job.c.finished_at.is_not(None)
        query = select(*columns, job.c.finished_at).where(known).order_by(job.c.finished_at.desc()).limit(most)
        found = []
        for user, queue, kind, total, gpus, started, finished in await self._database.fetch(query):
            if started is not None:
                ran = (finished - datetime.fromisoformat(started)).total_seconds()
                found.append((Likeness(user, queue, kind, (total or 0, gpus or 0)), max(0.0, ran)))
        return found

    async def waiting(self, what: str, name: str, most: int) -> int:
        """How many jobs wait of a submitter or in a queue, as `what` says; no more than `most` are counted."""
        mine = job.c[what] == name
        rows = select(job.c.uid).where(mine, text(conditions.WAITING)).limit(most)
        found = await self._database.fetch(select(func.count()).select_from(rows.subquery()))
        return int(found[0][0])

    async def purge(self, before: datetime) -> int:
        """Drop jobs whose objects were gone before that time; how many."""
        async with self._database.write() as connection:
            return int((await connection.execute(delete(job).where(job.c.deleted_at < before))).rowcount)


_NAMES: Final = tuple(JobRecord.__struct_fields__)
_STORED: Final = (*_NAMES, "submitter")
_CUT: Final = lengths(job, "kind", "namespace", "name", "queue", "phase", "submitter")
_PUT: Final[Bulk[JobRecord | JobRow]] = upserting(job, _STORED, keep=["submitted_at"], cut=_CUT, in_order_of="uid")
MISSING: Final[Bulk[JobRecord]] = inserting_missing(job, _STORED, _CUT)
"""Puts down jobs that are not there yet."""
_COLUMNS = tuple(job.c[name] for name in _NAMES)


def _seen(visibility: Visibility) -> ColumnElement[bool]:
    seen = or_(
        job.c.shape["submitter"].as_string() == visibility.user,
        job.c.shape["formerSubmitters"]
        .as_string()
        .contains(msgspec.json.encode(visibility.user).decode(), autoescape=True),
        job.c.queue.in_(visibility.queues),
        job.c.namespace.in_(visibility.namespaces),
    )
    return seen if not visibility.within else and_(seen, or_(job.c.queue.in_(visibility.within), job.c.queue.is_(None)))


def _record(row: Sequence[Any]) -> JobRecord:
    found = JobRecord(**dict(zip(_NAMES, row, strict=True)))
    if "gpus" in found.shape:  # earlier releases knew whole cards only
        found.shape.setdefault("cards", float(found.shape["gpus"]))
    return found
