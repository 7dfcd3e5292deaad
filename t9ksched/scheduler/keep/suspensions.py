"""Suspensions of idle workloads on record before they are done, so that a scheduler that starts after a crash finds
what was done and not told.

One is written to SQL, then done, then told, and dropped once history has it. Whether it was done the object says, which
was not suspended when it was read after the first step.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from t9ksched.store.errors import StoreError
from t9ksched.store.history import IDLE_SINCE, Event, History
from t9ksched.store.meta import Meta

log = structlog.get_logger(__name__)

_KEY: Final = "suspensions-begun"
_ANSWER_SECONDS: Final = 10.0
"""A database that takes longer counts as away: nothing is suspended that may not be on record."""
_LOOKED_AT: Final = 100
"""A workload has few suspensions that are newer than one that was begun: one."""


class Suspensions:
    """Those begun, by the UID of the workload, as the event of history that each is to become."""

    def __init__(self, meta: Meta, history: History) -> None:
        self._meta = meta
        self._history = history
        self._begun: dict[str, Event] | None = None
        """None until it was read."""
        self._changed = False
        """Whether SQL may have other ones."""

    def __contains__(self, uid: str) -> bool:
        return self._begun is None or uid in self._begun

    async def begin(self, event: Event) -> bool:
        """Write that a workload is going to be suspended; whether it is certainly written."""
        if self._begun is None or event.uid is None:
            return False
        self._begun[event.uid] = event  # it may be written although no answer came
        self._changed = True
        return await self.write()

    def drop(self, uid: str) -> None:
        """It was not done, or is on record: `write` will tell SQL."""
        if self._begun is not None and self._begun.pop(uid, None) is not None:
            self._changed = True

    async def write(self) -> bool:
        """Write what changed; whether SQL certainly has all."""
        if self._begun is None or not self._changed:
            return self._begun is not None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._meta.set(_KEY, {uid: msgspec.to_builtins(event) for uid, event in self._begun.items()})
        except (StoreError, TimeoutError) as error:
            log.warning("suspensions of idle workloads wait for the database", error=str(error) or "no answer")
            return False
        self._changed = False
        return True

    async def untold(self) -> Sequence[Event]:
        """Those begun that history has not; what it has is dropped. Empty while the database does not answer."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if self._begun is None:
                    kept: dict[str, Any] = await self._meta.get(_KEY) or {}
                    self._begun = {uid: msgspec.convert(one, Event) for uid, one in kept.items()}
                begun = list(self._begun.values())
                return [event for event in begun if not await self._is_told(event)]
        except (StoreError, TimeoutError) as error:
            log.warning("suspensions of idle workloads wait for the database", error=str(error) or "no answer")
            return ()

    async def _is_told(self, event: Event) -> bool:
        found = await self._history.list(
            uid=event.uid,
            namespace=event.namespace,
            name=event.name,
            event=event.event,
            limit=_LOOKED_AT,
            newest_first=True,
        )
        if told := any(each.detail.get(IDLE_SINCE) == event.detail.get(IDLE_SINCE) for each in found):
            self.drop(str(event.uid))
        return told
