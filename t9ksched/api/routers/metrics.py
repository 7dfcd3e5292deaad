"""`/metrics`: the leader's figures and those of this process, in the text format of Prometheus or as OpenMetrics.

It names nodes and queues, so it needs a token, anyone's. Without one the page is only on a port of its own
(`T9KSCHED_HEALTH_PORT`), which is not opened to users.
"""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from t9ksched.api.auth import User
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import problems
from t9ksched.api.patience import within
from t9ksched.api.services import Given, Services
from t9ksched.serving.overload import State
from t9ksched.store.errors import StoreError

router = APIRouter(tags=["health"])
_END: Final = b"# EOF\n"
_PATIENCE_SECONDS: Final = 3.0
"""How long a scraper waits for the leader's figures; less than its own patience, ten seconds as a rule."""
_TEXT: Final[dict[str, object]] = {"schema": {"type": "string"}}


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Figures for Prometheus",
    responses={
        200: {"content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}},
        **problems(400, 401, 429, 503),
    },
    response_class=Response,
)
async def metrics(request: Request, services: Given, _: User) -> Response:
    page, media_type = await services.leader.metrics(request.headers.get("accept", ""))
    page = await _with_own(page, services, openmetrics="openmetrics" in media_type)
    return Response(page, headers={"Content-Type": media_type, "Vary": "Accept"})


async def page_of(services: Services, openmetrics: bool) -> bytes:
    """The page for a port of its own; with the figures of this process alone while no leader answers, or the database,
    which says where the leader is, does not.
    """
    asked = services.leader.metrics("application/openmetrics-text" if openmetrics else "")
    try:
        page, media_type = await within(_PATIENCE_SECONDS, asked)
    except (Problem, StoreError, TimeoutError):
        return await _with_own(_END if openmetrics else b"", services, openmetrics=openmetrics)
    return await _with_own(page, services, openmetrics="openmetrics" in media_type)


async def _with_own(page: bytes, services: Services, *, openmetrics: bool) -> bytes:
    """The leader's page, and on it what this process counted, REST and what else works in it."""
    counted = services.limiter.refused
    refused = {state.value: counted[state] for state in (State.SHARE, State.FULL, State.LATE)}
    streams = {
        "events": services.events.open,
        "logs": services.log_streams.open,
        "commands": services.exec_streams.open,
    }
    lines = services.meters.lines(refused, streams, openmetrics=openmetrics)
    own = "".join(f"{line}\n" for line in lines).encode()
    beside = b"" if services.metrics_beside is None else await services.metrics_beside(openmetrics)
    return page.removesuffix(_END) + own + beside.removesuffix(_END) + (_END if openmetrics else b"")
