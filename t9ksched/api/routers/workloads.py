"""`/apis/v1/workloads`: submit, list, look at, explain and cancel jobs.

A user sees the user's own jobs, and those in queues and namespaces that the user manages or owns; for all other jobs
the answer is 404. Which jobs exist is the leader's answer; while no leader answers, lists come from what was last
recorded, with their age. A single job that the leader does not know (yet, or because another scheduler places it) is
shown from its own object.
"""

import hashlib
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from t9ksched.api.auth import Actor, Caller, User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.aside import aside
from t9ksched.api.http.paging import EventLimit, Paged
from t9ksched.api.http.parameters import InArray
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, Json, answer, body_of, documented
from t9ksched.api.job_from_object import from_event, from_object
from t9ksched.api.jobpods import kept_from_running
from t9ksched.api.leader import LeaderAway
from t9ksched.api.queueshapes import stops_now
from t9ksched.api.redaction import Redaction, name_others
from t9ksched.api.schemas.base import Shape
from t9ksched.api.schemas.jobs import Cancelled, Explanation, Job, Submitted
from t9ksched.api.schemas.reports import HistoryPage
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.advice import about_jobs
from t9ksched.api.submission.arrays import asked_array, expanded, see_that_ours
from t9ksched.api.submission.cancelling import delete_job, delete_own_members, not_cancelled, until_noticed
from t9ksched.api.submission.creation import Creation, try_out
from t9ksched.api.submission.dependencies import see_dependencies
from t9ksched.api.submission.judging import judge
from t9ksched.api.submission.kinds import ACCEPTED, addressed
from t9ksched.api.submission.lookup import from_cluster, see
from t9ksched.api.submission.repeats import REPEATING, Key, checked, once, place_of_submission
from t9ksched.api.submission.submission import Item, prepare
from t9ksched.api.submission.wished import Wished
from t9ksched.kube.resources import PODGROUPS
from t9ksched.model.job import FINISHED, TERMINATING
from t9ksched.model.names import SCHEDULER_NAME
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.store.repeats import Attempt
from t9ksched.workloads.shape import Workload

router = guarded("/apis/v1/workloads", "workloads")

_Object = dict[str, Any]


@router.post(
    "",
    status_code=201,
    operation_id="submitJobs",
    summary="Submit one or several objects: all are created, or none",
    description="The body is a Kubernetes object in JSON or YAML, several YAML documents, or a List."
    " With `dryRun` everything is checked and nothing is created; the answer is the same.\n\n" + REPEATING,
    responses=documented({201: Submitted, 200: Submitted}, 400, 403, 404, 409, *BODY, 422, 503),
    openapi_extra=body_of(Shape, "application/yaml", "application/json"),
)
async def submit(
    request: Request,
    services: Given,
    caller: Actor,
    wish: Wished,
    in_array: InArray = None,
    dry_run: Annotated[bool, Query(alias="dryRun", description="Check everything, create nothing")] = False,
    _key: Key = None,
) -> Response:
    key = checked(request)
    array = asked_array(in_array)
    body, documents = await services.bodies.documents(request, caller.user)
    services.allowances.objects(len(documents) if array is None else len(array.indices))
    seed = None if key is None else f"{caller.user}:{key}"
    if array is not None:
        seed = secrets.token_hex() if seed is None else seed
        documents = await aside(services, len(array.indices), expanded, documents, array, seed)
    items = await aside(services, len(documents), prepare, documents, wish, seed)
    if array is not None:
        see_that_ours(items)
    if dry_run or key is None:
        return await submit_items(services, caller, items, body, dry_run=dry_run)
    act = partial(_submit, services, caller, items, hashlib.sha256(body).hexdigest())
    return await once(services, caller, request, key, body, len(items), act)


async def submit_items(
    services: Services, caller: Caller, items: list[Item], body: bytes, *, dry_run: bool
) -> Response:
    """Create the objects of a submission, or with `dry_run` only see that they would be."""
    if not dry_run:
        return await _submit(services, caller, items, hashlib.sha256(body).hexdigest())
    await judge(services, caller, items)
    await see_dependencies(services, caller, items)
    warnings = await about_jobs(services, caller, items)
    return answer(_submission(caller, items, warnings, await try_out(services, items)))


async def _submit(
    services: Services, caller: Caller, items: list[Item], digest: str, attempt: Attempt | None = None
) -> Response:
    """Judge and create; goes on from what an earlier attempt left."""
    creation = Creation(services, caller, items, attempt)
    try:
        await creation.resume()
        try:
            await judge(services, caller, items)
            await see_dependencies(services, caller, items)
        except Problem as problem:
            # What was created whole was accepted before it was created; only its record was lost.
            if not all(creation.left):
                raise problem if problem.status >= 500 else await creation.undo(problem) from None
        told = await creation.run(await about_jobs(services, caller, items))
    except Problem as problem:
        await _note_refusal(services, caller, items, digest, problem)
        raise
    return Response(told, 201, place_of_submission(told), media_type="application/json")


def _submission(caller: Caller, items: list[Item], warnings: list[Json], made: list[_Object]) -> Json:
    jobs = [_submitted(item, obj, caller) for item, obj in zip(items, made, strict=True) if item.group is None]
    return {"items": jobs, "warnings": warnings}


def is_held(caller: Caller, job: Json) -> bool:
    """Whether a manager holds the job, or the root owner above it; the later decision counts."""
    controls = caller.decided.controls
    found = [one for uid in (job.get("uid"), job.get("rootUid")) if uid and (one := controls.get(uid)) is not None]
    return max(found, key=lambda one: one.at).held if found else False


def marked(caller: Caller, jobs: Sequence[Json]) -> list[Json]:
    """The jobs, those that a manager holds marked as such."""
    controls = caller.decided.controls
    return [
        job | {"held": True}
        if (job.get("uid") in controls or job.get("rootUid") in controls) and is_held(caller, job)
        else job
        for job in jobs
    ]


@router.get(
    "/{namespace}/{kind}/{name}", operation_id="getJob", summary="Get a job", responses=documented({200: Job}, 404, 503)
)
async def get(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    resource = addressed(kind)
    headers: dict[str, str] = {}
    try:
        job = await services.leader.job(namespace, resource.kind, name)
    except LeaderAway as away:
        job, headers = None, away.age_header(away.age)
    job = job or (await from_cluster(services, resource, namespace, name))[0]
    await see(services, caller, job, resource, name)
    return answer(job | ({"held": True} if is_held(caller, job) else {}), headers=headers)


@router.get(
    "/{namespace}/{kind}/{name}/explanation",
    operation_id="explainJob",
    summary="Why a job is where it is",
    responses=documented({200: Explanation}, 404, 503),
)
async def explain(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    resource = addressed(kind)
    explanation = await services.leader.explanation(namespace, resource.kind, name)
    if explanation is None:
        explanation = _unseen(*await from_cluster(services, resource, namespace, name))
    job_access = await see(services, caller, explanation.get("job") or {"namespace": namespace}, resource, name)
    holders = explanation.get("holders") or []
    if holders:
        redaction = await Redaction.of(services, job_access)
        holders = [redaction.holder(one) for one in holders]
    reasons = explanation.get("reasons") or await kept_from_running(services, explanation)
    return answer(explanation | {"reasons": reasons, "holders": holders, "stopped": stops_now(caller)})


@router.get(
    "/{namespace}/{kind}/{name}/history",
    operation_id="listJobEvents",
    summary="What happened to jobs of this name, also when they are gone",
    responses=documented({200: HistoryPage}, 404, 422, 503),
)
async def events(
    namespace: str,
    kind: str,
    name: str,
    services: Given,
    caller: User,
    paging: Paged,
    after: Annotated[int, Query(ge=0, lt=2**63, description="The last `id` seen")] = 0,
    limit: EventLimit = 200,
) -> Response:
    resource, after = addressed(kind), paging.place(after)
    job_access = await JobAccess.of(services, caller)
    found = await services.store.history.list(
        namespace=namespace, kind=resource.kind, name=name, after=after, limit=limit, seen_by=job_access.visibility
    )
    if not found and after == 0:
        job, _ = await from_cluster(services, resource, namespace, name)
        await see(services, caller, job, resource, name)
        if job["kind"] != resource.kind:
            found = await services.store.history.list(
                namespace=namespace, kind=job["kind"], name=job["name"], limit=limit, seen_by=job_access.visibility
            )
    items = [from_event(event) for event in found]
    if any(name_others(event.detail) for event in found):
        redaction = await Redaction.of(services, job_access)
        items = [item | {"detail": redaction.preemptor(item["detail"])} for item in items]
    return answer({"items": items, "continue": paging.behind([event.id for event in found], limit)})


@router.delete(
    "/{namespace}/{kind}/{name}",
    operation_id="cancelJob",
    summary="Cancel a job",
    description="Each object is deleted as the user: what the user submitted or may delete in the cluster, and"
    " with a role over the queue the job with its members. `warnings` say which pods stay, and whom to ask.",
    responses=documented({200: Cancelled}, 403, 404, 409, 503),
)
async def cancel(namespace: str, kind: str, name: str, services: Given, caller: Actor) -> Response:
    resource = addressed(kind)
    try:
        job, _ = await from_cluster(services, resource, namespace, name)
        await see(services, caller, job, resource, name)
    except Problem as problem:
        if problem.code != "NotFound" or resource != PODGROUPS:
            raise
        if (left := await delete_own_members(services, caller, namespace, name)) is None:
            raise
        return answer(left)
    if resource.kind not in ACCEPTED:
        raise not_cancelled(job)
    if job["kind"] != resource.kind:
        title = f"{job['kind']}/{job['name']}"
        message = f"{resource.kind}/{name} belongs to {title}, whose controller would make it again"
        raise Problem("Conflict", message, remedy=f"cancel {title}")
    kept = await delete_job(services, caller, resource, job)
    await until_noticed(services, resource, job)
    shown = job if job["phase"] in FINISHED else job | {"phase": TERMINATING}
    return answer(shown | {"warnings": [each.to_json() for each in kept]})


async def _note_refusal(services: Services, caller: Caller, items: list[Item], digest: str, problem: Problem) -> None:
    """Refusals of rules are history, one row each however much was asked for; trouble of the service is not, nor is a
    user who asks too often.
    """
    if problem.status >= 500 or problem.code == "RateLimited":
        return
    at_fault = problem.errors[0].path if problem.errors else ""
    item = next((one for one in items if one.prefix and at_fault.startswith(one.prefix)), items[0])
    detail: Json = {"code": problem.code, "message": problem.detail}
    if len(items) > 1:
        detail |= {"objects": len(items), "sha256": digest}
    await services.store.history.append(
        Event(
            event=history.REFUSED,
            kind=item.workload.kind,
            namespace=item.workload.namespace,
            name=item.workload.name,
            queue=item.workload.queue or None,
            actor=caller.user,
            detail=detail,
        )
    )


def _submitted(item: Item, obj: _Object, caller: Caller) -> Json:
    job = from_object(obj, item.workload, None, [member.workload for member in item.members])
    return job | {"submitter": caller.user}


def _unseen(job: Json, workload: Workload) -> Json:
    """The explanation of a job that the leader does not know."""
    reasons: list[Json] = []
    warnings: list[Json] = []
    node = next((str(at) for part in workload.templates if (at := part.spec.get("nodeName"))), "")
    if node and workload.kind == "Pod" and workload.scheduler == SCHEDULER_NAME:
        text = (
            f"its creator put it on node {node}: the scheduler was not asked, and counts it to no queue and to no group"
        )
        warnings.append({"path": "spec.nodeName", "message": f"{text}; leave spec.nodeName out", "nearest": None})
    if job["phase"] in FINISHED:
        verdict = "Finished"
        if job["reason"]:
            reasons.append(job["reason"] | {"needs": None, "has": None, "nodes": None})
    elif job["phase"] == TERMINATING:
        verdict = "Placed" if job["members"]["running"] else "Finished"
        message = "it was deleted, and its last pods end"
        reasons.append({"code": TERMINATING, "message": message, "needs": None, "has": None, "nodes": None})
    elif job["phase"] == "Running":
        verdict = "Placed"
    else:
        verdict = "Waiting"
        message = "the scheduler has not seen it yet: ask again in a moment"
        if warnings:
            message = warnings[0]["message"]
        elif workload.scheduler != SCHEDULER_NAME:
            message = f"its pods are placed by {workload.scheduler or 'another scheduler'}, which must be asked"
        ours = workload.scheduler == SCHEDULER_NAME and not warnings
        code = "GangIncomplete" if ours else "OtherScheduler"
        told = job["reason"] or {"code": code, "message": message}
        reasons.append(told | {"needs": None, "has": None, "nodes": None})
    told = {"job": job, "verdict": verdict, "reasons": reasons, "warnings": warnings}
    return told | {"holders": [], "unblocks": [], "position": None}
