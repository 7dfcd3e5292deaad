"""`/apis/v1/nodes`: nodes with their cards and the jobs that hold them, as the leader accounts for them. Every user
sees how full a node is; the names of other users' jobs on it are shown to their managers alone.
"""

from starlette.responses import Response

from t9ksched.api.auth import User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.events.known import Wanted
from t9ksched.api.events.stream import Watched, listed_or_streamed
from t9ksched.api.http.paging import Paged
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import Json, answer, documented
from t9ksched.api.http.selectors import Labels, met
from t9ksched.api.redaction import Redaction
from t9ksched.api.schemas.nodes import Node, Nodes
from t9ksched.api.services import Given
from t9ksched.api.slices import answer_items, slices

router = guarded("/apis/v1/nodes", "nodes")


@router.get(
    "",
    operation_id="listNodes",
    summary="List the nodes",
    responses=documented({200: Nodes}, 503) | listed_or_streamed(Nodes),
)
async def list_all(services: Given, caller: User, watched: Watched, paging: Paged, labels: Labels) -> Response:
    if watched:
        return await watched.stream(services, caller, Wanted(("node",)))
    found = [node for node in await services.leader.nodes() if met(labels, node.get("labels"))]
    nodes, more = paging.of(sorted(found, key=_name), lambda node: (_name(node),))
    redaction = await Redaction.of(services, await JobAccess.of(services, caller))
    shown: list[Json] = []
    async for some in slices(nodes):
        shown += [redaction.node(node) for node in some]
    return await answer_items(shown, {"continue": more})


def _name(node: Json) -> str:
    return str(node["name"])


@router.get("/{name}", operation_id="getNode", summary="Get a node", responses=documented({200: Node}, 404, 503))
async def get(name: str, services: Given, caller: User) -> Response:
    node = await services.leader.node(name)
    if node is None:
        raise Problem("NotFound", f"there is no node {name!r}", remedy="GET /apis/v1/nodes lists those there are")
    redaction = await Redaction.of(services, await JobAccess.of(services, caller))
    return answer(redaction.node(node))
