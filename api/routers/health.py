"""`/healthz`: the process lives. `/readyz`: everything it needs answers; else 503, naming what does not.

What the scheduler may not watch, for want of a right in the cluster, is a warning of `/readyz`.
"""

import asyncio
from collections.abc import Awaitable

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http.problems import MEDIA_TYPE, Problem
from api.http.responses import answer
from api.schemas import Health, Readiness
from api.services import Services
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NAMESPACES
from t9ksched.model.errors import FieldError
from t9ksched.serving.shared import Shared
from t9ksched.store.errors import StoreError

Looked = tuple[dict[str, str], list[str]]
log = structlog.get_logger(__name__)
router = APIRouter(tags=["health"])
PATIENCE_SECONDS = 3.0


@router.get("/healthz", summary="Does the process live?", responses={200: {"model": Health}})
async def healthz() -> Response:
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    summary="Does everything it needs answer?",
    responses={200: {"model": Readiness}, 503: {"description": "Problem", "content": {MEDIA_TYPE: {}}}},
)
async def readyz(request: Request) -> Response:
    look: Shared[Looked] = request.app.state.readiness
    found, lacking = await look()
    down = {part: trouble for part, trouble in found.items() if trouble}
    if down:
        faults = [FieldError(part, trouble) for part, trouble in down.items()]
        raise Problem("Unavailable", f"not ready: {', '.join(down)}", faults, headers={"Retry-After": "2"})
    warnings = [{"path": "scheduler", "message": text, "nearest": None} for text in lacking]
    return answer({"status": "ready", "parts": dict.fromkeys(found, "ok"), "warnings": warnings})


async def look(services: Services) -> Looked:
    """What is wrong with each part, empty if nothing; and, when nothing is, what the scheduler does without.

    Anybody may ask, and each question takes a connection to the database and two requests: so it is asked once for all
    who ask at the same time (`Shared`).
    """
    parts = {
        "database": services.database.look(),
        "kubernetes": _ask(services.kube),
        "scheduler": services.leader.queues(),
    }
    found = dict(zip(parts, await asyncio.gather(*map(_trouble, parts.values())), strict=True))
    return found, [] if any(found.values()) else await _lacking(services)


async def _lacking(services: Services) -> list[str]:
    """What the scheduler does without for want of a right; it works on without it, so this is no reason for a 503."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await services.leader.lacking()
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
        async with asyncio.timeout(PATIENCE_SECONDS):
            await question
    except TimeoutError:
        return f"no answer within {PATIENCE_SECONDS:g} s"
    except StoreError as error:
        log.warning("not ready", error=str(error))
        return error.public
    except ApiError as error:
        log.warning("not ready", error=str(error))
        return "the Kubernetes API cannot be used now"
    except Problem as error:
        return str(error)
    return ""
