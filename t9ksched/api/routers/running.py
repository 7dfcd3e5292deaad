"""`/apis/v1/workloads/…/actions`: pause, resume and scale a job that runs, and submit one again.

Each is done as the user: to what the user submitted, to jobs of queues that the user manages, and to what the cluster
lets the user patch. The object is told what it shall be; its controller does it.
"""

import secrets
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from t9ksched.api.auth import Actor, Caller, guarded
from t9ksched.api.grouppods import is_named_by_pods
from t9ksched.api.http.fields import check_uid, whole_number
from t9ksched.api.http.parameters import (
    JobPriority,
    QueueName,
    ReservationName,
    StartAfter,
    TimeLimit,
    limit_text,
    moment_text,
)
from t9ksched.api.http.problems import Problem, from_kube, invalid
from t9ksched.api.http.responses import BODY, Json, answer, body_of, documented
from t9ksched.api.leader import LeaderAway
from t9ksched.api.routers.workloads import submit_items
from t9ksched.api.schemas.jobs import ChangedJob, ScaleBody, Submitted
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.copies import with_files
from t9ksched.api.submission.kinds import ACCEPTED, addressed
from t9ksched.api.submission.lookup import from_cluster, see
from t9ksched.api.submission.ownership import check_job
from t9ksched.api.submission.submission import Wish, prepare
from t9ksched.kube.errors import ApiError
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import Invalid
from t9ksched.model.job import FINISHED, TERMINATING
from t9ksched.model.reasons import Code
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.workloads import runmode
from t9ksched.workloads.foreignstatus import KUEUE_QUEUE, admitted_elsewhere
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import row_of
from t9ksched.workloads.resubmission import anew, another_name

router = guarded("/apis/v1/workloads/{namespace}/{kind}/{name}/actions", "workloads")
_LIMITS: Final = (Code.TIME_LIMIT_EXCEEDED, Code.MAX_DURATION_EXCEEDED)
_MOST_REPLICAS: Final = 100_000
_RIGHTS: Final = (
    " As the user: what the user submitted, jobs of queues that the user manages, and what the cluster lets the user"
    " patch."
)


@router.post(
    "/pause",
    operation_id="pauseJob",
    summary="Stop a job and keep it: its pods are deleted, and its cards are free",
    description="Resumed, it waits for room again, and starts whole." + _RIGHTS,
    responses=documented({200: ChangedJob}, 403, 404, 409, 503),
)
async def pause(namespace: str, kind: str, name: str, services: Given, caller: Actor) -> Response:
    resource, row, obj, job = await _owned(services, caller, namespace, kind, name)
    if not runmode.can_pause(row):
        zero = row.scale is not None and row.scale.pauses
        remedy = "scale it to 0 replicas" if zero else "cancel it, and submit it again later"
        raise Problem("Conflict", f"a {row.name} cannot be paused", remedy=remedy)
    if job["phase"] in FINISHED:
        raise Problem("Conflict", f"{row.name}/{name} is {job['phase']}: there is nothing to pause")
    _not_admitted_elsewhere(obj, row, name)
    if not runmode.is_paused(obj, row):
        assert row.stop is not None
        await _change(services, caller, resource, job, dict(row.stop.patch), history.JOB_PAUSED)
    return answer(job | {"phase": "Paused", "warnings": []})


@router.post(
    "/resume",
    operation_id="resumeJob",
    summary="Let a paused job run again",
    description="It waits for room as any other job, and starts whole." + _RIGHTS,
    responses=documented({200: ChangedJob}, 403, 404, 409, 503),
)
async def resume(namespace: str, kind: str, name: str, services: Given, caller: Actor) -> Response:
    resource, row, obj, job = await _owned(services, caller, namespace, kind, name)
    if not runmode.can_pause(row):
        raise Problem("Conflict", f"a {row.name} cannot be paused or resumed")
    if job["phase"] in FINISHED:
        text = f"{row.name}/{name} is {job['phase']}: it does not run again"
        raise Problem("Conflict", text, remedy="submit it again by the action resubmit")
    _not_admitted_elsewhere(obj, row, name)
    warnings: list[Json] = []
    reason = job.get("reason") or {}
    if reason.get("code") in _LIMITS:
        text = f"it was ended by a limit ({reason['message']}), and is again at once unless the limit is longer now"
        warnings.append({"path": "timeLimit", "message": text, "nearest": None})
    if runmode.is_paused(obj, row):
        assert row.stop is not None
        assert row.stop.resume is not None
        await _change(services, caller, resource, job, dict(row.stop.resume), history.JOB_RESUMED)
        job = job | {"phase": "Resuming" if row.controlled else "Pending"}
    return answer(job | {"warnings": warnings})


@router.post(
    "/scale",
    operation_id="scaleJob",
    summary="Give a job that runs more or fewer replicas",
    description="Elastic jobs within their range, and batch Jobs up to their completions. The quota of the queue"
    " holds: what does not fit waits." + _RIGHTS,
    responses=documented({200: ChangedJob}, 400, 403, 404, 409, 412, *BODY, 422, 503),
    openapi_extra=body_of(ScaleBody),
)
async def scale(namespace: str, kind: str, name: str, request: Request, services: Given, caller: Actor) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    replicas = whole_number(body, "replicas", _MOST_REPLICAS)
    resource, row, obj, job = await _owned(services, caller, namespace, kind, name)
    check_uid(body, job)
    if job["phase"] in FINISHED:
        raise Problem("Conflict", f"{row.name}/{name} is {job['phase']}: its size means nothing any more")
    try:
        patch, before = runmode.scaled(obj, row, replicas)
    except runmode.NotScalable as why:
        raise Problem("Conflict", str(why), remedy="submit it again with another size, and cancel this one") from None
    except Invalid as error:
        raise invalid(error.errors) from None
    if before != replicas:
        detail = {"from": before, "to": replicas}
        await _change(services, caller, resource, job, patch, history.JOB_SCALED, detail)
    return answer(job | {"warnings": []})


@router.post(
    "/resubmit",
    status_code=201,
    operation_id="resubmitJob",
    summary="Submit a job again, under another name",
    description="What its submitter asked for is submitted as the caller, while the object is still there, also when it"
    " has ended. It is judged as any submission; what is named here wins over what the object says.",
    responses=documented({201: Submitted, 200: Submitted}, 400, 403, 404, 409, 422, 503),
)
async def resubmit(
    namespace: str,
    kind: str,
    name: str,
    services: Given,
    caller: Actor,
    new_name: Annotated[
        str | None, Query(alias="newName", description="Absent: its name with another end", max_length=253)
    ] = None,
    queue: QueueName = None,
    priority: JobPriority = None,
    time_limit: TimeLimit = None,
    start_after: StartAfter = None,
    reservation: ReservationName = None,
    dry_run: Annotated[bool, Query(alias="dryRun", description="Check everything, create nothing")] = False,
) -> Response:
    resource = addressed(kind)
    if resource.kind not in ACCEPTED:
        raise _not_ours(resource, name)
    job, _ = await from_cluster(services, resource, namespace, name)
    await see(services, caller, job, resource, name)
    _has_an_object(resource, name)
    obj = await _read(services, resource, namespace, name)
    try:
        document = anew(obj, row_of(resource), new_name or another_name(name, secrets.randbits(64)))
    except Invalid as error:
        raise Problem("Conflict", f"{resource.kind}/{name} {error.errors[0].message}") from None
    wish = Wish(None, queue, priority, limit_text(time_limit), moment_text(start_after, "startAfter"), reservation)
    services.allowances.objects(1)
    documents = await with_files(services, obj, document)
    prefixed = [(f"[{place}]." if place else "", one) for place, one in enumerate(documents)]
    return await submit_items(
        services, caller, prepare(prefixed, wish), msgspec.json.encode(documents), dry_run=dry_run
    )


async def _owned(
    services: Services, caller: Caller, namespace: str, kind: str, name: str
) -> tuple[Resource, Kind, dict[str, Any], Json]:
    """The object of a job that the caller may change, and the job.

    Raises:
        Problem: there is none, or it is not the caller's.
    """
    resource = addressed(kind)
    if resource.kind not in ACCEPTED:
        raise _not_ours(resource, name)
    job, _ = await from_cluster(services, resource, namespace, name)
    await see(services, caller, job, resource, name)
    if job["kind"] != resource.kind:
        title = f"{job['kind']}/{job['name']}"
        raise Problem("Conflict", f"{resource.kind}/{name} belongs to {title}", remedy=f"name {title} instead")
    _has_an_object(resource, name)
    try:
        await check_job(services, caller, resource, job, "patch")
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error
    if job["phase"] == TERMINATING:
        raise Problem("Conflict", f"{resource.kind}/{name} is being deleted")
    with suppress(LeaderAway):
        known = await services.leader.job(namespace, resource.kind, name)
        if known is not None and known["uid"] == job["uid"]:
            job = known
    return resource, row_of(resource), await _read(services, resource, namespace, name), job


def _not_admitted_elsewhere(obj: Json, row: Kind, name: str) -> None:
    """Raise the problem of an object that Kueue suspends and lets run."""
    if not row.controlled and (queue := admitted_elsewhere(obj)):
        text = f"{row.name}/{name} is in the queue {queue!r} of Kueue, which suspends it and lets it run"
        raise Problem("Conflict", text, remedy=f"use Kueue, or take the label {KUEUE_QUEUE} off the object")


def _has_an_object(resource: Resource, name: str) -> None:
    """Raise the problem of a group that only pods name: nothing of it could be changed or submitted again."""
    if is_named_by_pods(resource, name):
        text = f"{resource.kind}/{name} is a group that its pods name: it has no object that could be changed or copied"
        raise Problem("Conflict", text, remedy="change what makes its pods, or cancel it")


def _not_ours(resource: Resource, name: str) -> Problem:
    text = f"{resource.kind}/{name} was not submitted here and is not changed here: the service has no right to"
    return Problem("Conflict", text, remedy="use kubectl")


async def _read(services: Services, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
    try:
        return await services.kube.get(resource, name, namespace)
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error


async def _change(
    services: Services,
    caller: Caller,
    resource: Resource,
    job: Json,
    patch: dict[str, Any],
    event: str,
    detail: Json | None = None,
) -> None:
    """Patch the job's object, and record who wanted it."""
    body = {"metadata": {"uid": job["uid"]}} | patch
    try:
        await services.kube.patch(resource, job["name"], job["namespace"], body)
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{job['name']}") from error
    await services.store.history.append(
        Event(
            event=event,
            kind=resource.kind,
            namespace=job["namespace"],
            name=job["name"],
            uid=job["uid"],
            queue=job.get("queue"),
            actor=caller.user,
            detail=detail or {},
        )
    )
