"""The store: one database and its repositories, opened and closed together."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from sqlalchemy import Connection

from t9ksched.model.leadership import Timing
from t9ksched.store import schema, usage_keeping
from t9ksched.store.acceptances import Acceptance, Acceptances
from t9ksched.store.advance_reservations import AdvanceReservations
from t9ksched.store.bindings import Bindings
from t9ksched.store.card_cordons import CardCordons
from t9ksched.store.changes import Changes
from t9ksched.store.database import Database
from t9ksched.store.dependencies import Dependencies
from t9ksched.store.errors import SchemaMismatch, StoreError
from t9ksched.store.feed import HistoryFeed
from t9ksched.store.fence import Fence
from t9ksched.store.forecasts import Forecasts
from t9ksched.store.history import Event, History
from t9ksched.store.instance import Instances
from t9ksched.store.job_overrides import Controls, Stops
from t9ksched.store.jobs import Gone, JobRow, Jobs
from t9ksched.store.meta import Meta, is_new
from t9ksched.store.notification_filling import enqueue
from t9ksched.store.notifications import Notifications
from t9ksched.store.outbox import Outbox
from t9ksched.store.planned_starts import PlannedStarts
from t9ksched.store.promises import Promises
from t9ksched.store.queues import Queues
from t9ksched.store.read_cache import ReadCache
from t9ksched.store.repeats import Repeats
from t9ksched.store.runs import Runs
from t9ksched.store.submissions import Submissions
from t9ksched.store.tokens import Tokens
from t9ksched.store.usage import Usage

_WRITABLE: Final = "writable"
"""Key in `meta` that is written to see whether anything can be."""
_LARGE_BYTES: Final = 1 << 20
"""What a large transaction writes."""


class Store:
    """Everything remembered. Open with `await Store.open(address)`, close with `await close()`, or use `async with`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.queues = Queues(database)
        self.tokens = Tokens(database)
        self.acceptances = Acceptances(database)
        self.usage = Usage(database)
        self.history = History(database, usage_keeping.keep)
        self.feed = partial(HistoryFeed, database)
        """Makes readers of history as it goes on."""
        self.jobs = Jobs(database)
        self.controls = Controls(database)
        self.stops = Stops(database)
        self.dependencies = Dependencies(database)
        self.promises = Promises(database)
        self.reservations = AdvanceReservations(database)
        self.card_cordons = CardCordons(database)
        self.planned_starts = PlannedStarts(database)
        self.forecasts = Forecasts(database)
        self.bindings = Bindings(database)
        self.runs = Runs(database)
        self.repeats = Repeats(database)
        self.outbox = Outbox(database)
        self.notifications = Notifications(database)
        self.changes = Changes(database)
        self.instances = Instances(database)
        self.meta = Meta(database)
        self.submissions = Submissions(database)
        self.read_cache = ReadCache(database, self.queues, self.tokens, self.controls, self.stops)

    @classmethod
    async def open(cls, address: str, *, migrate: bool = True, timing: Timing | None = None) -> "Store":
        """Connect, and bring the tables up to date (or, without `migrate`, insist that they are). `timing` is that of
        leaders here.

        Raises:
            StoreError: the database is out of reach, locked, or of a version this program cannot serve.
        """
        if migrate:
            await asyncio.to_thread(schema.upgrade, address)
        else:
            found = await asyncio.to_thread(schema.current, address)
            if found != schema.newest():
                raise SchemaMismatch(
                    f"the database is at revision {found or 'none'}, this program needs {schema.newest()}:"
                    " run `t9ksched db upgrade` first"
                )
        async with AsyncExitStack() as failing:
            store = await failing.enter_async_context(cls(Database(address, timing)))
            await store.queues.ensure_default()
            failing.pop_all()
        return store

    def fenced(self, epoch: Callable[[], int]) -> "Store":
        """The same store for a scheduler: it writes only while `epoch()` is the last leadership that began."""
        return Store(Fence(self.database, epoch))

    async def tell(
        self, accepted: Sequence[Acceptance], events: Sequence[Event], jobs: Sequence[JobRow], mark: str = ""
    ) -> None:
        """Write what a scheduler found at one moment, and what is to be sent because of it, in one transaction: all or
        nothing. Its acceptances are not announced in the change log, because it alone would read them there.

        Events that were given with this mark by the call before are not written again.

        Raises:
            StoreError: nothing was written, or the answer of the database was lost: the same events with the same mark
                are to be told before any others.
        """

        def write(connection: Connection) -> None:
            new = events if not mark or is_new(connection, mark) else ()
            self.acceptances.add(connection, accepted)
            self.history.add(connection, new)
            self.jobs.put(connection, jobs)
            enqueue(connection, new)

        await self.database.transact(write)

    async def end(self, gone: Mapping[str, Gone]) -> None:
        """Note that the objects of these jobs are gone, and tell so of those of whose end history does not tell, in one
        transaction.

        Raises:
            StoreError: nothing was written.
        """

        def write(connection: Connection) -> None:
            if events := self.jobs.end(connection, gone):
                self.history.add(connection, events)
                enqueue(connection, events)

        await self.database.transact(write)

    async def ping(self) -> None:
        """Ask the database for a sign of life.

        Raises:
            StoreError: there is none.
        """
        await self.database.ping()

    @property
    def write_fault(self) -> StoreError | None:
        """Why a write failed, until `check_writable` succeeds; None while none has."""
        return self.database.writability.fault

    async def check_writable(self) -> None:
        """See that ordinary transactions can be written: a disk may be full, or another process hold the file. A little
        is written, and as much as a large transaction once one has failed, because a little may still find room.

        Raises:
            StoreError: they cannot.
        """
        fault = self.database.writability.fault
        await self.database.check_room()
        if fault is not None:
            await self.meta.set(_WRITABLE, secrets.token_hex(_LARGE_BYTES // 2))
        # SQLite writes nothing where the content is that of before.
        await self.meta.set(_WRITABLE, secrets.token_hex(8))
        self.database.writability.proved(fault)

    async def close(self) -> None:
        """Close every connection."""
        await self.read_cache.close()
        await self.changes.close()
        await self.database.close()

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
