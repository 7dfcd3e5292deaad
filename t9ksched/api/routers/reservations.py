"""`/apis/v1/admin/reservations`: nodes or cards that are kept for some jobs, or for maintenance, at certain times.

Whether a reservation is possible, and on which nodes, only the leader can say: it is asked before each change, and what
it says is written only if no other reservation changed meanwhile. The revision of a reservation is its ETag.
"""

import re
import time
from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Header, Query, Request
from starlette.responses import Response

from t9ksched.api.auth import Admin, Caller, Manager, User, guarded
from t9ksched.api.http.paging import EventLimit, Paged
from t9ksched.api.http.parameters import one_of
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.http.responses import BODY, Json, answer, at, body_of, documented
from t9ksched.api.job_from_object import from_event
from t9ksched.api.queueshapes import merge_patch
from t9ksched.api.reservation_rights import Sight, made_by, of_manager, within_rights
from t9ksched.api.schemas.reports import HistoryPage
from t9ksched.api.schemas.reservations import (
    ReservationBody,
    ReservationChange,
    Reservations,
    ReservationShape,
    ReservationTrial,
)
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.advice import about_reservation
from t9ksched.model.advance_reservation import FIELDS, AdvanceReservation, Occurrence
from t9ksched.model.errors import FieldError, Invalid, shown
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, nanoseconds, written_moment
from t9ksched.store import history
from t9ksched.store.advance_reservations import OVER, ReservationRecord, ReservationsChanged
from t9ksched.store.errors import RevisionChanged
from t9ksched.store.history import OUTCOMES

router = guarded("/apis/v1/admin/reservations", "reservations")

_TRIES: Final = 5
"""How often a change is judged while other reservations are changed at the same time."""
_ETAG: Final = re.compile(r'"[0-9]{1,18}"')
_INSTEAD: Final = {
    "Refuse": ", or onConflict: Wait, which lets jobs go on, or Preempt, which evicts them when it begins",
    "Preempt": ", or force, which evicts such jobs, too",
}
"""What else helps if jobs are in the way."""
_READ_ONLY = ("uid", "status", "revision", "createdBy", "createdAt", "updatedAt", "warnings")
_CHANGES: Final = frozenset(
    {
        history.RESERVATION_CREATED,
        history.RESERVATION_CHANGED,
        history.RESERVATION_DELETED,
        history.RESERVATION_NODES_REPLACED,
    }
)
_TOLD: Final = sorted(OUTCOMES | _CHANGES)
IfMatch = Annotated[str | None, Header(description='The ETag seen before, such as `"12"`; `*` for any.')]
DryRun = Annotated[bool, Query(alias="dryRun", description="Only say what it would do: nothing is changed")]


@router.get(
    "",
    operation_id="listReservations",
    summary="List the reservations",
    description="Administrators and managers see all, others those that are for them.",
    responses=documented({200: Reservations}),
)
async def list_all(services: Given, caller: User, paging: Paged) -> Response:
    now, sight = time.time_ns(), await Sight.of(services, caller)
    records = [record for record in await services.store.reservations.list() if sight.sees(record)]
    records, more = paging.of(sorted(records, key=lambda one: one.name), lambda one: (one.name,))
    return answer({"items": [sight.shown(_shape(record, now)) for record in records], "continue": more})


@router.get(
    "/{name}",
    operation_id="getReservation",
    summary="Get a reservation",
    description="404 for users whom it is not for.",
    responses=documented({200: ReservationShape}, 404),
)
async def get(name: str, services: Given, caller: User) -> Response:
    record, sight = await _seen(services, caller, name)
    return answer(sight.shown(_shape(record, time.time_ns())), 200, {"ETag": f'"{record.revision}"'})


@router.get(
    "/{name}/history",
    operation_id="listReservationEvents",
    summary="What became of each occurrence of a reservation, and what was changed, oldest first",
    description="Those whom it is for see what became of the occurrences. `after` is the last `id` seen. What is known"
    " of a reservation that was deleted is in the audit, by its `name`.",
    responses=documented({200: HistoryPage}, 404, 422),
)
async def happened(
    name: str,
    services: Given,
    caller: User,
    paging: Paged,
    event: Annotated[str | None, Query(description="Such as reservation-missed", max_length=40)] = None,
    after: Annotated[int, Query(ge=0, lt=2**63, description="The last `id` seen")] = 0,
    limit: EventLimit = 200,
) -> Response:
    record, sight = await _seen(services, caller, name)
    shown = OUTCOMES if sight.only is not None else OUTCOMES | _CHANGES
    found = await services.store.history.list(
        events=shown if event is None else shown & {one_of(_TOLD, event, "query.event", "event of reservations")},
        name=name,
        since=record.created_at if sight.only is not None else None,
        after=paging.place(after),
        limit=limit,
    )
    more = paging.behind([one.id for one in found], limit)
    return answer({"items": [from_event(one) for one in found], "continue": more})


@router.post(
    "",
    status_code=201,
    operation_id="createReservation",
    summary="Create a reservation; with `dryRun` only say what it would do",
    description="409 `Conflict` lists in `conflicts` who holds the room, and until when. With `onConflict: Preempt` a"
    " manager may reserve room for queues that the manager manages, if only jobs of such queues are in its way.",
    responses=documented({201: ReservationShape, 200: ReservationTrial}, 400, 403, 409, *BODY, 422, 503),
    openapi_extra=body_of(ReservationBody),
)
async def create(request: Request, services: Given, caller: Manager, dry_run: DryRun = False) -> Response:
    wanted = of_manager(caller, _parse(await services.bodies.mapping(request, caller.user)), time.time_ns())
    if await services.store.reservations.get(wanted.name) is not None:
        raise Problem("AlreadyExists", f"the reservation {wanted.name!r} exists already")

    async def write(judged: Json) -> ReservationRecord:
        return await services.store.reservations.create(
            wanted.to_dict(), judged["nodes"], judged["seen"], by=caller.user
        )

    made = f"{router.prefix}/{wanted.name}"
    return await _judged(services, caller, wanted, write, dry_run, {"Location": made}, 201)


@router.patch(
    "/{name}",
    operation_id="changeReservation",
    summary="Change some fields of a reservation (JSON merge patch: null brings the default back); with `dryRun` only"
    " say what it would do",
    responses=documented({200: ReservationShape | ReservationTrial}, 400, 403, 404, 409, 412, *BODY, 422, 503),
    openapi_extra=body_of(ReservationChange, "application/merge-patch+json", "application/json", "application/yaml"),
)
async def patch(
    name: str, request: Request, services: Given, caller: Admin, if_match: IfMatch = None, dry_run: DryRun = False
) -> Response:
    change = await services.bodies.mapping(request, caller.user)
    if change.get("name", name) != name:
        raise Invalid.at("name", f"{shown(change['name'])} differs from the address: a reservation cannot be renamed")
    before = await _known(services, name)
    expected = _expected(before, if_match)
    # What is written here was read here: it is no edit over another one, whether If-Match says so or not.
    wanted = _parse(merge_patch(before.spec, change))

    async def write(judged: Json) -> ReservationRecord:
        spec, nodes, seen = wanted.to_dict(), judged["nodes"], judged["seen"]
        revision = before.revision if expected is None else expected
        return await services.store.reservations.edit(name, spec, nodes, seen, revision, by=caller.user)

    was_over = parse_reservation(before.spec).current(time.time_ns()) is None
    return await _judged(services, caller, wanted, write, dry_run, {}, 200, may_be_over=was_over)


@router.delete(
    "/{name}",
    status_code=204,
    operation_id="deleteReservation",
    summary="Delete a reservation: its room is free at once; jobs that run in it go on",
    responses=documented({204: None, 200: ReservationTrial}, 403, 404, 412, 422),
)
async def delete(
    name: str, services: Given, caller: Manager, if_match: IfMatch = None, dry_run: DryRun = False
) -> Response:
    record = await _known(services, name)
    made_by(caller, record)
    expected = _expected(record, if_match)
    if dry_run:
        empty: list[Json] = []
        shape = {"reservation": _shape(record, time.time_ns()), "nodes": list(record.nodes)}
        return answer(shape | {"conflicts": empty, "jobs": empty, "plans": empty, "warnings": empty})
    await services.store.reservations.delete(name, expected, by=caller.user)
    return Response(status_code=204)


async def _judged(
    services: Services,
    caller: Caller,
    reservation: AdvanceReservation,
    write: Callable[[Json], Any],
    dry_run: bool,
    headers: dict[str, str],
    status: int,
    *,
    may_be_over: bool = False,
) -> Response:
    """Have the leader judge it, and write it if it is possible."""
    if reservation.current(time.time_ns()) is None and not may_be_over:
        raise Invalid.at("to", "lies in the past: the reservation would be over")
    warnings = about_reservation(caller, reservation.queues)
    for left in reversed(range(_TRIES)):
        judged = await services.leader.judge_reservation(reservation.to_dict())
        told = warnings + judged.get("warnings", [])
        if faults := judged["faults"]:
            raise invalid([FieldError(fault["path"], fault["message"]) for fault in faults])
        within_rights(caller, reservation, judged)
        if dry_run:
            trial = {key: judged[key] for key in ("nodes", "conflicts", "jobs", "plans")}
            return answer({"reservation": reservation.to_dict()} | trial | {"warnings": told})
        if judged["conflicts"]:
            raise _conflict(reservation, judged["conflicts"])
        try:
            return _one(await write(judged), headers, status, told)
        except ReservationsChanged:
            if not left:
                raise
    raise AssertionError("the last try answers or raises")


def _conflict(reservation: AdvanceReservation, conflicts: list[Json]) -> Problem:
    """Who holds the room until when."""
    first, *more = conflicts
    until = f"until {first['until']}" if first.get("until") else "and nothing ends it"
    held = f"{first['kind']} {first['name']} holds {', '.join(first['nodes'])} {until}"
    waits = all(one["kind"] == "job" for one in conflicts)
    if reservation.on_conflict == "Preempt" and waits:
        held += "; its queue is not preemptible"
    rest = f" (and {len(more)} more)" if more else ""
    return Problem(
        "Conflict",
        f"the reservation {reservation.name!r} is not possible: {held}{rest}",
        remedy="take other nodes or times" + (_INSTEAD.get(reservation.on_conflict, "") if waits else ""),
        conflicts=conflicts,
    )


def _parse(body: Json) -> AdvanceReservation:
    return parse_reservation({key: value for key, value in body.items() if key not in _READ_ONLY})


async def _seen(services: Services, caller: Caller, name: str) -> tuple[ReservationRecord, Sight]:
    """The reservation, if the caller may see it, and what the caller sees of it."""
    record, sight = await _known(services, name), await Sight.of(services, caller)
    if not sight.sees(record):
        raise _missing(name)
    return record, sight


async def _known(services: Services, name: str) -> ReservationRecord:
    record = await services.store.reservations.get(name)
    if record is None:
        raise _missing(name)
    return record


def _missing(name: str) -> Problem:
    return Problem(
        "NotFound",
        f"there is no reservation {name!r}",
        remedy="GET /apis/v1/admin/reservations lists those there are",
    )


def _expected(record: ReservationRecord, if_match: str | None) -> int | None:
    """The revision that If-Match asks for, None for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    revisions = [int(tag.strip()[1:-1]) for tag in if_match.split(",") if _ETAG.fullmatch(tag.strip())]
    if record.revision in revisions:
        return record.revision
    raise RevisionChanged(
        f"the reservation {record.name!r} has the revision {record.revision}, not {if_match[:100]}", record.revision
    )


def _one(
    record: ReservationRecord,
    headers: dict[str, str] | None = None,
    status: int = 200,
    warnings: list[Json] | None = None,
) -> Response:
    shape = _shape(record, time.time_ns()) | ({} if warnings is None else {"warnings": warnings})
    return answer(shape, status, {"ETag": f'"{record.revision}"'} | (headers or {}))


def _shape(record: ReservationRecord, now: int) -> Json:
    return {key: record.spec[key] for key in FIELDS} | {
        "uid": record.uid,
        "status": _status(record, now),
        "revision": record.revision,
        "createdBy": record.created_by,
        "createdAt": at(record.created_at),
        "updatedAt": at(record.updated_at),
    }


def _status(record: ReservationRecord, now: int) -> Json:
    one, outcome = parse_reservation(record.spec), record.outcome
    last = None if outcome is None else outcome.to_dict()
    nodes = list(record.nodes)
    present = one.current(now)
    if present is None:
        ended = outcome is not None and (final := one.final()) is not None and nanoseconds(outcome.begin) == final.begin
        phase = outcome.what if outcome is not None and ended else OVER
        return _times(one.final()) | {"phase": phase, "nodes": nodes, "last": last}
    phase = "Active" if present.begin <= now else "Scheduled"
    if record.ended is not None and nanoseconds(record.ended.begin) == present.begin:
        phase = record.ended.why
    return _times(present) | {"phase": phase, "nodes": nodes, "last": last}


def _times(of: Occurrence | None) -> Json:
    begin, end = (None, None) if of is None else (written_moment(moment_at(ns)) for ns in of)
    return {"from": begin, "to": end}
