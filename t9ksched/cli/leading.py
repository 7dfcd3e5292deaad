"""Doing something only while a Lease is ours, and ending rather than going on beside the next leader.

Who leads speaks to the cluster by a client whose writes end before the lease does: `connect` with `WRITE_SECONDS`.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import first_cause
from t9ksched.cli.health import Page, probed
from t9ksched.kube.guarded import GuardedPort
from t9ksched.kube.lease import LeaderElection
from t9ksched.kube.port import ClusterPort
from t9ksched.model.leadership import Timing
from t9ksched.model.names import SYSTEM_NAMESPACE

log = structlog.get_logger(__name__)

SCHEDULER_LEASE = "t9k-scheduler"
CONTROLLER_LEASE = "t9ksched-controller"
WRITE_SECONDS = Timing().duration - Timing().renew_deadline - 0.5
"""Shorter than what is left of the lease when its renewal fails: a write of a leader ends before its lease does."""
_HEARD_SECONDS = 30.0
"""Without an answer about the lease for this long, a process counts as cut off from the cluster."""


@asynccontextmanager
async def leading(
    client: ClusterPort, name: str, probes: tuple[str, int | None] = ("", None), page: Page | None = None
) -> AsyncIterator[ClusterPort]:
    """Wait for the lease `name`; the block runs while it is ours, on a port that writes only then.

    `probes` is the host and port where a kubelet asks after this process, waiting or leading; no port, no probes.
    `page` makes the metrics page there.

    Raises:
        Failure: the lease was lost.
        PortInUse: nothing can listen at `probes`.
    """
    won, lost = asyncio.Event(), asyncio.Event()
    identity = f"{socket.gethostname()}_{os.getpid()}"
    election = LeaderElection(
        client, name, SYSTEM_NAMESPACE, identity, on_change=lambda leads: (won if leads else lost).set()
    )

    async def end_when_lost() -> None:
        await lost.wait()
        raise Failure(
            f"The lease {SYSTEM_NAMESPACE}/{name} was lost: another process leads now, or may.",
            remedy="Start this one again (a Deployment does it): it waits until it may lead.",
        )

    with first_cause():
        async with probed(*probes, lambda: election.heard(_HEARD_SECONDS), page), asyncio.TaskGroup() as tasks:
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
