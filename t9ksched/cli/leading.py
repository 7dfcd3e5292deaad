"""Doing something only while a Lease is ours, and ending rather than going on beside the next leader."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import first_cause
from t9ksched.kube.guarded import GuardedPort
from t9ksched.kube.lease import LeaderElection
from t9ksched.kube.port import ClusterPort
from t9ksched.model.names import SYSTEM_NAMESPACE

log = structlog.get_logger(__name__)

SCHEDULER_LEASE = "t9k-scheduler"
CONTROLLER_LEASE = "t9ksched-controller"


@asynccontextmanager
async def leading(client: ClusterPort, name: str) -> AsyncIterator[ClusterPort]:
    """Wait for the lease `name`; the block runs while it is ours, on a port that writes only then.

    Raises:
        Failure: the lease was lost.
    """
    won, lost = asyncio.Event(), asyncio.Event()
    identity = f"{socket.gethostname()}_{os.getpid()}"
    election = LeaderElection(
        client, name, SYSTEM_NAMESPACE, identity, on_change=lambda leads: (won if leads else lost).set()
    )

    async def end_when_lost() -> None:
        await lost.wait()
        raise Failure(f"The lease {SYSTEM_NAMESPACE}/{name} was lost: another process leads now.")

    with first_cause():
        async with asyncio.TaskGroup() as tasks:
            striving = tasks.create_task(election.run())
            try:
                if not election.holds():
                    log.info("waiting to lead", lease=name, identity=identity)
                await won.wait()
                log.info("leading", lease=name, identity=identity)
                guard = tasks.create_task(end_when_lost())
                try:
                    yield GuardedPort(client, election.holds)
                finally:
                    guard.cancel()
            finally:
                striving.cancel()
