"""What managers decided about waiting jobs, and what administrators stopped for a while.

Both are few rows that the scheduler follows by the change log (`job_control` by the job's UID, `stop` by what is
stopped). Each change is written to history in its own transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import delete, select

from t9ksched.store import changes, history
from t9ksched.store.database import Database
from t9ksched.store.history import Event
from t9ksched.store.rows import BATCH, upsert
from t9ksched.store.tables import job_control, stop

SCHEDULING: Final = "scheduling"
"""No new pod is bound; what runs goes on."""
PREEMPTION: Final = "preemption"
"""Nothing is evicted for something else."""
STOPPABLE: Final = (SCHEDULING, PREEMPTION)


@dataclass(frozen=True, slots=True)
class JobControl:
    """A decision about the job of this UID: `held` jobs are not started; `priority` and `time_limit_seconds`, if any,
    replace its own (a limit of 0 is none); `released_at` is when it was last released, `limited_at` when it was last
    given a limit.
    """

    uid: str
    held: bool = False
    priority: int | None = None
    by: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    time_limit_seconds: int | None = None
    released_at: datetime | None = None
    limited_at: datetime | None = None


class Controls:
    """The repository of decisions about jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(self, event: Event, root: str = "") -> JobControl:
        """Do not start the job that the event is about. The event names the job and the manager.

        With `root`, here as below, the decision is about the owner of that UID above the job, so that it counts for
        whatever that makes next as well.
        """
        return await self._set(event, root, held=True)

    async def release(self, event: Event, root: str = "") -> JobControl:
        """Let a held job start again."""
        return await self._set(event, root, held=False, released_at=event.at)

    async def prioritise(self, event: Event, priority: int, root: str = "") -> JobControl:
        """Give a waiting job another priority within its queue."""
        return await self._set(event, root, priority=priority)

    async def limit(self, event: Event, seconds: int, root: str = "") -> JobControl:
        """Give a job another time limit; 0 for none."""
        return await self._set(event, root, time_limit_seconds=seconds, limited_at=event.at)

    async def all(self) -> list[JobControl]:
        """Every decision in force: what a scheduler reads when it starts."""
        async with self._database.read() as connection:
            return [JobControl(**row) for row in (await connection.execute(select(job_control))).mappings()]

    async def of(self, uids: Iterable[str]) -> dict[str, JobControl]:
        """The decisions about these jobs, by UID; jobs without one are left out."""
        wanted = list(uids)
        found: dict[str, JobControl] = {}
        for start in range(0, len(wanted), BATCH):
            query = select(job_control).where(job_control.c.uid.in_(wanted[start : start + BATCH]))
            async with self._database.read() as connection:
                found |= {row["uid"]: JobControl(**row) for row in (await connection.execute(query)).mappings()}
        return found

    async def forget(self, uids: Iterable[str]) -> None:
        """Remove the decisions about jobs that are gone."""
        gone = list(uids)
        for start in range(0, len(gone), BATCH):
            async with self._database.write() as connection:
                chosen = job_control.c.uid.in_(gone[start : start + BATCH])
                await connection.execute(delete(job_control).where(chosen))

    async def _set(self, event: Event, root: str, **change: Any) -> JobControl:
        assert event.uid, "the event names the job"
        uid = root or event.uid
        async with self._database.write() as connection:
            await changes.append(connection, "job_control", uid)
            found = await connection.execute(select(job_control).where(job_control.c.uid.in_([uid, event.uid])))
            rows = {row["uid"]: JobControl(**row) for row in found.mappings()}
            # What was decided about the job alone, by an earlier release, is taken over with the first decision.
            before = rows.get(uid) or replace(rows.get(event.uid) or JobControl(uid), uid=uid)
            after = replace(before, by=event.actor or "", at=event.at, **change)
            await upsert(connection, job_control, [{name: getattr(after, name) for name in JobControl.__slots__}])
            detail = {"before": _decided(before), "after": _decided(after)}
            await history.record(connection, msgspec.structs.replace(event, detail=event.detail | detail))
            return after


@dataclass(frozen=True, slots=True)
class Stop:
    """Something the scheduler must not do, until a time or until it is resumed."""

    what: str
    until: datetime | None
    by: str
    at: datetime
    why: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether it is still in force."""
        return self.until is None or now < self.until


_STOPS = select(*(stop.c[name] for name in Stop.__slots__)).order_by(stop.c.what.desc())


class Stops:
    """The repository of stops."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Stop]:
        """Every stop, expired ones included; those of all scheduling first."""
        return [Stop(*row) for row in await self._database.fetch(_STOPS)]

    async def list(self, now: datetime | None = None) -> list[Stop]:
        """The stops in force now, without expired ones; those of all scheduling first."""
        now = now or datetime.now(UTC)
        return [one for one in await self.all() if one.holds(now)]

    async def stop(self, wanted: Stop) -> None:
        """Stop something, replacing an earlier stop of the same."""
        async with self._database.write() as connection:
            await changes.append(connection, "stop", wanted.what)
            await upsert(connection, stop, [{name: getattr(wanted, name) for name in Stop.__slots__}])
            until = None if wanted.until is None else wanted.until.isoformat()
            detail = {"what": wanted.what, "until": until, "why": wanted.why}
            event = Event(event=history.STOPPED, at=wanted.at, actor=wanted.by, name=wanted.what, detail=detail)
            await history.record(connection, event)

    async def resume(self, what: str, by: str) -> bool:
        """End a stop; whether there was one."""
        async with self._database.write() as connection:
            await changes.append(connection, "stop", what)
            ended = int((await connection.execute(delete(stop).where(stop.c.what == what))).rowcount) > 0
            if not ended:
                await connection.rollback()
                return False
            event = Event(event=history.RESUMED, actor=by, name=what, detail={"what": what})
            await history.record(connection, event)
            return True


def _decided(control: JobControl) -> dict[str, Any]:
    limit = {} if control.time_limit_seconds is None else {"timeLimitSeconds": control.time_limit_seconds}
    return {"held": control.held, "priority": control.priority} | limit
