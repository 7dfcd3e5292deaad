"""`/apis/v1/stops`: what the scheduler does not do for now. Every user may see the stops; administrators set them.

`scheduling` stopped: no new pod is bound. `preemption` stopped: nothing is evicted for something else. Running pods
stay in either case. A stop ends by itself after its time, a day if none is named, unless it says `never`.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from fastapi import Request
from starlette.responses import Response

from t9ksched.api.auth import Admin, User, guarded
from t9ksched.api.http.durations import lasting
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, answer, body_of, documented
from t9ksched.api.queueshapes import stop_shape, stops_now
from t9ksched.api.schemas.queues import StopBody, StopShape, StopsShape
from t9ksched.api.services import Given
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.store.job_overrides import Stop

users = guarded("/apis/v1/stops", "stops")
admin = guarded("/apis/v1/admin/stops", "stops")

LASTS: Final = timedelta(hours=24)
"""How long a stop lasts whose request names no duration."""
What = Literal["scheduling", "preemption"]


@users.get("", operation_id="listStops", summary="List what is stopped now", responses=documented({200: StopsShape}))
async def list_now(caller: User) -> Response:
    return answer({"items": stops_now(caller)})


@admin.put(
    "/{what}",
    operation_id="setStop",
    summary="Stop starting jobs, or stop evicting them",
    responses=documented({200: StopShape}, 400, 403, *BODY, 422),
    openapi_extra=body_of(StopBody),
)
async def stop(what: What, request: Request, services: Given, caller: Admin) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    known = StopBody.model_fields
    faults = [FieldError(key, f"is unknown: the fields are {', '.join(known)}") for key in body if key not in known]
    now = datetime.now(UTC)
    until = lasting(body.get("duration"), "duration", now, LASTS, faults)
    why = body.get("why") or ""
    if not isinstance(why, str) or len(why) > 1000:
        faults.append(FieldError("why", "must be a text of at most 1000 characters"))
    if faults:
        raise Invalid(faults)
    wanted = Stop(what, until, caller.user, now, why)
    await services.store.stops.stop(wanted)
    return answer(stop_shape(wanted))


@admin.delete(
    "/{what}",
    status_code=204,
    operation_id="endStop",
    summary="End a stop",
    responses=documented({204: None}, 403, 404, 422),
)
async def resume(what: What, services: Given, caller: Admin) -> Response:
    if not await services.store.stops.resume(what, caller.user):
        raise Problem("NotFound", f"{what} is not stopped")
    return Response(status_code=204)
