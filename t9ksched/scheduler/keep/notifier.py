"""Sends what stands in the outbox of notifications; only the leader does.

Several targets are served at the same time, each one notification after the other, so that one that hangs or fails
keeps no other waiting; those that failed last get a part of the places. What was sent is removed at once, and what
could not be removed is not sent again by this process.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.model.notification import TEST
from t9ksched.notify.errors import NotSent
from t9ksched.notify.sending import Send
from t9ksched.scheduler.state.notified import Notified
from t9ksched.store.errors import StoreError
from t9ksched.store.notifications import Notifications, Target, Waiting

log = structlog.get_logger(__name__)

PLACES: Final = 16
"""Targets served at the same time; at most half of them failed last."""
A_TURN: Final = 50
"""Notifications to one target before others have their turn."""
PERIOD: Final = 1.0
"""Seconds between two looks at the outbox."""


class Notifier:
    """Runs until cancelled. `clock` gives nanoseconds since the epoch."""

    def __init__(self, outbox: Notifications, send: Send, counts: Notified, clock: Callable[[], int]) -> None:
        self._outbox = outbox
        self._send = send
        self._counts = counts
        self._clock = clock
        self._busy: dict[str, bool] = {}
        """Targets that are served, and whether they failed last."""
        self._sent: set[int] = set()
        """Rows that were sent and are still there."""

    async def run(self) -> None:
        """Send what is due, for ever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    await self._look(tasks)
                except StoreError as error:
                    log.debug("notifications wait for the database", error=str(error))
                await asyncio.sleep(PERIOD)

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        """Serve as many targets as there are places for."""
        self._counts.waiting = await self._outbox.waiting()
        if not self._counts.waiting:
            self._sent.clear()
            return
        for target in await self._outbox.ready(self._now(), PLACES, self._busy):
            failing = target.failures > 0
            if len(self._busy) >= PLACES or (failing and sum(self._busy.values()) >= PLACES // 2):
                break
            self._busy[target.id] = failing
            tasks.create_task(self._serve(target))

    async def _serve(self, target: Target) -> None:
        """One notification after the other, until one fails."""
        try:
            for one in await self._outbox.due(target.id, self._now(), A_TURN):
                if not await self._one(target, one):
                    return
        except StoreError as error:
            log.debug("notifications wait for the database", error=str(error))
        finally:
            del self._busy[target.id]

    async def _one(self, target: Target, one: Waiting) -> bool:
        """Send one and record it; whether the next one may follow."""
        if one.id not in self._sent:
            try:
                await self._send(target, one)
            except NotSent as error:
                await self._failed(target, one, error)
                return False
            except Exception as error:
                # Whatever a library raises ends no scheduler; what it says may have secrets.
                log.error("a notification could not be sent", target=target.id, error=type(error).__name__)
                await self._failed(target, one, NotSent("the service could not send it: its log says more"))
                return False
            self._sent.add(one.id)
            self._counts.told["sent"] += 1
        await self._outbox.sent(one, self._now())
        self._sent.discard(one.id)
        return True

    async def _failed(self, target: Target, one: Waiting, error: NotSent) -> None:
        self._counts.told["failed"] += 1
        outcome = await self._outbox.failed(one, self._now(), str(error), gone=error.gone)
        if outcome.given_up and one.body.get("type") != TEST:  # who asked for a test is told how it ended
            self._counts.told["dropped"] += 1
        if outcome.disabled:
            log.warning(
                "notifications are disabled",
                target=target.id,
                address=target.shown,
                failures=outcome.failures,
                error=str(error),
            )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 1e9, UTC)
