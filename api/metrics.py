"""`/metrics`: the leader's figures in Prometheus text. Open like the health pages; it names nodes and queues."""

from fastapi import APIRouter
from starlette.responses import Response

from api.problems import MEDIA_TYPE
from api.services import Given

router = APIRouter(tags=["health"])
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        503: {"description": "Problem", "content": {MEDIA_TYPE: {}}},
    },
    response_class=Response,
)
async def metrics(services: Given) -> Response:
    return Response(await services.leader.metrics(), headers={"Content-Type": TEXT})
