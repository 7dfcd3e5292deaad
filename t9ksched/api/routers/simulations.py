"""`/apis/v1/simulate`: what would happen if jobs were submitted, or if queues, nodes or the policy were others.

Nothing changes. Everyone may ask about jobs to submit, and sees other users' jobs without their names; managers ask
about their queues, administrators about everything.
"""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from t9ksched.api.auth import User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, Json, answer, body_of, documented
from t9ksched.api.schemas.simulations import Simulation, SimulationBody
from t9ksched.api.services import Given
from t9ksched.api.submission.whatif import Judged, judged, oddities, question, read
from t9ksched.api.submission.wished import Wished

router = guarded("/apis/v1/simulate", "simulations")


@router.post(
    "",
    operation_id="simulate",
    summary="What would happen: dry runs of jobs, and changes of queues, nodes and policy",
    description="Nothing changes. The scheduler's own engine goes from expected end to expected end on virtual time, as"
    " it would plan now, with and without what is asked about. Jobs run as long as their time limits allow, and without"
    " one for ever. At most 10 questions a minute are answered for a user, and 2 at once for all.",
    responses=documented({200: Simulation}, 403, 404, *BODY, 503),
    openapi_extra=body_of(SimulationBody),
)
async def simulate(
    request: Request,
    services: Given,
    caller: User,
    wish: Wished,
) -> Response:
    _, documents = await services.bodies.documents(request, caller.user)
    if len(documents) != 1 or not isinstance(documents[0][1], dict):
        raise Problem("Malformed", "the body must be one JSON or YAML mapping")
    asked = read(documents[0][1], caller, wish)
    jobs = await judged(services, caller, asked, wish)
    accepted = [one.item for one in jobs if one.refusal is None]
    warnings = await oddities(services, caller, asked, accepted)
    found = await services.leader.simulate(question(caller, asked, accepted))
    access = await JobAccess.of(services, caller)
    told = iter(found["jobs"])
    shapes = [_job(one, {} if one.refusal is not None else next(told), access) for one in jobs]
    others = [_named(one, access) for one in found["others"]]
    rest = {key: found[key] for key in ("at", "view", "until", "complete")}
    return answer({"jobs": shapes, "others": others, "warnings": warnings, **rest})


def _job(one: Judged, found: Json, access: JobAccess) -> Json:
    """A job that is submitted, and what becomes of it."""
    workload = one.item.workload
    head: Json = {"namespace": workload.namespace, "kind": workload.kind, "name": workload.name}
    if one.refusal is not None:
        reason = {"code": one.refusal.code, "message": one.refusal.detail, "needs": {}, "has": {}, "nodes": {}}
        errors = [{"path": fault.path, "message": fault.message} for fault in one.refusal.errors]
        told = {"start": None, "nodes": [], "reasons": [reason], "preempts": [], "errors": errors}
        return head | {"verdict": "Refused"} | told
    return head | found | {"preempts": [_named(victim, access) for victim in found["preempts"]], "errors": []}


def _named(about: dict[str, Any], access: JobAccess) -> Json:
    """What is said of a job, without its name if the caller may not see it."""
    shown = {key: value for key, value in about.items() if key not in ("namespace", "submitter", "formerSubmitters")}
    return shown if access.see(about) else shown | {"job": None}
