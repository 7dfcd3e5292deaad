"""How a standby reports to the leader that it waits and reaches the database: it renews a Lease of its own.

A leader that sees the report while its own event loop or connection is blocked gives its lease back; without the report
no process would do better, so it stays. Times are taken from changes that the process sees itself, never from another
machine's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import LEASES

log = structlog.get_logger(__name__)


def lease_of(name: str) -> str:
    """The Lease in which standbys of the lease `name` report."""
    return f"{name}-standby"


class StandbyReport:
    """Reports as `identity` for the lease `name` every `interval` seconds, if `able()` says that it could lead."""

    def __init__(
        self,
        port: ClusterPort,
        name: str,
        namespace: str,
        identity: str,
        able: Callable[[], Awaitable[bool]],
        interval: float,
    ) -> None:
        self._port, self._name, self._namespace = port, lease_of(name), namespace
        self._identity, self._able, self._interval = identity, able, interval

    async def run(self) -> None:
        """Report until cancelled. That it cannot be done is logged once, until it can again."""
        told = False
        while True:
            try:
                if await self._able():
                    await self.report()
                told = False
            except Conflict:
                pass  # another standby has just reported: that says as much
            except ApiError as error:
                if not told:
                    log.warning("standby cannot report", lease=self._name, error=str(error))
                told = True
            await asyncio.sleep(self._interval)

    async def report(self) -> None:
        """Report once.

        Raises:
            ApiError: it was not taken.
        """
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(3 * self._interval)),
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            lease = await self._port.get(LEASES, self._name, self._namespace)
        except NotFound:
            lease = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            await self._port.create(LEASES, lease, self._namespace)
            return
        await self._port.replace(LEASES, lease | {"spec": (lease.get("spec") or {}) | spec})


class StandbyMonitor:
    """The leader's check of the reports for the lease `name`; `fresh` is called repeatedly while something is wrong."""

    def __init__(self, port: ClusterPort, name: str, namespace: str) -> None:
        self._port, self._name, self._namespace = port, lease_of(name), namespace
        self._version: str | None = None

    def forget(self) -> None:
        """Forget the reports seen so far: nothing is wrong now."""
        self._version = None

    async def fresh(self) -> bool:
        """Whether a standby has reported since the previous call.

        Raises:
            ApiError: the cluster does not answer.
        """
        try:
            lease: Object = await self._port.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._version = ""
            return False
        before, self._version = self._version, str(lease["metadata"].get("resourceVersion", ""))
        return before is not None and before != self._version
