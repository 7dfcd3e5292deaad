"""Keeps promised room in SQL: written before the first eviction is sent, read at the start, removed when it is over.

The room of victims stays the preemptor's even if the scheduler dies before the preemptor is placed. A promise that
cannot be written is given up, and no victim is evicted for it. A promise that is over is removed from SQL a few seconds
later: a scheduler that starts before that sees that the owner is gone or placed, or that no pod is leaving the room,
and drops it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from t9ksched.model.reservation import Reservation
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.promises import Promises

log = structlog.get_logger(__name__)

_ANSWER_SECONDS: Final = 10.0
"""A database that takes longer counts as away: no victim is evicted for a promise that may be lost."""


class PromiseKeeper:
    """`on_loss` is called when the database does not take something."""

    def __init__(self, promises: Promises, state: ClusterState, on_loss: Callable[[], None] = lambda: None) -> None:
        self._promises = promises
        self._state = state
        self._on_loss = on_loss
        self._stored: set[str] = set()
        """Owners for which SQL may have rows."""
        self._order = asyncio.Lock()
        """One after the other: what is removed must not be what was written meanwhile."""

    async def restore(self, now: int) -> None:
        """Restore the reservations of promises whose time is not over. `now` in nanoseconds since the epoch.

        Raises:
            StoreError: the database does not answer.
        """
        found = await self._promises.all()
        self._stored.update(reservation.owner for reservation in found)
        # It is valid from now on: the clock of the previous leader may have been ahead of this one.
        standing = [
            replace(reservation, since=min(reservation.since, now)) for reservation in found if now < reservation.until
        ]
        self._state.reservations.restore(standing)
        if standing:
            log.info(
                "room is still promised",
                groups=len({reservation.owner for reservation in standing}),
                places=len(standing),
            )

    def give_up_unkept(self) -> None:
        """Give up promises of room that running pods hold: a former scheduler did not live to evict all victims. Their
        owners are planned for anew, with the room of those that leave. To be called when the pods are known.
        """
        for owner, reservations in list(self._state.reservations.promised.items()):
            asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for one in reservations:
                asked[one.node].update(dict(one.pod_class.requests))
            if not all(self._comes_free(owner, node, amounts) for node, amounts in asked.items()):
                log.info("promised room is not left, its gang is planned for anew", gang=owner)
                self._state.reservations.give_up(owner)

    def _comes_free(self, owner: str, node: str, asked: Counter[str]) -> bool:
        """Whether so much of a node is free, is held by the gang's own pods, or comes free when others have left."""
        facts = self._state.nodes.find(node)
        if facts is None:
            return False
        for charge in self._state.charges.on_node(node):
            pod = self._state.pods.get(charge.uid)
            its_own = pod is not None and pod.gang is not None and pod.gang.uid == owner
            if pod is None or not (pod.deleting or its_own):
                asked.update(dict(charge.pod_class.requests))
        return all(amount <= facts.allocatable.get(resource, 0) for resource, amount in asked.items())

    async def write(self, reservations: list[Reservation]) -> bool:
        """Write the promises to SQL; whether they are certainly written."""
        self._stored.update(
            reservation.owner for reservation in reservations
        )  # it may be written although no answer came
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._order:
                await self._promises.put(reservations)
        except (StoreError, TimeoutError) as error:
            log.warning("nothing is evicted: the promise of the room is not written", error=str(error) or "no answer")
            self._on_loss()
            return False
        return True

    async def sweep(self) -> None:
        """Remove promises that are over: used, given up, or past their time."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._order:
                over = self._stored - self._state.reservations.promised_to
                if over:
                    await self._promises.forget(over)
                    self._stored -= over
        except (StoreError, TimeoutError) as error:
            log.warning("promises that are over wait for the database", error=str(error) or "no answer")
