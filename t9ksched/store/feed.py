"""History as it goes on: every event once, in the order of ids, as soon as no smaller id can appear any more.

On PostgreSQL transactions commit in another order than they take ids, so an id may be missing that will be there a
moment later. The feed waits for it: until it is there, or every transaction has ended that was at work when it was
missed. Whatever takes an id has a transaction number by then (migration 0029). On SQLite ids are in the order of
commits.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from sqlalchemy import and_, func, or_, select, text

from t9ksched.store.conditions import by_users
from t9ksched.store.database import Database
from t9ksched.store.history import ACCEPTED, SUBMITTED, Event, Visibility
from t9ksched.store.history_rows import COLUMNS, Wanted
from t9ksched.store.tables import history

BATCH: Final = 1000
LONGEST_SECONDS: Final = 60.0
"""No transaction of ours lasts longer: the server ends statements, waits and silence before. An id that is missing for
so long never comes, even if transactions of others keep the numbers of the server back."""
_OLDEST: Final = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
_NEXT: Final = text("SELECT pg_current_xact_id()::text::bigint")
"""A number of our own, above those of all transactions that have one. The end of a snapshot is none: it is behind the
last transaction that ended, and others at work may have larger numbers."""


class HistoryFeed:
    """A reader of history. `position` is the last id up to which nothing is missing. `clock` gives seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self.position = 0
        self._missing: frozenset[int] = frozenset()
        """Ids below the largest one seen that were not there."""
        self._noticed: tuple[int, float] | None = None
        """A transaction number above all that were given when they were missed, and when that was."""

    async def begin(self, pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Stand at the end: every event up to `position` can be read now. `pause` is awaited between two looks; if it
        says False, nobody waits any more.
        """
        head = await self._head()
        if not self._database.is_sqlite:
            after, since = await self._number(_NEXT), self._clock()
            while await self._number(_OLDEST) < after and self._clock() - since < LONGEST_SECONDS:
                if await pause(0.02) is False:
                    return
        self.position, self._missing, self._noticed = head, frozenset(), None

    async def news(self) -> list[Event]:
        """The next events, none if there are none yet."""
        settled = False
        if self._noticed is not None:
            first, since = self._noticed
            settled = await self._number(_OLDEST) >= first or self._clock() - since > LONGEST_SECONDS
        news = Wanted(after=self.position)
        query = select(*COLUMNS).where(history.c.id > self.position).order_by(history.c.id).limit(BATCH)
        found = news.of(await self._database.fetch(query))
        ready: list[Event] = []
        last = self.position
        for event in found:
            gap = range(last + 1, event.id)
            if gap and not self._database.is_sqlite and not (settled and self._missing.issuperset(gap)):
                break
            ready.append(event)
            last = event.id
        missed, noticed = await self._look(last, found, settled)
        # Nothing is awaited from here on: what was read is told, or read again.
        self.position, self._missing, self._noticed = last, missed, noticed
        return ready

    async def _look(
        self, last: int, found: Sequence[Event], settled: bool
    ) -> tuple[frozenset[int], tuple[int, float] | None]:
        """Which ids behind `last` are missing, and from when on they cannot come any more. Ids that are missed later
        have their turn when that is settled: else new ones would put off the oldest for ever.
        """
        there = {event.id for event in found}
        missing = frozenset(range(last + 1, found[-1].id if found else last)) - there
        if self._database.is_sqlite or not missing:
            return frozenset(), None
        if settled or not self._missing & missing:
            return missing, (await self._number(_NEXT), self._clock())
        return self._missing & missing, self._noticed

    async def page(
        self, after: int, upto: int, limit: int, seen_by: Visibility | None, public: Iterable[str]
    ) -> list[Event]:
        """Events behind `after` up to `upto`, which must not be beyond `position`: those that the user may see, and
        those of the kinds in `public`, of which the caller has to judge each.
        """
        query = select(*COLUMNS).where(history.c.id > after, history.c.id <= upto)
        if seen_by is not None:
            query = query.where(or_(seen_by.condition(), history.c.event.in_(sorted(public))))
        rows = await self._database.fetch(query.order_by(history.c.id).limit(limit))
        return Wanted(after=after).of(rows)[:limit]

    async def owners(self, uids: Sequence[str]) -> dict[str, set[str]]:
        """Who submitted the jobs of these UIDs, as far as that is on record."""
        found: dict[str, set[str]] = {}
        for start in range(0, len(uids), BATCH):
            query = select(history.c.uid, history.c.actor).where(
                and_(
                    history.c.uid.in_(uids[start : start + BATCH]),
                    history.c.event.in_((SUBMITTED, ACCEPTED)),
                    by_users(history.c.actor),
                )
            )
            for uid, actor in await self._database.fetch(query):
                if actor is not None:
                    found.setdefault(uid, set()).add(actor)
        return found

    async def _head(self) -> int:
        return int((await self._database.fetch(select(func.max(history.c.id))))[0][0] or 0)

    async def _number(self, query: object) -> int:
        return int((await self._database.fetch(query))[0][0])  # type: ignore[arg-type]
