"""Gangs whose binding stopped half-way are finished or taken back.

A gang that never ran and has some members bound, but not its minimum, is first finished by the next cycles: its members
come first in their queue and refused places are held for it. When that takes longer than the bind timeout, its bound
members are deleted, so that the room goes to somebody who can use it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.scheduler.executor import Executor
from t9ksched.scheduler.narrator import Narrator
from t9ksched.scheduler.records import GangRecord
from t9ksched.scheduler.state import ClusterState

log = structlog.get_logger(__name__)

GANG_BIND_TIMEOUT_SECONDS: Final = 60


class Integrity:
    """Looks for half-bound gangs; called by housekeeping."""

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        executor: Executor,
        narrator: Narrator,
        clock: Callable[[], int],
        *,
        timeout: int = GANG_BIND_TIMEOUT_SECONDS,
    ) -> None:
        self._client = client
        self._state = state
        self._executor = executor
        self._narrator = narrator
        self._clock = clock
        self._timeout = timeout * 1_000_000_000

    def overdue(self) -> list[GangRecord]:
        """Gangs that never ran, are bound in part for too long and have no binding under way."""
        now = self._clock()
        found = []
        for gang in self._state.pending:
            if gang.ran or gang.virtual or gang.complete():
                continue
            bound = any(pod.node and not pod.finished for pod in gang.members.values())
            if not bound or any(pod.assumed for pod in gang.members.values()):
                continue
            gang.first_bound = gang.first_bound or now  # bound before a restart: its time counts from when we saw it
            if now - gang.first_bound > self._timeout:
                found.append(gang)
        return found

    async def sweep(self) -> int:
        """Take every overdue gang back; how many."""
        gangs = self.overdue()
        await asyncio.gather(*(self._take_back(gang) for gang in gangs))
        return len(gangs)

    async def _take_back(self, gang: GangRecord) -> None:
        bound = [pod for pod in gang.members.values() if pod.node and not pod.finished and not pod.deleting]
        message = (
            f"{len(bound)} of {gang.spec.min_member} members were bound and the rest did not follow within"
            f" {self._timeout // 1_000_000_000} s: the bound ones are taken back, the group starts again as a whole"
        )
        log.warning("gang taken back", gang=gang.key, bound=len(bound), minimum=gang.spec.min_member)
        gang.first_bound = 0
        self._narrator.taken_back(gang, message, self._clock())
        for pod in bound:
            try:
                await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
            except (NotFound, Conflict):
                continue  # gone already, or another pod of that name by now
            except ApiError as error:
                gang.first_bound = self._clock() - self._timeout  # look again at the next sweep
                log.warning("pod not taken back, trying again", pod=pod.key, error=str(error))
