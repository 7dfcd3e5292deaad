"""`/apis/v1/admin/snapshot`: the leader's view, its policy and what waits, to be replayed elsewhere."""

from starlette.responses import Response

from t9ksched.api.auth import Admin, guarded
from t9ksched.api.http.responses import documented
from t9ksched.api.schemas.reports import SnapshotShape
from t9ksched.api.services import Given

router = guarded("/apis/v1/admin/snapshot", "simulation")


@router.get(
    "",
    operation_id="takeSnapshot",
    summary="Take a snapshot of the live cluster",
    description="For `t9ksched simulate replay --format snapshot`. It names all nodes, queues and jobs; its form is"
    " that of this version and may be another one in the next.",
    responses=documented({200: SnapshotShape}, 403, 503),
)
async def snapshot(services: Given, caller: Admin) -> Response:
    return Response(await services.leader.snapshot(), media_type="application/json")
