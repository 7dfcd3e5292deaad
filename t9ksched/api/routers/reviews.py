"""`/apis/v1/access-reviews`: whether a user may use a queue, and by which rule. Only the queue's managers may ask about
others.
"""

from fastapi import Request as HttpRequest
from starlette.responses import Response

from t9ksched.admission import Request, judge
from t9ksched.admission.identity import Identity
from t9ksched.admission.judge import ENTRY
from t9ksched.api.auth import User, guarded
from t9ksched.api.authorization import may_caller_use, may_identity_use, place_of
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, answer, body_of, documented
from t9ksched.api.schemas.queues import AccessAnswer, AccessQuestion
from t9ksched.api.services import Given
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.queue import MAX_PRIORITY

router = guarded("/apis/v1/access-reviews", "queues")


@router.post(
    "",
    operation_id="reviewAccess",
    summary="May you (or, for its managers, another user) use a queue?",
    responses=documented({200: AccessAnswer}, 400, 403, 404, *BODY, 422),
    openapi_extra=body_of(AccessQuestion),
)
async def review(request: HttpRequest, services: Given, caller: User) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    _check(body)
    name, user, space = body["queue"], body.get("user") or caller.user, body.get("namespace")
    other = user != caller.user or body.get("groups") is not None
    if other and not caller.rules(name):
        detail = f"only a manager of the queue {name!r} may ask about others"
        raise Problem("Forbidden", detail, remedy="leave out user and groups to ask about yourself")
    record = caller.decided.queues.get(name)
    if record is None:
        raise Problem("QueueNotFound", f"there is no queue {name!r}")
    place = await place_of(services, caller, space)
    if other:
        groups = frozenset(body["groups"]) if body.get("groups") else caller.groups_of(user)
        access = may_identity_use(record, place, Identity(user, groups))
    else:
        access = may_caller_use(caller, record, place)
    asked = Request(f"User/{user}", name, "queue", namespace=space or "", access=access, priority=body.get("priority"))
    verdict = judge(asked, ENTRY)
    return answer(
        {
            "allowed": verdict.allowed,
            "queue": name,
            "namespace": space,
            "user": user,
            "rule": access.rule or None,
            "maxPriority": access.max_priority if access.allowed else None,
            "code": verdict.code or None,
            "message": verdict.message or None,
            "remedy": verdict.remedy or None,
        }
    )


def _check(body: dict[str, object]) -> None:
    known = AccessQuestion.model_fields
    faults = [FieldError(key, f"is unknown: the fields are {', '.join(known)}") for key in body if key not in known]
    if not isinstance(body.get("queue"), str) or not body["queue"]:
        faults.append(FieldError("queue", "is missing: name the queue"))
    for key in ("namespace", "user"):
        if not isinstance(body.get(key, ""), str | None):
            faults.append(FieldError(key, "must be a text"))
    groups = body.get("groups")
    if groups is not None and not (isinstance(groups, list) and all(isinstance(name, str) for name in groups)):
        faults.append(FieldError("groups", "must be a list of names"))
    priority = body.get("priority")
    if priority is not None and (
        isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY
    ):
        faults.append(FieldError("priority", f"must be a whole number from 0 to {MAX_PRIORITY}"))
    if faults:
        raise Invalid(faults)
