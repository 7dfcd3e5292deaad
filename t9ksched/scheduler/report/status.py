"""The one writer of status: PodGroups and Queues, within a write budget.

It keeps the last value of each object and writes only when that changed: a PodGroup at most once a second, a Queue at
most once in five. Placing comes first: while many bindings are under way a status waits up to five seconds for its
turn, and then takes a small part of the requests in flight.
"""

import asyncio
import contextlib
import math
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import structlog

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODGROUPS
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.report.planned_shape import planned_start
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError

log = structlog.get_logger(__name__)

GROUP_PERIOD = 1.0
QUEUE_PERIOD = 5.0
_IN_FLIGHT = 6
"""About a tenth of the executor's requests."""
_RETRY = 5.0
_ASIDE = 5.0
"""How long a PodGroup's status waits while bindings are under way; changes meanwhile become one write."""
_LOOK_AGAIN = 0.25
_A_SLICE = 1000
"""Changes that are read before other tasks run."""


class Due(msgspec.Struct):
    """Objects waiting to be written: each key with the earliest time it may be."""

    period: float
    waiting: dict[Any, float] = msgspec.field(default_factory=dict)
    last: dict[Any, float] = msgspec.field(default_factory=dict)

    def add(self, key: Any, now: float) -> None:
        """The object changed."""
        self.waiting.setdefault(key, max(now, self.last.get(key, -math.inf) + self.period))

    def take(self, now: float, aside: float = 0.0) -> list[Any]:
        """The keys that may be written now, and may have been for `aside` seconds."""
        ready = [key for key, at in self.waiting.items() if at + aside <= now]
        self.last = {key: at for key, at in self.last.items() if at + self.period > now}
        for key in ready:
            del self.waiting[key]
            self.last[key] = now
        return ready

    def next(self) -> float | None:
        """When the next key may be written."""
        return min(self.waiting.values(), default=None)


def _chunks(keys: list[Any]) -> Iterator[list[Any]]:
    """As many at a time as may be in flight."""
    return (keys[start : start + _IN_FLIGHT] for start in range(0, len(keys), _IN_FLIGHT))


class StatusWriter:
    """Writes what changed. `write_queue` is how a Queue object is brought up to date (its projection); without `groups`
    the PodGroups are left alone. `crowded` says whether many bindings are under way.
    """

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        write_queue: Callable[[str], Any],
        now: Callable[[], str],
        *,
        groups: bool = True,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._crowded = crowded
        self._write_groups = groups
        self._client = client
        self._state = state
        self._write_queue = write_queue
        self._now = now
        self._groups = Due(GROUP_PERIOD)
        self._queues = Due(QUEUE_PERIOD)
        self._wake = asyncio.Event()
        self._changed_groups = state.feed.gangs.follow()
        self._changed_queues = state.feed.queues.follow()
        self._edited_queues = state.feed.edited_queues.follow()

    def wake(self) -> None:
        """Something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._collect()
            now, crowded = loop.time(), self._crowded()
            groups, queues = self._groups.take(now, _ASIDE if crowded else 0.0), self._queues.take(now)
            for some in _chunks(queues):
                await asyncio.gather(*map(self._queue, some))
            for some in _chunks(groups):
                if self._crowded() and not crowded:  # bindings have begun meanwhile
                    self._groups.waiting |= dict.fromkeys(some, now)
                else:
                    await asyncio.gather(*map(self._group, some))
            if self._crowded() and not groups:
                await asyncio.sleep(_LOOK_AGAIN)
                continue
            turns = loop.time() + GROUP_PERIOD if self._state.progress.other_numbers else None
            times = [at for at in (self._groups.next(), self._queues.next(), turns) if at is not None]
            pause = max(0.0, min(times) - loop.time()) if times else None
            if not groups or pause:
                await self._sleep(pause)

    async def _sleep(self, pause: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()

    async def _collect(self) -> None:
        for _ in self._state.changes.settling():
            await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        self._state.progress.other_numbers.publish(now)
        for changed in self._changed_groups.pieces(_A_SLICE):
            for gang in changed:
                if not (gang.virtual or gang.foreign) and gang.uid and self._write_groups:
                    self._groups.add(gang, now)
            if self._changed_groups:
                await asyncio.sleep(0)
        self._queues.waiting |= dict.fromkeys(self._edited_queues.take(), now)
        for name in self._changed_queues.take():
            self._queues.add(name, now)

    async def _group(self, gang: GangRecord) -> None:
        uid = gang.uid
        if self._state.gangs_by_uid.get(uid) is not gang:
            return  # gone meanwhile
        before = gang.status
        known = before if gang.own_status is None else gang.own_status
        planned = planned_start((gang,), self._state)
        status = group_status(gang, known, self._state.charges, self._now(), lambda: str(uuid.uuid4()), planned)
        if status == before:
            self._state.progress.status_written(gang, status)
            return
        cleared = {key: None for key in before if key not in status}
        body = {"metadata": {"uid": uid}, "status": {**cleared, **status}}
        try:
            await self._client.patch(PODGROUPS, gang.name, gang.namespace, body, subresource="status")
            self._state.progress.status_written(gang, status)
        except NotFound:
            return
        except ApiError as error:
            log.info("PodGroup status not written, trying again", group=gang.key, error=str(error))
            self._groups.waiting[gang] = asyncio.get_running_loop().time() + _RETRY

    async def _queue(self, name: str) -> None:
        try:
            await self._write_queue(name)
        except (ApiError, StoreError) as error:
            log.info("Queue object not written, trying again", queue=name, error=str(error))
            self._queues.waiting[name] = asyncio.get_running_loop().time() + _RETRY
