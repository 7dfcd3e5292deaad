"""Keeps planned starts in SQL, so that a scheduler that starts plans no gang for later than it was told.

They are written once a second, those that changed; what was planned in the last second before a crash is planned anew.
With the database away they go on in memory.
"""

import asyncio
from typing import Final

import structlog

from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.planned_starts import Plan, PlannedStarts

log = structlog.get_logger(__name__)

_ANSWER_SECONDS: Final = 10.0


class PlanKeeper:
    """`sweep` is called by housekeeping."""

    def __init__(self, planned_starts: PlannedStarts, state: ClusterState) -> None:
        self._planned_starts = planned_starts
        self._state = state
        self._stored: dict[str, Plan | None] = {}
        """What SQL has, by UID of the gang; None where that is not known."""

    async def restore(self) -> None:
        """Load the planned starts. Those of gangs that are gone, or run, end with the first cycle.

        Raises:
            StoreError: the database does not answer.
        """
        found = await self._planned_starts.all()
        self._stored.update(found)
        self._state.reservations.restore_plans(found)
        if found:
            log.info("starts are planned", groups=len(found))

    async def sweep(self) -> None:
        """Write what changed since the last call."""
        planned = self._state.reservations.planned
        changed = {owner: plan for owner, plan in planned.items() if self._stored.get(owner) != plan}
        gone = self._stored.keys() - planned.keys()
        if not (changed or gone) or self._state.outage.unread:
            return
        self._stored |= dict.fromkeys(changed)  # may be written although no answer comes
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if gone:
                    await self._planned_starts.forget(gone)
                await self._planned_starts.put(changed)
        except (StoreError, TimeoutError) as error:
            log.warning("planned starts wait for the database", error=str(error) or "no answer")
            return
        self._stored |= changed
        for owner in gone:
            del self._stored[owner]
