"""One role a process, as on a cluster: scheduler, controllers, REST. They share a PostgreSQL database and a secret.

Scheduler and controllers lead by a Lease each: replicas wait, and one works.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import structlog
from pydantic import SecretStr

from t9ksched.api.app import create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.api.leader import HttpLeader
from t9ksched.api.routers.metrics import page_of
from t9ksched.api.submission.recovery import recovering
from t9ksched.cli.assembly import controllers_of, limits_of, scheduler_of, services_of
from t9ksched.cli.failure import Failure
from t9ksched.cli.health import probed
from t9ksched.cli.heap import settle
from t9ksched.cli.leading import CONTROLLER_LEASE, SCHEDULER_LEASE, leading, standing
from t9ksched.controller.meters import standby as controller_standby
from t9ksched.controller.service import Controllers
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.scheduler.keep.leadership import HEARTBEAT_SECONDS
from t9ksched.scheduler.report.metrics import standby
from t9ksched.scheduler.service import SchedulerService
from t9ksched.settings import Settings
from t9ksched.store import Store
from t9ksched.store.errors import StoreError

log = structlog.get_logger(__name__)

_PING_SECONDS = 2.0


async def scheduler(settings: Settings) -> int:
    """Schedule while this process leads."""
    secret, metrics = _secret(settings), _Metrics(standby)
    probes = (settings.health_host, settings.health_port)
    async with (
        _store(settings) as store,
        connect(settings.kubeconfig, write_timeout=settings.timing.write_seconds) as client,
    ):
        if not settings.leader_elect:
            async with probed(*probes, lambda: True, metrics.page):
                metrics.of = scheduler_of(settings, client, store, secret)
                await metrics.of.run()
            return 0
        async with standing(
            client,
            SCHEDULER_LEASE,
            probes,
            metrics.page,
            timing=settings.timing,
            renew=_renewing(settings),
            able=lambda: _answers(store),
        ) as candidate:
            service = scheduler_of(settings, candidate.port, store, secret)

            async def turn() -> None:
                await candidate.won()
                metrics.of = service
                candidate.work.answers = lambda: (service.leadership.answered, HEARTBEAT_SECONDS)

            await service.run(turn)
    return 0


def _renewing(settings: Settings) -> Client:
    """A client for nothing but the lease."""
    return connect(settings.kubeconfig, connections=2, timeout=settings.timing.renew_deadline)


async def _answers(store: Store) -> bool:
    """Whether the database does."""
    try:
        async with asyncio.timeout(_PING_SECONDS):
            await store.ping()
    except (StoreError, TimeoutError):
        return False
    return True


async def controller(settings: Settings) -> int:
    """Turn jobs into pods while this process leads."""
    metrics = _Metrics(controller_standby)
    async with (
        connect(settings.kubeconfig, write_timeout=settings.timing.write_seconds) as client,
        leading(
            client,
            CONTROLLER_LEASE,
            (settings.health_host, settings.health_port),
            metrics.page,
            timing=settings.timing,
            renew=_renewing(settings),
        ) as port,
    ):
        metrics.of = controllers = controllers_of(settings, port)
        await controllers.run()
    return 0


async def api(settings: Settings) -> int:
    """Answer REST; any number of these may run."""
    secret = _secret(settings)
    async with (
        _store(settings) as store,
        connect(settings.kubeconfig) as client,
        HttpLeader(store.instances, secret) as leader,
    ):
        await _see_an_admin(store, settings.admin_token)
        services = services_of(settings, store, client, leader)
        listener = listen(settings.host, settings.port)
        async with (
            recovering(services),
            Server(create_app(services), listener, limits_of(settings)) as server,
            probed(settings.health_host, settings.health_port, lambda: True, partial(page_of, services)),
        ):
            settle()
            log.info("serving", url=server.url)
            try:
                await asyncio.Event().wait()
            finally:
                await server.leave(settings.leave_seconds)
    return 0


class _Metrics:
    """The metrics page of a process that may wait to lead; `of` is its scheduler or its controllers once it leads."""

    def __init__(self, standby: Callable[[bool], bytes]) -> None:
        self._standby = standby
        self.of: SchedulerService | Controllers | None = None

    async def page(self, openmetrics: bool) -> bytes:
        """The page of what works here, or the one that says that it does not lead."""
        return self._standby(openmetrics) if self.of is None else await self.of.metrics(openmetrics)


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    if not settings.db or not settings.db.startswith("postgres"):
        raise Failure(
            "Roles in processes of their own need a PostgreSQL database that they share.",
            remedy="Set T9KSCHED_DB or pass --db postgresql://…; `t9ksched up` runs all roles in one process instead.",
        )
    async with await Store.open(settings.db, timing=settings.timing) as store:
        yield store


def _secret(settings: Settings) -> str:
    if settings.internal_secret is None:
        raise Failure(
            "Scheduler and API need a secret that they share.",
            remedy="Set T9KSCHED_INTERNAL_SECRET to the same random text for both.",
        )
    return settings.internal_secret.get_secret_value()


async def _see_an_admin(store: Store, given: SecretStr | None) -> None:
    """Make sure that an administrator can log in: the first start takes the administrator's token from the settings."""
    if given is not None:
        await store.tokens.ensure_admin(given.get_secret_value())
    elif not any(token.role == "admin" for token in await store.tokens.list()):
        raise Failure(
            "The database has no administrator's token yet.",
            remedy="Set T9KSCHED_ADMIN_TOKEN to a random text of at least 16 characters for the first start.",
        )
