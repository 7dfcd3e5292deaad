"""Reads SQL at the start, and follows what API replicas commit from then on. With the database away the scheduler
starts all the same, without the acceptances and promises, which are read as soon as the database answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.keep.cordon_keeper import CordonKeeper
from t9ksched.scheduler.keep.dependency_keeper import DependencyKeeper
from t9ksched.scheduler.keep.overrides import Overrides
from t9ksched.scheduler.keep.plan_keeper import PlanKeeper
from t9ksched.scheduler.keep.queue_sync import QueueSync
from t9ksched.scheduler.keep.reservation_keeper import ReservationKeeper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.report.status import StatusWriter
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

_PAUSE: Final = 2.0
"""Seconds between two attempts while the database is away."""


class Restored(msgspec.Struct, frozen=True):
    """The parts of a scheduler that are initialised from SQL."""

    recorder: HistoryRecorder
    queues: QueueSync
    overrides: Overrides
    promises: PromiseKeeper
    plans: PlanKeeper
    dependencies: DependencyKeeper
    reservations: ReservationKeeper
    cordons: CordonKeeper
    cards: CardKeeper
    evictor: Evictor
    status: StatusWriter
    sql_writer: SqlWriter


class DatabaseSync:
    """Loads SQL into the state and into the `parts`.

    `begin` takes the leadership in SQL, `adopt` puts the cards of bound pods on record, `missing` tells history what a
    former scheduler did not live to write (None where another scheduler binds), `clock` gives nanoseconds since the
    epoch.
    """

    def __init__(
        self,
        store: Store,
        state: ClusterState,
        parts: Restored,
        begin: Callable[[], Awaitable[None]],
        adopt: Callable[[], Awaitable[None]],
        missing: Callable[[Callable[[str, str, int], None]], Awaitable[None]] | None,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._state = state
        self._parts = parts
        self._begin = begin
        self._adopt = adopt
        self._missing = missing
        self._clock = clock

    async def restore(self) -> int | None:
        """Read promises and records of former leaders; returns the revision read, None while the database is away."""
        parts, state = self._parts, self._state
        try:
            await self._begin()
            revision = await self._store.changes.head()
            async for accepted in self._store.acceptances.pieces():
                for acceptance in accepted:
                    state.accept(acceptance)
            async for jobs in self._store.jobs.written():
                parts.recorder.jobs.restore(jobs)
            await parts.queues.load()
            await parts.overrides.load()
            await parts.promises.restore(self._clock())
            await parts.plans.restore()
            await parts.dependencies.restore()
            await parts.reservations.load()
            await parts.cordons.load()
            await parts.cards.restore()
            async for piece in self._store.runs.pieces():
                state.clocks.restore(piece)
            await parts.evictor.evictable.restore(self._store.history, self._clock())
        except LeadershipLost:
            raise
        except StoreError as error:
            log.warning("database is away: what was agreed and promised is not known yet", error=str(error))
            state.outage.unread = True
            return None
        return revision

    async def recall(self) -> None:
        """Take in what history says, and tell it what a former scheduler did not live to write: before all else."""
        if self._missing is not None:
            await self._missing(self._parts.evictor.evictable.note)
        self._parts.promises.give_up_unkept()
        await self._parts.recorder.nodes.recall(self._store.history)
        self._parts.recorder.begun.set()

    async def follow(self, revision: int | None) -> None:
        """Follow what other processes commit after that revision, within a second; None reads everything first."""
        if revision is None:
            revision = await self._restore_late()
        while True:
            try:
                if await self._store.changes.wait(revision, timeout=60):
                    revision = await self._take_changes(revision)
            except StoreError as error:
                self._away(error)
                await asyncio.sleep(_PAUSE)

    async def find_queues(self) -> None:
        """Take over queues that were made since they were last read, without waiting for the change log."""
        if not self._parts.queues.loaded:
            return  # the queues of the cluster's Queue objects are used
        try:
            await self._parts.queues.catch_up()
        except StoreError as error:
            self._away(error)

    async def _restore_late(self) -> int:
        """Read what could not be read at the start, however long that takes; the revision read."""
        parts, state = self._parts, self._state
        revision = None
        while revision is None:
            await asyncio.sleep(_PAUSE)
            revision = await self.restore()
        await self._adopt()
        state.outage.read()
        await self.recall()
        state.feed.queues.note_all([*state.queues, *parts.queues.objects])
        parts.status.wake()
        log.info("the database answers: what was agreed and promised is known")
        await parts.recorder.accept_running()
        return revision

    async def _take_changes(self, revision: int) -> int:
        changes = await self._store.changes.since(revision)
        if any(change.table == "queue" for change in changes):
            await self._parts.queues.load()
            self._parts.status.wake()
        accepted = [change.key for change in changes if change.table == "acceptance"]
        for acceptance in (await self._store.acceptances.of(accepted)).values():
            self._state.accept(acceptance)
        await self._parts.overrides.take(changes)
        await self._parts.reservations.take(changes)
        await self._parts.cordons.take(changes)
        return max((change.revision for change in changes), default=revision)

    def _away(self, error: StoreError) -> None:
        log.warning("database is away: scheduling goes on with the queues known last", error=str(error))
        self._parts.sql_writer.lost()
