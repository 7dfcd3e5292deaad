"""Runs work only while this process holds a Lease, and ends the work rather than let it run beside the next leader.

The lease is renewed by a thread with an event loop and a client of its own, so that no amount of work delays it. That
thread also watches the work: a leader whose event loop, or whose connection to the database, is blocked for a lease's
duration while a standby reports that the database answers gives the lease back. A write of a leader ends before its
lease does: `Client.limit_writes`.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog

from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import first_cause
from t9ksched.cli.health import Page, probed
from t9ksched.cli.renewing import Overseer, Work, renewing
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.transport.client import Client
from t9ksched.kube.write.leader_guard import LeaderGuard
from t9ksched.kube.write.lease import LeaderElection
from t9ksched.kube.write.standby import StandbyMonitor, StandbyReport
from t9ksched.model.leadership import Timing
from t9ksched.model.names import SYSTEM_NAMESPACE

log = structlog.get_logger(__name__)

SCHEDULER_LEASE = "t9k-scheduler"
CONTROLLER_LEASE = "t9ksched-controller"
_HEARD_SECONDS = 30.0
"""Without an answer about the lease for this long, a process counts as cut off from the cluster."""


class Candidate(msgspec.Struct):
    """One process that competes for a lease. `port` writes only while this process holds the lease."""

    port: ClusterPort
    won: Callable[[], Awaitable[None]]
    """Waits until this process holds the lease."""
    work: Work
    """What the work reports of itself once it leads."""


async def _able() -> bool:
    return True


@asynccontextmanager
async def standing(
    client: ClusterPort,
    name: str,
    probes: tuple[str, int | None] = ("", None),
    page: Page | None = None,
    *,
    timing: Timing | None = None,
    renew: Client | None = None,
    able: Callable[[], Awaitable[bool]] = _able,
) -> AsyncIterator[Candidate]:
    """Compete for the lease `name` while the block runs; at its end the lease is given back. `probes` is the host and
    port of the kubelet's probes, waiting or leading; no port, no probes. `page` makes the metrics page there. `renew`
    is a client for a thread of the election's own, which it opens and closes; without one it shares this event loop.
    `able` says whether this process, waiting, could lead.

    Raises:
        Failure: the lease was lost, or given back.
        PortInUse: nothing can listen at `probes`.
    """
    timing = timing or Timing()
    won, lost = asyncio.Event(), asyncio.Event()
    identity = f"{socket.gethostname()}_{os.getpid()}"
    loop = asyncio.get_running_loop()

    def tell(leads: bool) -> None:
        event = won if leads else lost
        if renew is None:
            event.set()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    election = LeaderElection(
        client if renew is None else renew, name, SYSTEM_NAMESPACE, identity, timing=timing, on_change=tell
    )
    work = Work()
    if isinstance(client, Client):
        client.limit_writes(election.left)

    async def end_when_lost() -> None:
        await lost.wait()
        raise Failure(
            f"The lease {SYSTEM_NAMESPACE}/{name} was lost{work.why}: another process leads now, or may.",
            remedy="Start this one again (a Deployment does it): it waits until it may lead.",
        )

    with first_cause():
        async with probed(*probes, lambda: election.heard(_HEARD_SECONDS), page), asyncio.TaskGroup() as tasks:
            if renew is None:
                helpers = [tasks.create_task(election.run())]
            else:
                overseer = Overseer(election, StandbyMonitor(renew, name, SYSTEM_NAMESPACE), work, timing)
                report = StandbyReport(client, name, SYSTEM_NAMESPACE, identity, able, timing.duration / 2)
                helpers = [
                    tasks.create_task(renewing(election, renew, overseer)),
                    tasks.create_task(work.tick()),
                    tasks.create_task(report.run()),
                ]

            async def turn() -> None:
                await won.wait()
                for helper in helpers[2:]:
                    helper.cancel()  # a leader does not report as a standby
                log.info("leading", lease=name, identity=identity)

            guard = tasks.create_task(end_when_lost())
            try:
                if not election.holds():
                    log.info("waiting to lead", lease=name, identity=identity)
                yield Candidate(LeaderGuard(client, election.holds), turn, work)
            finally:
                guard.cancel()
                for helper in helpers:
                    helper.cancel()


@asynccontextmanager
async def leading(
    client: ClusterPort,
    name: str,
    probes: tuple[str, int | None] = ("", None),
    page: Page | None = None,
    *,
    timing: Timing | None = None,
    renew: Client | None = None,
) -> AsyncIterator[ClusterPort]:
    """As `standing`; the block runs once this process holds the lease, on a port that writes only while it does.

    Raises:
        Failure, PortInUse: as `standing`.
    """
    async with standing(client, name, probes, page, timing=timing, renew=renew) as candidate:
        await candidate.won()
        yield candidate.port
