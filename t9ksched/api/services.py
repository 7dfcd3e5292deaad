"""What the routers work with, given to the app once at its making."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated

from fastapi import Depends, Request

from t9ksched.api import readiness
from t9ksched.api.allowances import NO_LIMITS, Allowances, Limits
from t9ksched.api.events.hub import Hub
from t9ksched.api.http.bodies import Bodies
from t9ksched.api.http.streams import OpenStreams
from t9ksched.api.leader import Leader
from t9ksched.api.meters import ApiMeters
from t9ksched.api.namespaces import Namespaces
from t9ksched.api.probe import Probe
from t9ksched.kube.port import ClusterPort
from t9ksched.model.notification import ONLY_PUBLIC, Allowed
from t9ksched.serving.overload import ConcurrencyLimiter
from t9ksched.serving.shared import Shared
from t9ksched.store import Store


@dataclass(frozen=True)
class Services:
    """The store, the cluster, the leader, the largest request body in bytes, how much a user may ask for, how many
    requests are worked on at the same time, and where notifications may go.
    """

    store: Store
    kube: ClusterPort
    leader: Leader
    max_body_bytes: int = 4 * 1024 * 1024
    limits: Limits = NO_LIMITS
    max_requests_at_once: int = 64
    notify: Allowed = ONLY_PUBLIC
    exec_allowed: bool = False
    """Whether commands are run in pods of jobs."""
    metrics_beside: Callable[[bool], Awaitable[bytes]] | None = None
    """The metrics page of what else works in this process, by whether it is OpenMetrics."""

    @cached_property
    def leaving(self) -> asyncio.Event:
        """Set once the process has been told to stop: it serves what still comes, and is not ready for more."""
        return asyncio.Event()

    @cached_property
    def limiter(self) -> ConcurrencyLimiter:
        """Says which requests are worked on."""
        return ConcurrencyLimiter(self.max_requests_at_once)

    @cached_property
    def meters(self) -> ApiMeters:
        """Counts what the process answers."""
        meters = ApiMeters()
        self.store.database.on_answer(meters.asked_database)
        return meters

    @cached_property
    def bodies(self) -> Bodies:
        """Reads the bodies of requests."""
        return Bodies(self.max_body_bytes)

    @cached_property
    def events(self) -> Hub:
        """Tells what happens to all who listen."""
        return Hub(self.store)

    @cached_property
    def log_streams(self) -> OpenStreams:
        """The logs that are being read."""
        return OpenStreams("logs", most_a_user=64, most=1024)

    @cached_property
    def exec_streams(self) -> OpenStreams:
        """The commands that run."""
        return OpenStreams("commands", most_a_user=16, most=256)

    @cached_property
    def allowances(self) -> Allowances:
        """Counts what users ask for."""
        return Allowances(self.limits, self.store.jobs)

    @cached_property
    def database(self) -> Probe:
        """Tells whether the database can be written."""
        return Probe(self.store)

    @cached_property
    def readiness(self) -> Shared[readiness.Looked]:
        """Tells whether everything that the service needs answers."""
        return Shared(partial(readiness.look, self.database, self.kube, self.leader))

    @cached_property
    def namespaces(self) -> Namespaces:
        """What the cluster says of its namespaces."""
        return Namespaces(self.kube)


async def _services(request: Request) -> Services:  # asynchronous: others are run in a thread
    services: Services = request.app.state.services
    return services


Given = Annotated[Services, Depends(_services)]
"""The parameter by which an endpoint gets them."""
