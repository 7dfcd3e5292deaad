"""`/apis/v1/admin/queues` and `/apis/v1/queues`: queues by REST.

The revision of a queue is its ETag. A change with `If-Match` is made only to that revision (else 412); one without is
made to the current revision. 409 means that the change itself is impossible now: the name is taken, the queue is in
use. Nothing here evicts: closing, draining and lower quotas act on what has not started.
"""

import re
from typing import Annotated, Final, Literal

from fastapi import Header, Query, Request
from starlette.responses import Response

from t9ksched.admission.access import parse_members
from t9ksched.api.auth import Admin, Caller, Manager, Ruler, User, guarded
from t9ksched.api.authorization import place_of, usable
from t9ksched.api.events.known import Wanted
from t9ksched.api.events.stream import Watched, listed_or_streamed
from t9ksched.api.http.paging import Paged
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, Json, answer, body_of, documented
from t9ksched.api.http.selectors import Labels, met
from t9ksched.api.leader import LeaderAway
from t9ksched.api.queueshapes import held_now, merge_patch, one, patched_spec, several, text
from t9ksched.api.schemas.queues import MembersBody, MembersShape, Queue, QueueBody, QueueChange, QueueDeleted, Queues
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.advice import about_deletion, about_queue
from t9ksched.api.submission.cancelling import delete_job, not_cancelled
from t9ksched.api.submission.kinds import ACCEPTED
from t9ksched.model.errors import FieldError, Invalid, shown
from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.model.queue import parse_labels, parse_queue_spec, validate_queue_name
from t9ksched.store.errors import RevisionChanged, RowMissing
from t9ksched.store.queues import Edit, QueueRecord
from t9ksched.workloads.registry import ENDLESS_KINDS

admin = guarded("/apis/v1/admin/queues", "queues")
users = guarded("/apis/v1/queues", "queues")

_CHANGES: Final = Wanted(("queue",))
_ETAG: Final = re.compile(r'"[0-9]{1,18}"')

IfMatch = Annotated[str | None, Header(description='The ETag seen before, such as `"12"`; `*` for any.')]
_WRITABLE = ("labels", "spec", "members")
_READ_ONLY = ("name", "uid", "status", "draining", "access", "revision", "createdAt", "updatedAt", "warnings")
_FINISHED = ("Succeeded", "Failed")


@admin.get(
    "",
    operation_id="listManagedQueues",
    summary="List the queues you manage",
    responses=documented({200: Queues}, 403, 503) | listed_or_streamed(Queues),
)
async def list_all(services: Given, caller: Manager, watched: Watched, paging: Paged, labels: Labels) -> Response:
    if watched:
        return await watched.stream(services, caller, _CHANGES)
    held, headers = await held_now(services)
    queues = caller.decided.queues
    names = [*queues] if caller.is_admin else sorted(caller.ruled & queues.keys())
    if labels:
        names = [name for name in names if met(labels, queues[name].labels)]
    page, more = paging.of(names, lambda name: (name,))
    return several((text(queues[name], held, caller) for name in page), caller, headers, more)


@users.get(
    "",
    operation_id="listQueues",
    summary="List the queues you may use, and what is free of their quotas",
    description="A queue that only namespaces may use is listed with `namespace`, or if such a namespace is yours.",
    responses=documented({200: Queues}, 422, 503) | listed_or_streamed(Queues),
)
async def list_mine(
    services: Given,
    caller: User,
    watched: Watched,
    paging: Paged,
    labels: Labels,
    namespace: Annotated[str | None, Query(description="Also what this namespace may use", max_length=63)] = None,
) -> Response:
    if watched:
        return await watched.stream(services, caller, _CHANGES)
    held, headers = await held_now(services)
    names = [*await services.namespaces.owned_by(caller.user), *([namespace] if namespace else [])]
    places = [await place_of(services, caller, name) for name in (None, *dict.fromkeys(names))]
    found = [(record, access) for record, access in usable(caller, places) if met(labels, record.labels)]
    page, more = paging.of(found, lambda one: (one[0].name,))
    return several((text(record, held, caller, access) for record, access in page), caller, headers, more)


@admin.post(
    "",
    status_code=201,
    operation_id="createQueue",
    summary="Create a queue; without members only administrators may use it",
    responses=documented({201: Queue}, 400, 403, 409, *BODY, 422),
    openapi_extra=body_of(QueueBody),
)
async def create(request: Request, services: Given, caller: Admin) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    faults = [FieldError("name", "is missing: give the queue a name")] if body.get("name") is None else []
    try:
        if not faults:
            validate_queue_name(body["name"])
    except Invalid as error:
        faults += error.errors
    labels, spec, members = _parse(body, faults)
    record = await services.store.queues.create(body["name"], labels, spec, members or {}, by=caller.user)
    warnings = await about_queue(services, record.spec)
    return one(record, caller, {"Location": f"{admin.prefix}/{record.name}"}, code=201, warnings=warnings)


@admin.get("/{name}", operation_id="getQueue", summary="Get a queue", responses=documented({200: Queue}, 403, 404))
async def get(name: str, services: Given, caller: Ruler) -> Response:
    record = _known(caller, name)
    held, headers = await held_now(services)
    return one(record, caller, headers, held)


@admin.put(
    "/{name}",
    operation_id="replaceQueue",
    summary="Replace a queue's labels and spec, and its members if the body names them",
    description="The `ordering` stays as it is where the body leaves it out.",
    responses=documented({200: Queue}, 400, 403, 404, 412, *BODY, 422),
    openapi_extra=body_of(QueueBody),
)
async def replace(name: str, request: Request, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    _same_name(name, body)
    labels, spec, members = _parse(body, [])
    return await _edit(services, caller, name, lambda _: (labels, spec), if_match, members=members, judged=True)


@admin.patch(
    "/{name}",
    operation_id="changeQueue",
    summary="Change some fields of a queue (JSON merge patch: null removes a field)",
    description="`ordering: null` is the ordering of new queues, `Backfill`.",
    responses=documented({200: Queue}, 400, 403, 404, 412, *BODY, 422),
    openapi_extra=body_of(QueueChange, "application/merge-patch+json", "application/json", "application/yaml"),
)
async def patch(name: str, request: Request, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    _same_name(name, body)
    members = _parse({"members": body.get("members")}, [])[2]

    def merged(old: QueueRecord) -> tuple[dict[str, str], Json]:
        change = {key: value for key, value in body.items() if key != "members"}
        whole = merge_patch({"labels": old.labels, "spec": old.spec}, change)
        if change.get("spec") is not None:
            whole["spec"] = patched_spec(old.spec, change["spec"])
        labels, spec, _ = _parse(whole, [])
        return labels, spec

    return await _edit(services, caller, name, merged, if_match, members=members, judged=True)


@admin.delete(
    "/{name}",
    status_code=204,
    operation_id="deleteQueue",
    summary="Delete a queue; one that is used only if `jobs` says what becomes of its jobs",
    description="200 with `warnings` in place of 204 where reservations are for the queue: they stay.",
    responses=documented({204: None, 200: QueueDeleted}, 403, 404, 409, 412, 422, 503),
)
async def delete(
    name: str,
    services: Given,
    caller: Admin,
    if_match: IfMatch = None,
    jobs: Annotated[
        Literal["cancel", "keep"] | None,
        Query(description="`cancel` deletes its unfinished jobs; `keep` lets them be: what waits then waits for ever"),
    ] = None,
) -> Response:
    if name == DEFAULT_QUEUE:
        raise Problem(
            "Conflict",
            "the queue 'default' cannot be deleted: jobs that name no queue use it",
            remedy="close it instead",
        )
    expected = _expected(caller, name, if_match)
    held = await _jobs_in(services, name)
    if held and jobs is None:
        raise Problem(
            "Conflict",
            f"the queue {name!r} holds {len(held)} unfinished job{'s' if len(held) > 1 else ''}",
            remedy="drain it and wait until it is empty, or say what becomes of them: jobs=cancel or jobs=keep",
        )
    if jobs == "cancel" and (foreign := next((job for job in held if job["kind"] not in ACCEPTED), None)) is not None:
        raise not_cancelled(foreign)
    if jobs == "cancel" and held:
        # Closed first, so that no job is submitted while the others are deleted.
        closed = await services.store.queues.edit(name, _closed, expected, by=caller.user)
        expected = closed.revision if expected is not None else None
        for job in held:
            try:
                await delete_job(services, caller, ACCEPTED[job["kind"]], job)
            except Problem as problem:
                if problem.code != "NotFound":  # deleted already: the same result
                    raise
    warnings = await about_deletion(services, name)
    try:
        await services.store.queues.delete(name, expected, by=caller.user)
    except RowMissing:
        raise _not_found(name) from None
    return answer({"warnings": warnings}) if warnings else Response(status_code=204)


@admin.get(
    "/{name}/members",
    operation_id="getQueueMembers",
    summary="Who may use a queue, and up to which priority",
    responses=documented({200: MembersShape}, 403, 404),
)
async def get_members(name: str, caller: Ruler) -> Response:
    record = _known(caller, name)
    return answer(parse_members(record.members).to_dict(), headers={"ETag": f'"{record.revision}"'})


@admin.put(
    "/{name}/members",
    operation_id="replaceQueueMembers",
    summary="Say who may use a queue; members not named lose it",
    responses=documented({200: MembersShape}, 400, 403, 404, 412, *BODY, 422),
    openapi_extra=body_of(MembersBody),
)
async def put_members(
    name: str, request: Request, services: Given, caller: Ruler, if_match: IfMatch = None
) -> Response:
    members = parse_members(await services.bodies.mapping(request, caller.user)).to_dict()
    try:
        expected = _expected(caller, name, if_match)
        record = await services.store.queues.set_members(name, members, expected, by=caller.user)
    except RowMissing:
        raise _not_found(name) from None
    return answer(parse_members(record.members).to_dict(), headers={"ETag": f'"{record.revision}"'})


@admin.post(
    "/{name}/actions/close",
    operation_id="closeQueue",
    summary="Take no new jobs",
    responses=documented({200: Queue}, 403, 404, 412),
)
async def close(name: str, services: Given, caller: Ruler, if_match: IfMatch = None) -> Response:
    return await _edit(services, caller, name, _closed, if_match)


@admin.post(
    "/{name}/actions/open",
    operation_id="openQueue",
    summary="Take new jobs again, and start those that wait",
    responses=documented({200: Queue}, 403, 404, 412),
)
async def open_(name: str, services: Given, caller: Ruler, if_match: IfMatch = None) -> Response:
    def opened(old: QueueRecord) -> tuple[dict[str, str], Json]:
        return old.labels, {key: value for key, value in old.spec.items() if key != "closed"}

    return await _edit(services, caller, name, opened, if_match, draining=False)


@admin.post(
    "/{name}/actions/drain",
    operation_id="drainQueue",
    summary="Take no new jobs and start none that wait; those that run go on; `warnings` names what never ends",
    responses=documented({200: Queue}, 403, 404, 412),
)
async def drain(name: str, services: Given, caller: Ruler, if_match: IfMatch = None) -> Response:
    return await _edit(services, caller, name, _closed, if_match, draining=True, warned=True)


def _closed(old: QueueRecord) -> tuple[dict[str, str], Json]:
    return old.labels, old.spec | {"closed": True}


def _parse(body: Json, faults: list[FieldError]) -> tuple[dict[str, str], Json, Json | None]:
    """Labels, canonical spec and members (None if not named) of a body; every fault of the body in one go."""
    known = (*_WRITABLE, *_READ_ONLY)
    faults += [
        FieldError(key, f"is unknown: the fields are name, {', '.join(_WRITABLE)}") for key in body if key not in known
    ]
    labels: dict[str, str] = {}
    spec: Json = {}
    members: Json | None = None
    try:
        labels = parse_labels(body.get("labels"))
    except Invalid as error:
        faults += error.errors
    try:
        spec = parse_queue_spec(body.get("spec")).to_dict()
    except Invalid as error:
        faults += error.errors
    try:
        members = None if body.get("members") is None else parse_members(body["members"], "members").to_dict()
    except Invalid as error:
        faults += error.errors
    if faults:
        raise Invalid(faults)
    return labels, spec, members


def _same_name(name: str, body: Json) -> None:
    if body.get("name", name) != name:
        raise Invalid.at("name", f"{shown(body['name'])} differs from the address: a queue cannot be renamed")


def _known(caller: Caller, name: str) -> QueueRecord:
    record = caller.decided.queues.get(name)
    if record is None:
        raise _not_found(name)
    return record


def _expected(caller: Caller, name: str, if_match: str | None) -> int | None:
    """The revision that If-Match asks for, None for any; of several ETags the current one, if it is among them."""
    record = _known(caller, name)
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [tag.strip() for tag in if_match.split(",")]
    revisions = [int(tag[1:-1]) for tag in tags if _ETAG.fullmatch(tag)]
    if len(revisions) == 1:
        return revisions[0]
    if record.revision in revisions:
        return record.revision
    raise RevisionChanged(
        f"the queue {name!r} has the revision {record.revision}, none of {if_match[:100]}", record.revision
    )


async def _edit(
    services: Services,
    caller: Caller,
    name: str,
    edit: Edit,
    if_match: str | None,
    *,
    members: Json | None = None,
    draining: bool | None = None,
    judged: bool = False,
    warned: bool = False,
) -> Response:
    """Change a queue and answer with it; `judged` adds what is odd about its spec, `warned` the jobs that never end."""
    try:
        expected = _expected(caller, name, if_match)
        record = await services.store.queues.edit(
            name, edit, expected, members=members, draining=draining, by=caller.user
        )
    except RowMissing:
        raise _not_found(name) from None
    held, headers = await held_now(services)
    warnings = await about_queue(services, record.spec) if judged else None
    if warned:
        warnings = await _endless(services, name)
    return one(record, caller, headers, held, warnings=warnings)


async def _endless(services: Services, queue: str) -> list[Json]:
    """A warning for each thing in the queue that does not end by itself: a queue that drains is not emptied of it."""
    jobs = await _jobs_in(services, queue)
    roots = {(job["namespace"], job.get("root") or f"{job['kind']}/{job['name']}") for job in jobs}
    return [
        {
            "path": f"{namespace}/{title}",
            "message": "never ends by itself: delete it, pause it or scale it to nothing to empty the queue",
            "nearest": None,
        }
        for namespace, title in sorted(roots)
        if title.partition("/")[0] in ENDLESS_KINDS
    ]


async def _jobs_in(services: Services, queue: str) -> list[Json]:
    """Unfinished jobs of the queue: as the leader sees them, else as last recorded."""
    try:
        jobs = await services.leader.jobs()
    except LeaderAway:
        jobs = [record.shape | {"phase": record.phase} for record in await services.store.jobs.list(queue=queue)]
    return [job for job in jobs if job.get("queue") == queue and job.get("phase") not in _FINISHED]


def _not_found(name: str) -> Problem:
    return Problem("QueueNotFound", f"there is no queue {name!r}", remedy="GET /apis/v1/queues lists those there are")
