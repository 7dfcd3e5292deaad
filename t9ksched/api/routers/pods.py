"""`/apis/v1/workloads/…/pods` and `…/log`: the pods of a job, and what they have written."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

from t9ksched.api.auth import Actor, Caller, User, guarded
from t9ksched.api.http.bodies import BODY_SECONDS
from t9ksched.api.http.conversation import NDJSON, Left, Lines
from t9ksched.api.http.middleware import HEAD
from t9ksched.api.http.parameters import moment_text
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.http.responses import BODY, answer, body_of, documented
from t9ksched.api.jobpods import JobPod, pods_of
from t9ksched.api.podexec import MEDIA as EXEC_MEDIA
from t9ksched.api.podexec import Talk, check_place, size_of, started
from t9ksched.api.podlogs import MEDIA, opened
from t9ksched.api.routers.jobactions import seen
from t9ksched.api.schemas.jobs import ExecBody, JobPods
from t9ksched.api.services import Given, Services
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


_OUTPUT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "What the command writes, a line of JSON each, and last how it ended",
        "content": {EXEC_MEDIA: {"schema": {"type": "string"}, "example": '{"exitCode":0}\n'}},
    }
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
    return await _log(request, services, caller, _of_rank(found, rank, title), asked)


@router.post(
    "/exec",
    operation_id="execInJob",
    summary="Run a command in a pod of a job",
    description="Only where the administrator has turned it on (`deploy/overlays/exec`), in pods of jobs on record"
    " outside system namespaces, and if the cluster lets the caller `create` `pods/exec`: it is asked at the start and"
    " each minute. Every command is audited. The answer has a line of JSON (`ExecPart`) for each part of output,"
    " as it comes, and last how the command ended; an empty line says that it still runs. With the content type"
    " `application/x-ndjson` the body is a conversation, which goes on while the command runs: its first line is an"
    " object with `command`, `container` and, for a terminal, `terminal`, `columns` and `rows`; each further line has"
    " `stdin` in base64, `end` for the end of standard input, or new `columns` and `rows`. A proxy in between must not"
    " hold bodies back. A client that leaves ends the command.",
    responses=documented({}, 403, 404, 409, *BODY, 422, 503) | _OUTPUT,
    response_class=Response,
    openapi_extra=body_of(ExecBody),
)
async def run_command(
    request: Request,
    namespace: str,
    kind: str,
    name: str,
    services: Given,
    caller: Actor,
    rank: Annotated[int | None, Query(ge=0, lt=_MOST, description="In which pod; absent: the first")] = None,
) -> Response:
    lines = Lines(request.receive) if _talks(request) else None
    body = await services.bodies.mapping(request, caller.user) if lines is None else await _first(lines)
    command, container, stdin = _command(body, talks=lines is not None)
    talk = None if lines is None else _talk(lines, body)
    _, job = await seen(services, caller, namespace, kind, name)
    await check_place(services, job)
    title = f"{job['kind']}/{job['name']}"
    chosen = _of_rank(await pods_of(services, job), rank, title)
    asked = LogQuery(container, {}, {}).of(chosen)
    return await started(services, caller, job, chosen, command, asked["container"], stdin, talk)


def _talks(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == NDJSON


async def _first(lines: Lines) -> dict[str, Any]:
    """The first line of a conversation, which says what to run.

    Raises:
        Problem: there is none.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            told = await lines.next()
    except TimeoutError:
        detail = f"the first line did not arrive within {BODY_SECONDS:g} seconds"
        raise Problem("Malformed", detail, status=408, headers={"Connection": "close"}) from None
    except Left:
        raise Problem("Malformed", "the body did not arrive", headers={"Connection": "close"}) from None
    if told is None:
        raise Problem("Malformed", "the body has no line that says what to run")
    return told


def _talk(lines: Lines, body: Mapping[str, Any]) -> Talk:
    terminal = body.get("terminal", False)
    if not isinstance(terminal, bool):
        raise invalid([FieldError("terminal", "is neither true nor false")])
    try:
        return Talk(lines, terminal, size_of(body))
    except ValueError as error:
        raise invalid([FieldError("columns", str(error))]) from None


def _command(body: Mapping[str, Any], *, talks: bool) -> tuple[list[str], str, str]:
    """The words, the container and the input that a body names.

    Raises:
        Problem: it names none, or something else.
    """
    known = ("command", "container", *(("terminal", "columns", "rows") if talks else ("stdin",)))
    faults = [
        FieldError(key, f"is unknown: the fields are {', '.join(known[:-1])} and {known[-1]}")
        for key in body
        if key not in known
    ]
    command, container, stdin = body.get("command"), body.get("container", ""), body.get("stdin", "")
    if (
        not isinstance(command, list)
        or not command
        or len(command) > 1000
        or not all(isinstance(word, str) for word in command)
    ):
        faults.append(FieldError("command", "is no list of words, the program first"))
    faults += [
        FieldError(key, "is no text")
        for key, value in (("container", container), ("stdin", stdin))
        if not isinstance(value, str)
    ]
    if faults:
        raise invalid(faults)
    return list(command or ()), str(container), str(stdin)


def _of_rank(found: list[JobPod], rank: int | None, title: str) -> JobPod:
    """The pod of that rank, without one the first.

    Raises:
        Problem: there is none.
    """
    chosen = next(iter(found), None) if rank is None else next((one for one in found if one.rank == rank), None)
    if chosen is not None:
        return chosen
    there = [one.rank for one in found if one.rank is not None]
    if not there or rank is None:
        raise _no_pods(title)
    raise invalid([FieldError("query.rank", f"{rank} is none: {title} has the ranks 0 to {max(there)}")])


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
