"""`/apis/v1/nodes`: nodes with their cards and whose they are, as the leader accounts for them."""

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import answer, documented
from api.auth import User
from api.problems import Problem
from api.schemas import Node, Nodes
from api.services import Given

router = APIRouter(prefix="/apis/v1/nodes", tags=["nodes"])


@router.get("", summary="List the nodes", responses=documented({200: Nodes}, 503))
async def list_all(services: Given, _: User) -> Response:
    return answer({"items": await services.leader.nodes()})


@router.get("/{name}", summary="Get a node", responses=documented({200: Node}, 404, 503))
async def get(name: str, services: Given, _: User) -> Response:
    node = await services.leader.node(name)
    if node is None:
        raise Problem("NotFound", f"there is no node {name!r}", remedy="GET /apis/v1/nodes lists those there are")
    return answer(node)
