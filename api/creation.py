"""Creating the objects of a submission: all or none.

Several objects are first tried on the API server without effect. Then they are created one after the other; when one is
refused, those created before are deleted again, each by its UID. A creation whose answer was lost is looked up: a mark
of this submission on the object tells whether it happened.

A request that may be repeated has the same mark in each attempt. By it an attempt finds what an earlier one, lost with
its process, had created, and goes on from there.
"""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from api.auth import Caller
from api.clusterrights import cluster_allows
from api.problems import Problem, from_kube
from api.services import Services
from api.shapes import from_object
from api.submission import Item, Object
from t9ksched.kube.errors import AlreadyExists, ApiError, NotFound
from t9ksched.kube.resources import Resource
from t9ksched.model.names import SUBMISSION_ANNOTATION, SUBMITTED_BY_ANNOTATION
from t9ksched.model.resources import is_card_resource
from t9ksched.model.timelimit import limit_seconds, shortest
from t9ksched.store import history
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.repeats import Attempt

log = structlog.get_logger(__name__)


async def try_out(services: Services, items: Sequence[Item]) -> list[Object]:
    """What the API server would make of the objects; nothing is created.

    Raises:
        Problem: it would refuse one of them.
    """
    tried = []
    for item in items:
        try:
            tried.append(await services.kube.create(item.resource, item.obj, item.workload.namespace, dry_run=True))
        except ApiError as error:
            raise from_kube(error, item.what, item.prefix) from error
    return tried


async def left_of(services: Services, items: Sequence[Item], attempt: Attempt | None) -> list[Object | None]:
    """What an earlier attempt at this request created, in the order of `items`; None for what is not there.

    Raises:
        Problem: the cluster does not answer.
    """
    if attempt is None or not attempt.resumed:
        return [None] * len(items)
    found: list[Object | None] = []
    for item in items:
        try:
            found.append(await _ours(services, item, attempt.mark))
        except ApiError as error:
            raise from_kube(error, item.what, item.prefix) from error
    return found


async def create(
    services: Services,
    caller: Caller,
    items: Sequence[Item],
    tell: Callable[[list[Object]], str],
    attempt: Attempt | None = None,
    left: Sequence[Object | None] = (),
) -> str:
    """Create the objects and record their acceptance; what `tell` makes of them, in the order of `items`.

    With an `attempt` that is stored as its answer (status 201), and what is `left` of an earlier one is not made again.

    Raises:
        Problem: something was refused or failed; nothing of this request is left, or the problem names what is.
    """
    mark = attempt.mark if attempt else uuid.uuid4().hex
    left = left or [None] * len(items)
    for item in items:
        notes = {SUBMITTED_BY_ANNOTATION: caller.user, SUBMISSION_ANNOTATION: mark}
        item.obj["metadata"]["annotations"] = {**(item.obj["metadata"].get("annotations") or {}), **notes}
    made: list[Object | None] = list(left)
    try:
        if len(items) > 1:
            await try_out(services, [item for item, obj in zip(items, left, strict=True) if obj is None])
        for place, item in enumerate(items):
            made[place] = made[place] or await _create_one(services, item, mark)
        whole = [obj for obj in made if obj is not None]
        told = tell(whole)
        await _record(services, caller, items, whole, attempt, told)
    except Problem as problem:
        raise await undone(services, items, made, problem) from problem
    except StoreError as error:
        lost = Problem("Unavailable", f"the submission could not be recorded: {error}")
        if attempt is not None and await _is_answered(services, attempt):
            return told
        raise await undone(services, items, made, lost) from error
    return told


async def _is_answered(services: Services, attempt: Attempt) -> bool:
    """Whether the answer was stored though the database did not say so; if not, it never will be.

    Raises:
        Problem: the database cannot be asked; what was created stays for a repeat, which finishes it.
    """
    try:
        return not await services.store.repeats.stop_answer(attempt, datetime.now(UTC))
    except StoreError as error:
        text = f"the objects were created, and it is not known whether the submission was recorded: {error}"
        remedy = "repeat the request with the same Idempotency-Key"
        unknown = Problem("Unavailable", text, remedy=remedy, headers={"Retry-After": "5"})
        unknown.half_done = True
        raise unknown from error


async def may_create(services: Services, caller: Caller, resource: Resource, namespace: str) -> None:
    """See that the user himself may create such objects in the namespace; administrators of the service may.

    Raises:
        Problem: the cluster says no.
    """
    if caller.is_admin:
        return
    if not await cluster_allows(services, caller, "create", resource, namespace):
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} may not create {resource} in the namespace {namespace!r}",
            remedy="use a namespace of yours, or ask its owner for the right",
        )


async def _create_one(services: Services, item: Item, mark: str) -> Object:
    namespace = item.workload.namespace
    try:
        return await services.kube.create(item.resource, item.obj, namespace)
    except ApiError as error:
        if error.unknown or isinstance(error, AlreadyExists):
            try:
                found = await _ours(services, item, mark)
            except ApiError:
                text = f"the cluster stopped answering: {item.what} may have been created or not; look before repeating"
                unknown = Problem("Unavailable", text)
                unknown.half_done = True
                raise unknown from error
            if found is not None:
                return found
        raise from_kube(error, item.what, item.prefix) from error


async def _ours(services: Services, item: Item, mark: str) -> Object | None:
    """The object of that name if this submission created it and nobody is deleting it."""
    try:
        found = await services.kube.get(item.resource, item.workload.name, item.workload.namespace)
    except NotFound:
        return None
    meta = found["metadata"]
    ours = (meta.get("annotations") or {}).get(SUBMISSION_ANNOTATION) == mark
    return found if ours and not meta.get("deletionTimestamp") else None


async def undone(services: Services, items: Sequence[Item], made: Sequence[Object | None], problem: Problem) -> Problem:
    """Delete what was created; the problem, telling what could not be deleted."""
    left = []
    for item, obj in reversed(list(zip(items, made, strict=True))):
        if obj is None:
            continue
        meta = obj["metadata"]
        try:
            await services.kube.delete(
                item.resource, meta["name"], meta["namespace"], uid=meta["uid"], propagation="Background"
            )
        except NotFound:
            continue
        except ApiError as error:
            log.warning("a half-made submission could not be undone", what=item.what, error=str(error))
            left.append(item.what)
    if left:
        problem.half_done = True
        problem.detail += f"; {', '.join(left)} was created before and could not be deleted again: delete it yourself"
    return problem


async def _record(
    services: Services,
    caller: Caller,
    items: Sequence[Item],
    made: Sequence[Object],
    attempt: Attempt | None,
    told: str,
) -> None:
    accepted, jobs, events = [], [], []
    for item, obj in zip(items, made, strict=True):
        acceptance = _acceptance(item, obj, caller)
        about: dict[str, Any] = {
            "at": acceptance.accepted_at,
            "kind": acceptance.kind,
            "namespace": acceptance.namespace,
            "name": acceptance.name,
            "uid": acceptance.uid,
            "queue": acceptance.queue,
            "actor": caller.user,
        }
        events.append(Event(event=history.SUBMITTED, **about))
        if not item.ours:
            continue
        accepted.append(acceptance)
        if item.is_job:
            shape = from_object(obj, item.workload, acceptance, [member.workload for member in item.members])
            events.append(Event(event=history.ACCEPTED, detail={"gpus": shape["gpus"]}, **about))
            row = {key: about[key] for key in ("kind", "namespace", "name", "uid", "queue")}
            jobs.append(JobRecord(**row, submitted_at=acceptance.accepted_at, shape=shape))
    answer = [services.store.repeats.answering(attempt, 201, told)] if attempt else []
    await services.store.submissions.put(accepted, jobs, events, answer)


def _acceptance(item: Item, obj: Object, caller: Caller) -> Acceptance:
    meta, payer = obj["metadata"], item.group or item
    totals = item.totals
    limit = shortest(map(limit_seconds, item.limits))
    return Acceptance(
        uid=meta["uid"],
        kind=item.workload.kind,
        namespace=meta["namespace"],
        name=meta["name"],
        group_name=item.workload.group or (meta["name"] if item.resource.kind == "PodGroup" else None),
        submitter=caller.user,
        groups=sorted(caller.groups),
        permitted_by=item.permitted_by,
        queue=payer.workload.queue or None,
        priority=payer.workload.priority,
        time_limit=None if limit is None else timedelta(seconds=limit),
        cards={name: amount for name, amount in totals.items() if is_card_resource(name)},
        requests={name: amount for name, amount in totals.items() if not is_card_resource(name)},
        replicas=sum(part.workload.replicas for part in item.members or (item,)),
    )
