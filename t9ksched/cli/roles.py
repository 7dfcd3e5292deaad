"""One role a process, as on a cluster: scheduler, controllers, REST. They share a PostgreSQL database and a secret.

Scheduler and controllers lead by a Lease each: replicas wait, one works, and a leader that lost its lease ends its
process rather than go on beside the next one.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import structlog
from pydantic import SecretStr

from api.app import create_app
from api.leader import HttpLeader
from api.server import Server, listen
from api.services import Services
from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import failures, first_cause
from t9ksched.controller.service import Controllers
from t9ksched.kube.config import connect
from t9ksched.kube.guarded import GuardedPort
from t9ksched.kube.lease import LeaderElection
from t9ksched.kube.port import ClusterPort
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.service import SchedulerService
from t9ksched.settings import Settings
from t9ksched.store import Store

log = structlog.get_logger(__name__)

LEADER_WRITE_SECONDS = 4.5
"""Shorter than what is left of the lease when its renewal fails: a write of a leader ends before its lease does."""


async def scheduler(settings: Settings) -> int:
    """Schedule whenever this process leads."""
    secret = _secret(settings)
    async with _store(settings) as store, connect(settings.kubeconfig, write_timeout=LEADER_WRITE_SECONDS) as client:
        await _lead(
            client,
            "t9k-scheduler",
            lambda port: SchedulerService(
                port,
                store,
                internal_secret=secret,
                listen=(settings.internal_host, settings.internal_port),
                public_address=settings.internal_address,
                retention=timedelta(days=settings.retention_days),
            ).run(),
        )
    return 0


async def controller(settings: Settings) -> int:
    """Turn jobs into pods whenever this process leads."""
    with failures():
        async with connect(settings.kubeconfig, write_timeout=LEADER_WRITE_SECONDS) as client:
            await _lead(client, "t9ksched-controller", lambda port: Controllers(port).run())
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
        app = create_app(Services(store, client, leader, settings.max_body_bytes))
        async with Server(app, listen(settings.host, settings.port)) as server:
            log.info("serving", url=server.url)
            await asyncio.Event().wait()
    return 0


async def _lead(client: ClusterPort, name: str, work: Callable[[ClusterPort], Coroutine[Any, Any, None]]) -> None:
    """Strive for the lease and work while it is ours; what works writes only while it is.

    Raises:
        Failure: it was lost.
    """
    won, lost = asyncio.Event(), asyncio.Event()
    identity = f"{socket.gethostname()}_{os.getpid()}"
    election = LeaderElection(
        client, name, SYSTEM_NAMESPACE, identity, on_change=lambda leading: (won if leading else lost).set()
    )
    with first_cause():
        async with asyncio.TaskGroup() as tasks:
            striving = tasks.create_task(election.run())
            try:
                await won.wait()
                log.info("leading", lease=name, identity=identity)
                working = tasks.create_task(work(GuardedPort(client, election.holds)))
                await lost.wait()
                working.cancel()
                raise Failure(f"The lease {name} was lost: another process leads now.")
            finally:
                striving.cancel()


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    if not settings.db or not settings.db.startswith("postgres"):
        raise Failure(
            "Roles in processes of their own need a PostgreSQL database that they share.",
            remedy="Set T9KSCHED_DB or pass --db postgresql://…; `t9ksched up` runs all roles in one process instead.",
        )
    with failures():
        async with await Store.open(settings.db) as store:
            yield store


def _secret(settings: Settings) -> str:
    if settings.internal_secret is None:
        raise Failure(
            "Scheduler and API need a secret that they share.",
            remedy="Set T9KSCHED_INTERNAL_SECRET to the same random text for both.",
        )
    return settings.internal_secret.get_secret_value()


async def _see_an_admin(store: Store, given: SecretStr | None) -> None:
    """See that somebody can log in: the first start takes the administrator's token from the settings."""
    if given is not None:
        await store.tokens.ensure_admin(given.get_secret_value())
    elif not any(token.role == "admin" for token in await store.tokens.list()):
        raise Failure(
            "The database has no administrator's token yet.",
            remedy="Set T9KSCHED_ADMIN_TOKEN to a random text of at least 16 characters for the first start.",
        )
