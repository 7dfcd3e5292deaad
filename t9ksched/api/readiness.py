"""Whether everything that the service needs answers: the database, the cluster and the scheduler.

The page needs no token, and each check takes a connection to the database and two requests: so simultaneous requests
share one check.
"""

import asyncio
from collections.abc import Awaitable

import structlog

from t9ksched.api.http.problems import Problem
from t9ksched.api.leader import Leader
from t9ksched.api.patience import within
from t9ksched.api.probe import Probe
from t9ksched.kube.errors import ApiError, NotFound, in_public
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NAMESPACES
from t9ksched.store.errors import StoreError

log = structlog.get_logger(__name__)

Looked = tuple[dict[str, str], list[str]]
TIMEOUT_SECONDS = 3.0


async def look(database: Probe, kube: ClusterPort, leader: Leader) -> Looked:
    """What is wrong with each part, empty if nothing; and, when nothing is, the kinds that the scheduler may not
    watch.
    """
    parts = {"database": database.look(), "kubernetes": _ask(kube), "scheduler": leader.queues()}
    found = dict(zip(parts, await asyncio.gather(*map(_trouble, parts.values())), strict=True))
    return found, [] if any(found.values()) else await _lacking(leader)


async def _lacking(leader: Leader) -> list[str]:
    """The kinds that the scheduler may not watch because a right is missing; it works without them, so this is no
    reason for a 503.
    """
    try:
        return await within(TIMEOUT_SECONDS, leader.lacking())
    except (TimeoutError, Problem):
        return []


async def _ask(kube: ClusterPort) -> None:
    """Any answer of the API will do."""
    try:
        await kube.get(NAMESPACES, "default")
    except NotFound:
        return


async def _trouble(question: Awaitable[object]) -> str:
    """What is wrong with a part, empty if nothing."""
    try:
        await within(TIMEOUT_SECONDS, question)
    except TimeoutError:
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    except StoreError as error:
        log.warning("not ready", error=str(error))
        return error.public
    except ApiError as error:
        log.warning("not ready", error=str(error))
        return in_public(error)
    except Problem as error:
        return str(error)
    return ""
