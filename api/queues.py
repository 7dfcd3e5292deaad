"""`/apis/v1/admin/queues` and `/apis/v1/queues`: queues by REST.

The revision of a queue is its ETag. A change with `If-Match` is made only to that revision (else 412); one without is
made to whatever is there. 409 means that the change itself is impossible now: the name is taken, the queue is in use.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from api.answers import Json, answer, at, body_of, documented
from api.auth import Admin, Caller, User
from api.documents import read_mapping
from api.leader import LeaderAway
from api.problems import Problem
from api.schemas import Queue, QueueBody, QueueChange, Queues
from api.services import Given, Services
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.model.queue import parse_labels, parse_queue_spec, validate_queue_name
from t9ksched.store import history
from t9ksched.store.errors import RevisionChanged, RowMissing
from t9ksched.store.history import Event
from t9ksched.store.queues import Edit, QueueRecord

admin = APIRouter(prefix="/apis/v1/admin/queues", tags=["queues"])
users = APIRouter(prefix="/apis/v1/queues", tags=["queues"])

IfMatch = Annotated[str | None, Header(description='The ETag seen before, such as `"12"`; `*` for any.')]
_WRITABLE = ("labels", "spec")
_READ_ONLY = ("name", "uid", "status", "members", "revision", "createdAt", "updatedAt")
_OPEN_TO_ALL: Json = {"everyone": True, "users": [], "groups": [], "maxPriority": None}
"""Who may use a queue is not restricted yet, and this says so."""


@admin.get("", summary="List all queues", responses=documented({200: Queues}, 403))
async def list_all(services: Given, _: Admin) -> Response:
    return await _list(services)


@users.get("", summary="List the queues you may use", responses=documented({200: Queues}))
async def list_mine(services: Given, _: User) -> Response:
    return await _list(services)


@admin.post(
    "",
    status_code=201,
    summary="Create a queue",
    responses=documented({201: Queue}, 400, 403, 409, 413, 422),
    openapi_extra=body_of(QueueBody),
)
async def create(request: Request, services: Given, caller: Admin) -> Response:
    body = await read_mapping(request, services.max_body_bytes)
    faults = [FieldError("name", "is missing: give the queue a name")] if body.get("name") is None else []
    try:
        if not faults:
            validate_queue_name(body["name"])
    except Invalid as error:
        faults += error.errors
    labels, spec = _parse(body, faults)
    record = await services.store.queues.create(body["name"], labels, spec)
    await _note(services, caller, history.QUEUE_CREATED, record, {"after": _written(record)})
    return _one(record, {"Location": f"{admin.prefix}/{record.name}"}, status=201)


@admin.get("/{name}", summary="Get a queue", responses=documented({200: Queue}, 403, 404))
async def get(name: str, services: Given, _: Admin) -> Response:
    record = await services.store.queues.get(name)
    if record is None:
        raise _not_found(name)
    status, headers = await _status(services)
    return _one(record, headers, status)


@admin.put(
    "/{name}",
    summary="Replace a queue's labels and spec",
    responses=documented({200: Queue}, 400, 403, 404, 412, 413, 422),
    openapi_extra=body_of(QueueBody),
)
async def replace(name: str, request: Request, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    body = await read_mapping(request, services.max_body_bytes)
    _same_name(name, body)
    new = _parse(body, [])
    return await _edit(services, caller, name, lambda _: new, if_match)


@admin.patch(
    "/{name}",
    summary="Change some fields of a queue (JSON merge patch: null removes a field)",
    responses=documented({200: Queue}, 400, 403, 404, 412, 413, 422),
    openapi_extra=body_of(QueueChange, "application/merge-patch+json", "application/json", "application/yaml"),
)
async def patch(name: str, request: Request, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    body = await read_mapping(request, services.max_body_bytes)
    _same_name(name, body)

    def merged(old: QueueRecord) -> tuple[dict[str, str], Json]:
        return _parse(merge_patch({"labels": old.labels, "spec": old.spec}, body), [])

    return await _edit(services, caller, name, merged, if_match)


@admin.delete(
    "/{name}",
    status_code=204,
    summary="Delete a queue that holds nothing",
    responses=documented({204: None}, 403, 404, 409, 412),
)
async def delete(name: str, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    if name == DEFAULT_QUEUE:
        raise Problem(
            "Conflict",
            "the queue 'default' cannot be deleted: jobs that name no queue use it",
            remedy="close it instead",
        )
    if await services.store.queues.get(name) is None:
        raise _not_found(name)
    if held := await _jobs_in(services, name):
        raise Problem(
            "Conflict",
            f"the queue {name!r} holds {held} unfinished job{'s' if held > 1 else ''}",
            remedy="close the queue and wait until it is empty, or cancel its jobs",
        )
    try:
        record = await services.store.queues.delete(name, await _expected(services, name, if_match))
    except RowMissing:
        raise _not_found(name) from None
    await _note(services, caller, history.QUEUE_DELETED, record, {"before": _written(record)})
    return Response(status_code=204)


@admin.post("/{name}/actions/close", summary="Take no new jobs", responses=documented({200: Queue}, 403, 404, 412))
async def close(name: str, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    return await _edit(services, caller, name, lambda old: (old.labels, old.spec | {"closed": True}), if_match)


@admin.post("/{name}/actions/open", summary="Take new jobs again", responses=documented({200: Queue}, 403, 404, 412))
async def open_(name: str, services: Given, caller: Admin, if_match: IfMatch = None) -> Response:
    def opened(old: QueueRecord) -> tuple[dict[str, str], Json]:
        return old.labels, {key: value for key, value in old.spec.items() if key != "closed"}

    return await _edit(services, caller, name, opened, if_match)


def merge_patch(target: Any, change: Any) -> Any:
    """The target with the change applied, as RFC 7396 says."""
    if not isinstance(change, Mapping):
        return change
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _parse(body: Json, faults: list[FieldError]) -> tuple[dict[str, str], Json]:
    """Labels and canonical spec of a body; every fault of the body in one go."""
    known = (*_WRITABLE, *_READ_ONLY)
    faults += [
        FieldError(key, f"is unknown: the fields are name, {', '.join(_WRITABLE)}") for key in body if key not in known
    ]
    labels: dict[str, str] = {}
    spec: Json = {}
    try:
        labels = parse_labels(body.get("labels"))
    except Invalid as error:
        faults += error.errors
    try:
        spec = parse_queue_spec(body.get("spec")).to_dict()
    except Invalid as error:
        faults += error.errors
    if faults:
        raise Invalid(faults)
    return labels, spec


def _same_name(name: str, body: Json) -> None:
    if body.get("name", name) != name:
        raise Invalid.at("name", f"{body['name']!r} differs from the address: a queue cannot be renamed")


async def _expected(services: Services, name: str, if_match: str | None) -> int | None:
    """The revision that If-Match asks for, None for any; of several ETags the current one, if it is among them."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [tag.strip() for tag in if_match.split(",")]
    revisions = [int(tag[1:-1]) for tag in tags if len(tag) > 2 and tag[0] == tag[-1] == '"' and tag[1:-1].isdecimal()]
    if len(revisions) == 1:
        return revisions[0]
    record = await services.store.queues.get(name)
    if record is None:
        raise _not_found(name)
    if record.revision in revisions:
        return record.revision
    raise RevisionChanged(f"the queue {name!r} has the revision {record.revision}, none of {if_match}", record.revision)


async def _edit(services: Services, caller: Caller, name: str, edit: Edit, if_match: str | None) -> Response:
    before: list[QueueRecord] = []

    def watched(old: QueueRecord) -> tuple[dict[str, str], Json]:
        before.append(old)
        return edit(old)

    try:
        record = await services.store.queues.edit(name, watched, await _expected(services, name, if_match))
    except RowMissing:
        raise _not_found(name) from None
    if record.revision != before[-1].revision:
        detail = {"before": _written(before[-1]), "after": _written(record)}
        await _note(services, caller, history.QUEUE_CHANGED, record, detail)
    status, headers = await _status(services)
    return _one(record, headers, status)


async def _jobs_in(services: Services, queue: str) -> int:
    """Unfinished jobs of the queue: as the leader sees them, else as last recorded."""
    try:
        jobs = await services.leader.jobs()
    except LeaderAway:
        return await services.store.jobs.unfinished(queue)
    return sum(job.get("queue") == queue and job.get("phase") not in ("Succeeded", "Failed") for job in jobs)


async def _list(services: Services) -> Response:
    records, (status, headers) = await asyncio.gather(services.store.queues.list(), _status(services))
    return answer({"items": [_shape(record, status) for record in records]}, headers=headers)


async def _status(services: Services) -> tuple[dict[str, Json], dict[str, str]]:
    """What queues hold, by name; without a leader nothing, and the header that says so."""
    try:
        return await services.leader.queues(), {}
    except LeaderAway as away:
        return {}, away.age_header(away.age)


def _one(
    record: QueueRecord, headers: dict[str, str], held: dict[str, Json] | None = None, status: int = 200
) -> Response:
    return answer(_shape(record, held or {}), status, headers | {"ETag": f'"{record.revision}"'})


def _shape(record: QueueRecord, held: Mapping[str, Json]) -> Json:
    return {
        "name": record.name,
        "uid": record.uid,
        "labels": record.labels,
        "spec": record.spec,
        "status": held.get(record.name),
        "members": _OPEN_TO_ALL,
        "revision": record.revision,
        "createdAt": at(record.created_at),
        "updatedAt": at(record.updated_at),
    }


def _written(record: QueueRecord) -> Json:
    return {"labels": record.labels, "spec": record.spec}


async def _note(services: Services, caller: Caller, event: str, record: QueueRecord, detail: Json) -> None:
    await services.store.history.append(Event(event=event, queue=record.name, actor=caller.user, detail=detail))


def _not_found(name: str) -> Problem:
    return Problem("QueueNotFound", f"there is no queue {name!r}", remedy="GET /apis/v1/queues lists those there are")
