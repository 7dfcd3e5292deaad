"""`/healthz`: the process runs. `/readyz`: everything it needs answers; else 503, naming what does not.

What the scheduler may not watch, for want of a right in the cluster, is a warning of `/readyz`. A query is not read,
here as on `/metrics` and `/docs`: kubelets, load balancers, Prometheus and browsers put into it what they like.
"""

from fastapi import APIRouter
from starlette.responses import Response

from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import answer, problems
from t9ksched.api.schemas.service import Health, Readiness
from t9ksched.api.services import Given
from t9ksched.model.errors import FieldError

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="getHealth", summary="Is the process running?", responses={200: {"model": Health}})
async def healthz() -> Response:
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Does everything it needs answer?",
    responses={200: {"model": Readiness}, **problems(503)},
)
async def readyz(services: Given) -> Response:
    if services.leaving.is_set():
        raise Problem("Unavailable", "not ready: the service stops", headers={"Retry-After": "2"})
    found, lacking = await services.readiness()
    down = {part: trouble for part, trouble in found.items() if trouble}
    if down:
        faults = [FieldError(part, trouble) for part, trouble in down.items()]
        raise Problem("Unavailable", f"not ready: {', '.join(down)}", faults, headers={"Retry-After": "2"})
    warnings = [{"path": "scheduler", "message": text, "nearest": None} for text in lacking]
    return answer({"status": "ready", "parts": dict.fromkeys(found, "ok"), "warnings": warnings})
