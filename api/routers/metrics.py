"""`/metrics`: the leader's figures and those of this process, in the text format of Prometheus or as OpenMetrics.

Open like the health pages; it names nodes and queues.
"""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http.problems import MEDIA_TYPE
from api.services import Given, Services
from t9ksched.serving.overload import State

router = APIRouter(tags=["health"])
REFUSED_FAMILY: Final = "t9ksched_api_requests_refused"
_HELP: Final = "Requests that were refused because more came than can be answered in time."
_END: Final = b"# EOF\n"
_TEXT: Final[dict[str, object]] = {"schema": {"type": "string"}}


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={
        200: {"content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}},
        503: {"description": "Problem", "content": {MEDIA_TYPE: {}}},
    },
    response_class=Response,
)
async def metrics(request: Request, services: Given) -> Response:
    page, media_type = await services.leader.metrics(request.headers.get("accept", ""))
    page = _with_own(page, services, openmetrics="openmetrics" in media_type)
    return Response(page, headers={"Content-Type": media_type, "Vary": "Accept"})


def _with_own(page: bytes, services: Services, *, openmetrics: bool) -> bytes:
    """The leader's page, and on it what this process counted."""
    family = REFUSED_FAMILY if openmetrics else f"{REFUSED_FAMILY}_total"
    lines = [f"# HELP {family} {_HELP}", f"# TYPE {family} counter"]
    refused = services.limiter.refused
    for state in (State.SHARE, State.FULL, State.LATE):
        lines.append(f'{REFUSED_FAMILY}_total{{reason="{state.value}"}} {refused[state]}')
    own = "".join(f"{line}\n" for line in lines).encode()
    return page.removesuffix(_END) + own + (_END if openmetrics else b"")
