"""Completes or removes submissions whose process was lost: completed where every object exists, else removed.

Every replica looks, when it starts and every few seconds, for entries of the outbox whose lease ended. If
all objects of a submission were created they are recorded as its process would have done; if not, those that are there
are deleted. So whenever a process ends, a submission either exists whole and belongs to its user, or does not exist.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.api.services import Services
from t9ksched.api.submission.files import have_files
from t9ksched.api.submission.findings import find, remove
from t9ksched.api.submission.kinds import ACCEPTED
from t9ksched.api.submission.recording import answered, records
from t9ksched.api.submission.submission import Object
from t9ksched.kube.errors import ApiError
from t9ksched.model.errors import Invalid
from t9ksched.store import history, outbox
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event
from t9ksched.store.outbox import Entry
from t9ksched.workloads.read import read

log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 5.0


class Recovery:
    """Completes or removes what lost processes left. `clock` gives the time by which leases are judged."""

    def __init__(self, services: Services, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._services = services
        self._clock = clock
        self._told = ""

    async def run(self) -> None:
        """Look at the start and again and again, until cancelled."""
        # An SQLite file has one process: the process that began an entry is gone when another starts.
        started = self._clock() if self._services.store.database.is_sqlite else None
        while True:
            try:
                await self.sweep(started)
                started, self._told = None, ""
            except (StoreError, ApiError) as error:
                if self._told != type(error).__name__:
                    log.warning("submissions that were lost are not settled now", error=str(error))
                self._told = type(error).__name__
            await asyncio.sleep(PERIOD_SECONDS)

    async def sweep(self, begun_before: datetime | None = None) -> int:
        """Complete or remove lost submissions and return how many. Those begun before `begun_before` need no expired
        lease.

        Raises:
            StoreError, ApiError: database or cluster does not answer; what is left is looked at when its lease ends.
        """
        lost = await self._services.store.outbox.lost(self._clock(), begun_before)
        failed: Exception | None = None
        for entry in lost:
            try:
                await self._settle(entry)
            except (StoreError, ApiError) as error:
                failed = failed or error  # the others are settled all the same
        if failed is not None:
            raise failed
        return len(lost)

    async def _settle(self, entry: Entry) -> None:
        store = self._services.store.outbox
        if entry.state == outbox.RECORDED:
            await store.drop(entry)
            return
        found = await find(self._services, entry)
        there = [obj for obj in found if obj is not None]
        whole = entry.state == outbox.CHECKING and len(there) == len(found)
        if whole and await have_files(self._services, entry, there) and await self._record(entry, there):
            return
        left = await remove(self._services, entry, found)
        now = self._clock()
        if left:
            await store.turn(entry, outbox.REMOVING, now + outbox.LEASE)
        elif entry.state == outbox.REMOVED:
            await store.drop(entry)
        elif await store.turn(entry, outbox.REMOVED, now + outbox.KEPT) and entry.state == outbox.CHECKING:
            log.warning("a submission that was lost half-way was removed", user=entry.owner, objects=len(there))
            await self._services.store.history.append(_removed(entry, len(there), now))

    async def _record(self, entry: Entry, made: Sequence[Object]) -> bool:
        """Record a submission that is there whole; False if its objects cannot be read, so that it must go."""
        store = self._services.store
        try:
            workloads = [
                read(obj | {"apiVersion": ACCEPTED[intent.kind].api_version, "kind": intent.kind})
                for intent, obj in zip(entry.objects, made, strict=True)
            ]
        except Invalid as error:
            log.warning("a submission that was lost cannot be read", user=entry.owner, error=str(error))
            return False
        answer = []
        if entry.key is not None:
            answer = [store.repeats.answering_lost(entry.owner, entry.key, 201, answered(entry, made, workloads, []))]
        closing = store.outbox.closing(entry, self._clock())
        await store.submissions.put(*records(entry, made, workloads), answer, closing)
        log.info("a submission that was lost before it was recorded was finished", user=entry.owner, objects=len(made))
        return True


@asynccontextmanager
async def recovering(services: Services) -> AsyncIterator[None]:
    """Complete or remove what lost processes left while the block runs."""
    task = asyncio.create_task(Recovery(services).run(), name="recovery")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _removed(entry: Entry, there: int, now: datetime) -> Event:
    first, several = entry.objects[0], len(entry.objects)
    message = (
        f"the service ended while it created {several} object{'s' if several > 1 else ''}: {there} of them"
        f" {'were' if there != 1 else 'was'} there, and nothing is left; submit again"
    )
    return Event(
        event=history.REFUSED,
        at=now,
        kind=first.kind,
        namespace=first.namespace,
        name=first.name,
        queue=first.acceptance.queue,
        actor=entry.owner,
        detail={"code": "Unavailable", "message": message, "objects": several},
    )
