"""`/apis/v1/workloads/…/actions`: a manager holds, releases or re-prioritises a job that waits.

What runs is left alone: holding it would be an eviction, which no button here makes.
"""

from fastapi import Request
from starlette.responses import Response

from api.answers import Json, answer, at, body_of, documented
from api.auth import Caller, User, guarded
from api.documents import read_mapping
from api.kinds import addressed
from api.leader import LeaderAway
from api.permits import Eyes
from api.problems import Problem, invalid
from api.schemas import ControlShape, PriorityBody
from api.services import Given, Services
from api.workloads import from_cluster, not_found
from t9ksched.model.errors import FieldError
from t9ksched.model.queue import MAX_PRIORITY
from t9ksched.store import history
from t9ksched.store.controls import JobControl
from t9ksched.store.history import Event

router = guarded("/apis/v1/workloads/{namespace}/{kind}/{name}/actions", "workloads")


@router.post(
    "/hold", summary="Do not start a waiting job", responses=documented({200: ControlShape}, 403, 404, 409, 503)
)
async def hold(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    event = await _decided(services, caller, history.JOB_HELD, namespace, kind, name)
    return answer(_shape(await services.store.controls.hold(event)))


@router.post(
    "/release", summary="Let a held job start again", responses=documented({200: ControlShape}, 403, 404, 409, 503)
)
async def release(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    event = await _decided(services, caller, history.JOB_RELEASED, namespace, kind, name)
    return answer(_shape(await services.store.controls.release(event)))


@router.post(
    "/prioritise",
    summary="Give a waiting job another priority within its queue",
    responses=documented({200: ControlShape}, 400, 403, 404, 409, 413, 422, 503),
    openapi_extra=body_of(PriorityBody),
)
async def prioritise(namespace: str, kind: str, name: str, request: Request, services: Given, caller: User) -> Response:
    body = await read_mapping(request, services.max_body_bytes)
    faults = [FieldError(key, "is unknown: the field is priority") for key in body if key != "priority"]
    priority = body.get("priority")
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        faults.append(FieldError("priority", f"{priority!r} must be a whole number from 0 to {MAX_PRIORITY}"))
    if faults:
        raise invalid(faults)
    event = await _decided(services, caller, history.JOB_PRIORITISED, namespace, kind, name)
    assert isinstance(priority, int)
    return answer(_shape(await services.store.controls.prioritise(event, priority)))


async def _decided(services: Services, caller: Caller, event: str, namespace: str, kind: str, name: str) -> Event:
    """The decision as an event, once it is clear that the job is there, waits, and is the caller's to decide about."""
    resource = addressed(kind)
    try:
        job = await services.leader.job(namespace, resource.kind, name)
    except LeaderAway:
        job = None
    if job is None:
        job = (await from_cluster(services, resource, namespace, name))[0]
    if not caller.rules(job.get("queue")):
        if not (await Eyes.of(services, caller)).see(job):
            raise not_found(resource, namespace, name)
        raise Problem(
            "Forbidden",
            f"{resource.kind}/{name} waits in the queue {job.get('queue')!r}, which {caller.user!r} does not manage",
            remedy="ask a manager of the queue",
        )
    if job["phase"] not in ("Pending", "Waiting", "Paused"):
        raise Problem(
            "Conflict", f"{resource.kind}/{name} is {job['phase']}: only a job that waits can be decided about"
        )
    return Event(
        event=event,
        kind=resource.kind,
        namespace=namespace,
        name=name,
        uid=job["uid"],
        queue=job.get("queue"),
        actor=caller.user,
    )


def _shape(control: JobControl) -> Json:
    return {
        "uid": control.uid,
        "held": control.held,
        "priority": control.priority,
        "by": control.by,
        "at": at(control.at),
    }
