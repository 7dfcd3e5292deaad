"""`/apis/v1/workloads/…/pods` and `…/log`: the pods of a job, and what they have written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

from api.auth import Caller, User, guarded
from api.http.middleware import HEAD
from api.http.parameters import moment_text
from api.http.problems import Problem, invalid
from api.http.responses import answer, documented
from api.jobpods import JobPod, pods_of
from api.podlogs import MEDIA, opened
from api.routers.jobactions import seen
from api.schemas import JobPods
from api.services import Given, Services
from t9ksched.model.errors import FieldError

router = guarded("/apis/v1/workloads/{namespace}/{kind}/{name}", "workloads")
_MOST: Final = 2**53

_RIGHTS: Final = (
    "The caller must see the job, and the cluster must let the caller `get` `pods/log`: it is asked by a"
    " SubjectAccessReview at the start, and each minute while the log is followed. A pod none of whose containers has"
    " run is answered 409 with the reason, such as an image that cannot be pulled. 64 logs of a user may be open at"
    " a time."
)
_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The log, as it was written", "content": {MEDIA: {"schema": {"type": "string"}}}}
}


@dataclass(frozen=True)
class LogQuery:
    """Which part of a log is asked for."""

    container: str
    flags: Mapping[str, bool]
    values: Mapping[str, int | str | None]

    def of(self, pod: JobPod) -> dict[str, str]:
        """The parameters as the cluster takes them.

        Raises:
            Problem: the pod has no such container.
        """
        if self.container and self.container not in pod.containers:
            text = f"{self.container!r} is no container of pod {pod.name}: these are {', '.join(pod.containers)}"
            raise invalid([FieldError("query.container", text)])
        asked = {"container": self.container or pod.containers[0]}
        asked |= {name: str(value) for name, value in self.values.items() if value is not None}
        return asked | {name: "true" for name, wanted in self.flags.items() if wanted}


async def _asked(
    container: Annotated[str, Query(description="Which one; absent: the pod's main container", max_length=63)] = "",
    follow: Annotated[bool, Query(description="Go on until the container ends")] = False,
    previous: Annotated[bool, Query(description="Of the run before its last restart")] = False,
    timestamps: Annotated[bool, Query(description="Begin each line with its time")] = False,
    tail: Annotated[int | None, Query(alias="tailLines", ge=0, lt=_MOST, description="So many last lines")] = None,
    seconds: Annotated[
        int | None, Query(alias="sinceSeconds", ge=1, lt=_MOST, description="What was written in so many seconds")
    ] = None,
    moment: Annotated[
        str | None, Query(alias="sinceTime", max_length=40, description="What was written from then on (RFC 3339)")
    ] = None,
    limit: Annotated[int | None, Query(alias="limitBytes", ge=1, lt=_MOST, description="At most so many bytes")] = None,
) -> LogQuery:
    if seconds is not None and moment is not None:
        raise invalid([FieldError("query.sinceTime", "goes not with sinceSeconds")])
    since = moment_text(moment, "query.sinceTime")
    values = {"tailLines": tail, "sinceSeconds": seconds, "sinceTime": since, "limitBytes": limit}
    return LogQuery(container, {"follow": follow, "previous": previous, "timestamps": timestamps}, values)


Asked = Annotated[LogQuery, Depends(_asked)]


@router.get(
    "/pods",
    operation_id="listJobPods",
    summary="The pods of a job, and what keeps each from running",
    responses=documented({200: JobPods}, 404, 503),
)
async def pods(namespace: str, kind: str, name: str, services: Given, caller: User) -> Response:
    _, job = await seen(services, caller, namespace, kind, name)
    return answer({"items": [one.to_json() for one in await pods_of(services, job)]})


@router.get(
    "/pods/{pod}/log",
    operation_id="readPodLog",
    summary="What a container of a pod has written",
    description=_RIGHTS,
    responses=documented({}, 403, 404, 409, 422, 503) | _TEXT,
    response_class=Response,
)
async def pod_log(
    request: Request,
    namespace: str,
    kind: str,
    name: str,
    pod: str,
    services: Given,
    caller: User,
    asked: Asked,
) -> Response:
    found, title = await _pods(services, caller, namespace, kind, name)
    chosen = next((one for one in found if one.name == pod), None)
    if chosen is None:
        raise Problem("NotFound", f"{title} has no pod {pod!r}")
    return await _log(request, services, caller, chosen, asked)


@router.get(
    "/log",
    operation_id="readJobLog",
    summary="What a pod of a job has written",
    description="By the rank of the pod; without one the launcher's, else that of rank 0. " + _RIGHTS,
    responses=documented({}, 403, 404, 409, 422, 503) | _TEXT,
    response_class=Response,
)
async def job_log(
    request: Request,
    namespace: str,
    kind: str,
    name: str,
    services: Given,
    caller: User,
    asked: Asked,
    rank: Annotated[int | None, Query(ge=0, lt=_MOST, description="Which pod")] = None,
) -> Response:
    found, title = await _pods(services, caller, namespace, kind, name)
    chosen = next(iter(found), None) if rank is None else next((one for one in found if one.rank == rank), None)
    if chosen is None:
        there = [one.rank for one in found if one.rank is not None]
        if not there or rank is None:
            raise _no_pods(title)
        raise invalid([FieldError("query.rank", f"{rank} is none: {title} has the ranks 0 to {max(there)}")])
    return await _log(request, services, caller, chosen, asked)


async def _pods(services: Services, caller: Caller, namespace: str, kind: str, name: str) -> tuple[list[JobPod], str]:
    _, job = await seen(services, caller, namespace, kind, name)
    return await pods_of(services, job), f"{job['kind']}/{job['name']}"


def _no_pods(title: str) -> Problem:
    text = f"{title} has no pod: none was made yet, or those there were are deleted, and their logs with them"
    return Problem("Conflict", text, remedy="ask for the job's explanation")


async def _log(request: Request, services: Services, caller: Caller, chosen: JobPod, asked: LogQuery) -> Response:
    query = asked.of(chosen)
    if request.scope.get(HEAD):
        query = {"container": query["container"], "limitBytes": "1"}
    return await opened(services, caller, chosen, query)
