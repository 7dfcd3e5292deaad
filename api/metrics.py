"""`/metrics`: the leader's figures, in the text format of Prometheus or, if the scraper asks for it, as OpenMetrics.

Open like the health pages; it names nodes and queues.
"""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.problems import MEDIA_TYPE
from api.services import Given

router = APIRouter(tags=["health"])
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
    return Response(page, headers={"Content-Type": media_type, "Vary": "Accept"})
