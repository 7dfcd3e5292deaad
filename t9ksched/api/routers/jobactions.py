"""`/apis/v1/workloads/…/actions`: a manager holds, releases or re-prioritises a job that waits, or changes the time
limit of one that may run already.

A running job cannot be held: that would be an eviction, which no endpoint here makes. A submitter may shorten the limit
of the submitter's own job, lower its priority, and release one that did not start in time.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from t9ksched.admission.rules import limit_fault
from t9ksched.api.auth import Actor, Caller, User, guarded
from t9ksched.api.authorization import JobAccess, rules_of
from t9ksched.api.http.fields import check_uid, unknown, whole_number
from t9ksched.api.http.parameters import limit_text
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.http.responses import BODY, Json, answer, at, body_of, documented
from t9ksched.api.leader import LeaderAway
from t9ksched.api.routers.workloads import is_held
from t9ksched.api.schemas.jobs import ControlShape, PriorityBody, UpdateBody
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.kinds import addressed
from t9ksched.api.submission.lookup import from_cluster, not_found, with_submitter
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldError, faulty
from t9ksched.model.job import FINISHED
from t9ksched.model.queue import MAX_PRIORITY
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import limit_seconds
from t9ksched.store import history, tokens
from t9ksched.store.history import Event
from t9ksched.store.job_overrides import JobControl

_TAKEN_IN: Final = timedelta(seconds=10)
"""After so long a leader that works has taken in what was decided."""

_NOTHING: Final[Mapping[str, Any]] = {}
_WAITS: Final = ("Pending", "Resuming", "Paused")
"""Phases in which managers decide about a job."""

router = guarded("/apis/v1/workloads/{namespace}/{kind}/{name}/actions", "workloads")


@router.post(
    "/hold",
    operation_id="holdJob",
    summary="Do not start a waiting job",
    responses=documented({200: ControlShape}, 403, 404, 409, 503),
)
async def hold(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    event, root = await _decided(services, caller, history.JOB_HELD, namespace, kind, name)
    return answer(_shape(await services.store.controls.hold(event, root)))


@router.post(
    "/release",
    operation_id="releaseJob",
    summary="Let a held job start again",
    responses=documented({200: ControlShape}, 403, 404, 409, 503),
)
async def release(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    event, root = await _decided(services, caller, history.JOB_RELEASED, namespace, kind, name)
    return answer(_shape(await services.store.controls.release(event, root)))


@router.post(
    "/prioritise",
    operation_id="prioritiseJob",
    summary="Give a waiting job another priority within its queue: its submitter lowers it, a manager raises it too",
    responses=documented({200: ControlShape}, 400, 403, 404, 409, 412, *BODY, 422, 503),
    openapi_extra=body_of(PriorityBody),
)
async def prioritise(namespace: str, kind: str, name: str, request: Request, services: Given, caller: User) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    priority = whole_number(body, "priority", MAX_PRIORITY)
    event, root = await _decided(services, caller, history.JOB_PRIORITISED, namespace, kind, name, body)
    return answer(_shape(await services.store.controls.prioritise(event, priority, root)))


@router.post(
    "/update",
    operation_id="updateJob",
    summary="Change the time limit of a job: its submitter shortens it, a manager of its queue lengthens it too",
    responses=documented({200: ControlShape}, 400, 403, 404, 409, 412, *BODY, 422, 503),
    openapi_extra=body_of(UpdateBody),
)
async def update(namespace: str, kind: str, name: str, request: Request, services: Given, caller: Actor) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    faults = unknown(body, "timeLimit")
    text = body.get("timeLimit")
    if not isinstance(text, str) or not text:
        faults.append(FieldError("timeLimit", f"{faulty(text, 'is no duration')}: write one such as 2h, or 0 for none"))
    if faults:
        raise invalid(faults)
    seconds = limit_seconds(str(limit_text(str(text))))
    resource, job = await seen(services, caller, namespace, kind, name)
    check_uid(body, job)
    record = caller.decided.queues.get(str(job.get("queue")))
    if message := limit_fault(str(text), rules_of(record)[0] if record is not None else None):
        raise invalid([FieldError("timeLimit", message)])
    if job["phase"] in FINISHED and not _comes_back(job):
        raise Problem("Conflict", f"{resource.kind}/{name} is {job['phase']}: its time limit means nothing any more")
    limit = job.get("timeLimit") or {}
    said = limit.get("seconds") if limit.get("enforced") else None
    limits = [one for one in (said, *await _just_decided(services, job)) if one]
    shorter = seconds is not None and (not limits or seconds <= min(limits))
    if not caller.rules(job.get("queue")) and not (shorter and job.get("submitter") == caller.user):
        whose = "lengthen the time limit" if job.get("submitter") == caller.user else "change the time limit of others"
        raise Problem(
            "Forbidden",
            f"{caller.user!r} may not {whose} in the queue {job.get('queue')!r}",
            remedy="ask a manager of the queue",
        )
    reserved = [] if shorter else await _reserved(services, caller, job, str(text), seconds or 0)
    if not shorter and not caller.is_admin:
        # The last question: what the leader allows counts there from then on.
        await _delays_none(services, caller, job, str(text), seconds or 0)
    event = _event(history.JOB_LIMITED, caller, job, {"reservations": reserved} if reserved else {})
    control = await services.store.controls.limit(event, seconds or 0, str(job.get("rootUid") or ""))
    warnings = [{"path": "timeLimit", "message": _into(one, str(text)), "nearest": None} for one in reserved]
    return answer(_shape(control) | {"warnings": warnings})


async def _just_decided(services: Services, job: Json) -> list[int | None]:
    """Limits that were decided so lately that the leader may not have taken them in."""
    uids = [uid for uid in (job.get("rootUid"), job["uid"]) if uid]
    known = (await services.store.controls.of(uids)).values()
    return [one.time_limit_seconds for one in known if (one.limited_at or one.at) > datetime.now(UTC) - _TAKEN_IN]


async def _delays_none(services: Services, caller: Caller, job: Json, text: str, seconds: int) -> None:
    """Only administrators lengthen a limit so that a start that is planned for another queue moves later.

    Raises:
        Problem: this one would be.
    """
    wish = {"user": caller.user, "uid": job.get("rootUid") or job["uid"], "seconds": seconds}
    delayed = await services.leader.delayed(job, wish)
    if not delayed:
        return
    first, access = delayed[0], await JobAccess.of(services, caller)
    other = first["job"]
    whose = f"{other['namespace']}/{other['kind']}/{other['name']}" if access.see(other) else "a job"
    then = f"start at {first['after']}" if first["after"] else "have no planned start any more"
    raise Problem(
        "Conflict",
        f"with a time limit of {text} the job would delay {whose} of the queue {other['queue']!r}, which is planned to"
        f" start at {first['at']}: it would {then}",
        remedy="choose a shorter limit, or ask an administrator",
    )


async def _reserved(services: Services, caller: Caller, job: Json, text: str, seconds: int) -> list[Json]:
    """The reservations whose room the job would still hold: only administrators lengthen a limit so far.

    Raises:
        Problem: there is one, and the caller is no administrator.
    """
    try:
        found = await services.leader.reserved(job["namespace"], job["kind"], job["name"], seconds)
    except LeaderAway:
        if caller.is_admin:
            return []
        raise
    if found and not caller.is_admin:
        remedy = "choose a shorter limit, or ask an administrator"
        raise Problem("Conflict", _into(found[0], text), remedy=remedy)
    return found


def _into(reserved: Json, text: str) -> str:
    nodes = ", ".join(reserved["nodes"])
    return (
        f"with a time limit of {text} the job would still hold {nodes} in the reservation {reserved['name']!r}, from"
        f" {reserved['from']} to {reserved['to']}"
    )


def _comes_back(job: dict[str, Any]) -> bool:
    """Whether it is a PodGroup that its time limit ended: with another limit, pods that are made for it again run."""
    return job["kind"] == "PodGroup" and (job.get("reason") or {}).get("code") == Code.TIME_LIMIT_EXCEEDED


async def seen(
    services: Services, caller: Caller, namespace: str, kind: str, name: str
) -> tuple[Resource, dict[str, Any]]:
    """The job, if the caller may see it.

    Raises:
        Problem: there is none, or the caller may not see it.
    """
    resource, job = await _found(services, namespace, kind, name)
    if not caller.rules(job.get("queue")) and not (await JobAccess.of(services, caller)).see(job):
        raise not_found(resource, namespace, name)
    return resource, job


async def _found(services: Services, namespace: str, kind: str, name: str) -> tuple[Resource, dict[str, Any]]:
    resource = addressed(kind)
    try:
        job = await services.leader.job(namespace, resource.kind, name)
    except LeaderAway:
        job = None
    if job is None:
        return resource, (await from_cluster(services, resource, namespace, name))[0]
    return resource, await with_submitter(services, job)


async def _decided(
    services: Services,
    caller: Caller,
    event: str,
    namespace: str,
    kind: str,
    name: str,
    body: Mapping[str, Any] = _NOTHING,
) -> tuple[Event, str]:
    """The decision as an event, and the UID of the root owner above the job if there is one, once it is clear that the
    job is there, waits, and is the caller's to decide about.
    """
    resource, job = await _found(services, namespace, kind, name)
    own = job.get("submitter") == caller.user and caller.role != tokens.VIEWER
    lower = event == history.JOB_PRIORITISED and body["priority"] <= (job.get("priority") or 0)
    own = own and (lower or (event == history.JOB_RELEASED and _timed_out(job) and not is_held(caller, job)))
    if not caller.rules(job.get("queue")) and not own:
        if not (await JobAccess.of(services, caller)).see(job):
            raise not_found(resource, namespace, name)
        raise Problem(
            "Forbidden",
            f"{resource.kind}/{name} waits in the queue {job.get('queue')!r}, which {caller.user!r} does not manage",
            remedy="ask a manager of the queue",
        )
    check_uid(body, job)
    if job["phase"] not in _WAITS:
        raise Problem(
            "Conflict", f"{resource.kind}/{name} is {job['phase']}: only a job that waits can be decided about"
        )
    members = job.get("members") or {}
    if event == history.JOB_HELD and (there := max(members.get("running", 0), members.get("bound", 0))):
        raise Problem(
            "Conflict",
            f"{resource.kind}/{name} has started, and {there} of {members.get('total')} members are on nodes: only what"
            " has not started can be held",
        )
    return _event(event, caller, job), str(job.get("rootUid") or "")


def _timed_out(job: Mapping[str, Any]) -> bool:
    """Whether the job waits because it did not start in time: its submitter may have it tried again."""
    return (job.get("reason") or {}).get("code") == Code.START_TIMED_OUT


def _event(what: str, caller: Caller, job: Json, detail: Json | None = None) -> Event:
    """A decision about the job, which is another than was named if that belongs to a job."""
    return Event(
        event=what,
        kind=job["kind"],
        namespace=job["namespace"],
        name=job["name"],
        uid=job["uid"],
        queue=job.get("queue"),
        actor=caller.user,
        detail=detail or {},
    )


def _shape(control: JobControl) -> Json:
    return {
        "uid": control.uid,
        "held": control.held,
        "priority": control.priority,
        "timeLimitSeconds": control.time_limit_seconds,
        "by": control.by,
        "at": at(control.at),
    }
