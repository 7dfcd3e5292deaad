"""The first and the last forecast of each job's start, and what happened: how good forecasts are is read from here.

Only the leader writes. A job is settled when it starts or goes away without; jobs that start at once have no row.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.engine import RowMapping

from t9ksched.model.forecast import Forecast, Outcome
from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, among, batches, upsert
from t9ksched.store.tables import forecast

_PARTS: Final = Forecast.__struct_fields__


class Forecasted(msgspec.Struct, frozen=True, kw_only=True):
    """What was forecast of one job. Times are nanoseconds since the epoch, 0 for not yet or never.

    Attributes:
        started_at: when it got the places of its minimum for the first time.
        settled_at: when it was seen that it has started or is gone.
    """

    uid: str
    queue: str
    first: Forecast
    last: Forecast
    started_at: int = 0
    settled_at: int = 0


class Forecasts:
    """The repository of forecasts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, jobs: Sequence[Forecasted]) -> None:
        """Write what is known of these jobs; their first forecasts stay as first written."""
        for batch in batches(jobs):
            async with self._database.write() as connection:
                await upsert(connection, forecast, [_row(one) for one in batch], keep=_FIRST)

    async def waiting(self) -> AsyncIterator[list[Forecasted]]:
        """Jobs that are not settled, a thousand at a time, in the order of UIDs: what a scheduler reads when it
        starts.
        """
        last = ""
        while True:
            open_ones = (forecast.c.settled_at == 0) & (forecast.c.uid > last)
            query = select(forecast).where(open_ones).order_by(forecast.c.uid).limit(BATCH)
            async with self._database.read() as connection:
                piece = [_read(row) for row in (await connection.execute(query)).mappings()]
            if not piece:
                return
            yield piece
            last = piece[-1].uid

    async def outcomes(self, *, last: bool = False, queues: Collection[str] | None = None, most: int) -> list[Outcome]:
        """The first forecasts, or the last ones, of the jobs that started most lately in these queues (None: all)."""
        which = "last" if last else "first"
        columns = [forecast.c[f"{which}_{part}"] for part in _PARTS]
        query = select(*columns, forecast.c.started_at).where(forecast.c.started_at > 0, forecast.c.settled_at > 0)
        query = query.order_by(forecast.c.settled_at.desc(), forecast.c.uid).limit(most)
        async with self._database.read() as connection:
            if queues is not None:
                query = query.where(among(connection, forecast.c.queue, queues))
            return [Outcome(Forecast(*row[:-1]), row[-1]) for row in await connection.execute(query)]

    async def purge(self, before: int) -> int:
        """Drop jobs that were settled before that time; how many."""
        dropped = 0
        while True:
            old = select(forecast.c.uid).where(forecast.c.settled_at > 0, forecast.c.settled_at < before).limit(BATCH)
            async with self._database.write() as connection:
                gone = delete(forecast).where(forecast.c.uid.in_(old.scalar_subquery()))
                count = int((await connection.execute(gone)).rowcount)
            dropped += count
            if count < BATCH:
                return dropped


_FIRST: Final = tuple(f"first_{part}" for part in _PARTS)


def _row(one: Forecasted) -> dict[str, Any]:
    row: dict[str, Any] = {"uid": one.uid, "queue": one.queue}
    for part in _PARTS:
        row[f"first_{part}"], row[f"last_{part}"] = getattr(one.first, part), getattr(one.last, part)
    return row | {"started_at": one.started_at, "settled_at": one.settled_at}


def _read(row: RowMapping) -> Forecasted:
    first, last = (Forecast(*(row[f"{which}_{part}"] for part in _PARTS)) for which in ("first", "last"))
    return Forecasted(
        uid=row["uid"],
        queue=row["queue"],
        first=first,
        last=last,
        started_at=row["started_at"],
        settled_at=row["settled_at"],
    )
