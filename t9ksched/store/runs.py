"""Since when jobs run, and how their last runs ended: what the enforcement of time limits must know after a restart.

A row each for jobs with a time limit, for jobs that did not start in time, and for jobs that were ended by a limit, by
the UID of the job. Only the leader writes them.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, select

from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, batches, upsert
from t9ksched.store.tables import job_run


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The run of one job. Times are nanoseconds since the epoch, 0 for never; `limit` is seconds.

    Attributes:
        bound_at: since when its minimum has had its place.
        ran_at: since when its minimum runs; the clock of its limit.
        near: whether it was told that its end is near.
        missed: how often in a row it did not start in time, the last time at `missed_at`, for the reason `why`.
        retry_at: before this it is not placed again.
        ended_at, ended_code, message: when and why a limit ended its last run.
        ended_limit: the limit that did; the job resumes only with another one.
        ended_asked: what its annotations asked for then, 0 for no limit; None if they said nothing of it.
        reserved_until: when the reservation ends of which it got the rest as its limit; 0 for jobs with another limit.
        limit: the limit given since its acceptance at `limit_at`, 0 for none; None while that of its acceptance counts.
    """

    uid: str
    bound_at: int = 0
    ran_at: int = 0
    near: bool = False
    missed: int = 0
    missed_at: int = 0
    retry_at: int = 0
    why: str = ""
    ended_at: int = 0
    ended_code: str = ""
    ended_limit: int | None = None
    message: str = ""
    limit: int | None = None
    limit_at: int = 0
    reserved_until: int = 0
    ended_asked: int | None = None


class Runs:
    """The repository of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, runs: Sequence[Run]) -> None:
        """Write the latest state of these runs."""
        for batch in batches(runs):
            async with self._database.write() as connection:
                await upsert(connection, job_run, [_row(run) for run in batch])

    async def all(self) -> list[Run]:
        """Every run, in the order of UIDs."""
        return [one async for piece in self.pieces() for one in piece]

    async def pieces(self) -> AsyncIterator[list[Run]]:
        """Every run, a thousand at a time, in the order of UIDs: what a scheduler reads when it starts."""
        last = ""
        while True:
            query = select(job_run).where(job_run.c.uid > last).order_by(job_run.c.uid).limit(BATCH)
            async with self._database.read() as connection:
                piece = [Run(**row) for row in (await connection.execute(query)).mappings()]
            if not piece:
                return
            yield piece
            last = piece[-1].uid

    async def forget(self, uids: Iterable[str]) -> None:
        """Remove the runs of jobs of which nothing must be known any more."""
        gone = list(uids)
        for start in range(0, len(gone), BATCH):
            async with self._database.write() as connection:
                await connection.execute(delete(job_run).where(job_run.c.uid.in_(gone[start : start + BATCH])))


def _row(run: Run) -> dict[str, Any]:
    return msgspec.structs.asdict(run)
