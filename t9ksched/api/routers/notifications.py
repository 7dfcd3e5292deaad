"""`/apis/v1/notifications`: where users, and those who manage a queue, want to be told what happens to jobs.

URLs and keys are secrets: a URL is taken and not given back, a key is in the answer to the creation and nowhere else.
Nothing is sent from here: the leading scheduler sends.
"""

import asyncio
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Request
from starlette.responses import Response

from t9ksched.api.auth import Actor, Caller, User, guarded
from t9ksched.api.http.paging import Paged
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, Json, answer, at, body_of, documented
from t9ksched.api.schemas.notifications import (
    NewNotification,
    NotificationBody,
    Notifications,
    NotificationShape,
    NotificationTest,
)
from t9ksched.api.services import Given, Services
from t9ksched.model.errors import FieldError, Invalid, faulty
from t9ksched.model.notification import EVENTS, MAIL, WEBHOOK, Address, parse_address
from t9ksched.notify.services import understood
from t9ksched.store.notifications import Target, TooManyTargets, new_target

router = guarded("/apis/v1/notifications", "notifications")

_ID: Final = re.compile("[0-9a-f]{1,32}")
MOST: Final = 20
"""Addresses of one user, and of one queue."""


@router.get(
    "",
    operation_id="listNotifications",
    summary="List the addresses that are told what happens: yours, and those of queues that you manage",
    description="Administrators see all. URLs and keys are not shown.",
    responses=documented({200: Notifications}),
)
async def list_all(
    services: Given,
    caller: User,
    paging: Paged,
    queue: Annotated[str | None, Query(description="Only those of this queue", max_length=63)] = None,
) -> Response:
    found = [one for one in await services.store.notifications.list() if _sees(caller, one)]
    found = [one for one in found if queue in (None, one.queue)]
    page, more = paging.of(sorted(found, key=_key), _key)
    return answer({"items": [_shape(one) for one in page], "continue": more})


@router.post(
    "",
    status_code=201,
    operation_id="addNotification",
    summary="Have an address told what happens to your jobs, or to those of a queue that you manage",
    responses=documented({201: NewNotification}, 400, 403, 409, *BODY, 422),
    openapi_extra=body_of(NotificationBody),
)
async def add(request: Request, services: Given, caller: Actor) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    address, events, queue = _read(services, body)
    if address.kind not in (WEBHOOK, MAIL) and not await asyncio.to_thread(understood, address.url):
        raise Invalid.at("url", f"is no address of {address.kind}: write it as the documentation of Apprise says")
    if queue is not None:
        _see_rights(caller, queue)
    target = new_target(address, caller.user, events, queue=queue, within=caller.limits if queue is None else ())
    try:
        await services.store.notifications.add(target, MOST, by=caller.user)
    except TooManyTargets as error:
        raise Problem("Conflict", str(error), remedy="delete one that is not needed any more") from None
    key = target.key if target.kind == WEBHOOK else None
    headers = {"Cache-Control": "no-store", "Location": f"{router.prefix}/{target.id}"}
    return answer(_shape(target) | {"key": key}, 201, headers)


@router.get(
    "/{id}",
    operation_id="getNotification",
    summary="Get an address, with how the last attempt ended",
    responses=documented({200: NotificationShape}, 404),
)
async def get(id: str, services: Given, caller: User) -> Response:
    return answer(_shape(await _known(services, caller, id)))


@router.delete(
    "/{id}",
    status_code=204,
    operation_id="deleteNotification",
    summary="Tell an address no more, also not of what is still to be sent",
    responses=documented({204: None}, 403, 404),
)
async def delete(id: str, services: Given, caller: Actor) -> Response:
    await services.store.notifications.delete(await _known(services, caller, id), by=caller.user)
    return Response(status_code=204)


@router.post(
    "/{id}/actions/test",
    status_code=202,
    operation_id="testNotification",
    summary="Send a test to an address; one that is disabled is enabled if it succeeds",
    description="The address itself says in `lastAttemptAt` and `lastError` how it went.",
    responses=documented({202: NotificationTest}, 403, 404),
)
async def test(id: str, services: Given, caller: Actor) -> Response:
    target = await _known(services, caller, id)
    sent = await services.store.notifications.test(target, datetime.now(UTC), caller.user)
    return answer({"notification": sent}, 202)


def _read(services: Services, body: Json) -> tuple[Address, list[str], str | None]:
    """What a body asks for.

    Raises:
        Invalid: naming every faulty field. No URL is repeated.
    """
    known = NotificationBody.model_fields
    faults = [FieldError(key, f"is unknown: the fields are {', '.join(known)}") for key in body if key not in known]
    url, queue = body.get("url"), body.get("queue")
    address = None
    if not isinstance(url, str):
        faults.append(FieldError("url", "is missing" if url is None else "must be a text"))
    else:
        try:
            address = parse_address(url, services.notify)
        except Invalid as error:
            faults += error.errors
    events = _events(body.get("events"), faults)
    if queue is not None and not isinstance(queue, str):
        faults.append(FieldError("queue", "must be the name of a queue"))
    if faults or address is None:
        raise Invalid(faults)
    return address, events, queue


def _events(raw: Any, faults: list[FieldError]) -> list[str]:
    if raw is None:
        return list(EVENTS)
    if not isinstance(raw, list) or not raw:
        faults.append(FieldError("events", f"must be a list of some of {', '.join(EVENTS)}"))
        return []
    for number, one in enumerate(raw):
        if one not in EVENTS:
            faults.append(FieldError(f"events[{number}]", f"{faulty(one, 'is unknown')}: use {', '.join(EVENTS)}"))
    return [one for one in EVENTS if one in raw]


def _see_rights(caller: Caller, queue: str) -> None:
    if not caller.rules(queue):
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} does not manage the queue {queue!r}",
            remedy="ask an administrator or a manager of this queue, or leave the queue out",
        )
    if queue not in caller.decided.queues:
        raise Problem("QueueNotFound", f"there is no queue {queue!r}", status=422)


def _sees(caller: Caller, target: Target) -> bool:
    """Whether it is the caller's own, or that of a queue that the caller manages. A token for some queues has to do
    with those alone that are limited to these.
    """
    if target.queue is not None or caller.is_admin:
        return caller.rules(target.queue)
    limited = not caller.limits or (bool(target.within) and caller.limits.issuperset(target.within))
    return target.owner == caller.user and limited


async def _known(services: Services, caller: Caller, id_: str) -> Target:
    target = await services.store.notifications.get(id_) if _ID.fullmatch(id_) else None
    if target is None or not _sees(caller, target):
        raise Problem(
            "NotFound",
            f"there is no address for notifications with the id {id_[:40]!r}",
            remedy="GET /apis/v1/notifications lists those there are",
        )
    return target


def _key(target: Target) -> tuple[str, ...]:
    return target.owner, target.queue or "", target.id


def _exactly(moment: datetime | None) -> str | None:
    """To the millisecond, so that one attempt is told from the next."""
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shape(target: Target) -> Json:
    return {
        "id": target.id,
        "user": target.owner,
        "queue": target.queue,
        "within": target.within,
        "kind": target.kind,
        "address": target.shown,
        "events": target.events,
        "createdAt": at(target.created_at),
        "failures": target.failures,
        "disabledAt": at(target.disabled_at),
        "lastAttemptAt": _exactly(target.last_at),
        "lastError": target.last_error or None,
    }
