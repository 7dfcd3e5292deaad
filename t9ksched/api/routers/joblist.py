"""`GET /apis/v1/workloads`: the jobs that a caller may see, in pages, or a stream of what happens to them."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from t9ksched.admission.oddities import nearest
from t9ksched.api.auth import Caller, User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.events.known import Wanted
from t9ksched.api.events.stream import Watched, listed_or_streamed
from t9ksched.api.http.paging import Order, Paged
from t9ksched.api.http.parameters import among, one_of, span
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import documented
from t9ksched.api.http.selectors import Labels
from t9ksched.api.joblist import JobQuery, listed
from t9ksched.api.queueshapes import stops_now
from t9ksched.api.routers.workloads import marked
from t9ksched.api.schemas.jobs import PHASES, Jobs
from t9ksched.api.services import Given, Services
from t9ksched.api.slices import answer_items
from t9ksched.api.submission.judging import usable_names
from t9ksched.api.submission.kinds import kind_named
from t9ksched.model.errors import FieldError
from t9ksched.store.jobs import Matching

router = guarded("/apis/v1/workloads", "workloads")


@router.get(
    "",
    operation_id="listJobs",
    summary="List the jobs you may see",
    description="In the order of their submission. Filters that are given several times let each of their values"
    " through; all filters must. With `watch` a stream of what happens to these jobs, as `/apis/v1/events` tells it.",
    responses=documented({200: Jobs}, 422, 503) | listed_or_streamed(Jobs),
)
async def list_jobs(
    services: Given,
    caller: User,
    watched: Watched,
    paging: Paged,
    labels: Labels,
    namespace: str | None = None,
    queue: Annotated[list[str] | None, Query(max_length=20)] = None,
    phase: Annotated[list[str] | None, among("In which they are", PHASES)] = None,
    user: Annotated[list[str] | None, Query(description="Who submitted them", max_length=20)] = None,
    kind: Annotated[list[str] | None, Query(description="Such as PyTorchTrainingJob or pj", max_length=20)] = None,
    since: Annotated[datetime | None, Query(description="Submitted then or later; UTC unless it says so")] = None,
    until: Annotated[datetime | None, Query(description="Submitted before; UTC unless it says otherwise")] = None,
    deleted: Annotated[bool, Query(description="Also those whose objects are gone")] = False,
    order: Order = "oldest",
) -> Response:
    phases = tuple(one_of(PHASES, one, "query.phase", "phase") for one in phase or ())
    begin, end = span(since, until)
    kinds = tuple(kind_named(one) for one in kind or ())
    if watched:
        wanted = Wanted(("job",), (), kinds, queue or (), user or (), namespace)
        return await watched.stream(services, caller, wanted, "namespace", "queue", "user", "kind")
    matching = Matching(namespace, tuple(queue or ()), phases, kinds, tuple(user or ()), begin, end)
    asked = JobQuery(matching, labels, deleted, order == "newest")
    access = await JobAccess.of(services, caller)
    jobs, token, headers = await listed(services, access, asked, paging)
    for name in queue or ():
        if not jobs and name not in caller.decided.queues:
            raise await _no_queue(services, caller, name)
    return await answer_items(marked(caller, jobs), {"continue": token, "stopped": stops_now(caller)}, headers)


async def _no_queue(services: Services, caller: Caller, name: str) -> Problem:
    """The problem of a list of jobs of a queue that is not there."""
    near = nearest(name, await usable_names(services, caller))
    message = f"there is no queue {name!r}" + (f"; did you mean {near!r}?" if near else "")
    remedy = "GET /apis/v1/queues lists those that you may use"
    return Problem("QueueNotFound", message, [FieldError("queue", message)], status=422, remedy=remedy)
