"""Commands in pods of jobs, where the service runs them at all (`T9KSCHED_REST_EXEC`, `deploy/overlays/exec`): in pods
of jobs on record outside system namespaces, for users whom the cluster lets do it, which is asked at the start and each
minute. Each command is on record, by its program alone: its words may be secret.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.auth import Caller
from api.http.problems import Problem, from_kube
from api.http.streams import HEADERS
from api.jobpods import JobPod
from api.podlogs import check_right, until_refused
from api.services import Services
from t9ksched.kube.errors import ApiError, BadRequest
from t9ksched.kube.port import STDERR, ExecPort, Executing
from t9ksched.model.names import is_system_namespace
from t9ksched.store import history
from t9ksched.store.history import Event

MEDIA: Final = "text/plain"
_RIGHT: Final = ("exec", "create")
_SHOWN: Final = 100
_LOST: Final = "the right to run commands here was taken away"


async def check_place(services: Services, job: Mapping[str, Any]) -> None:
    """Check that commands are run here at all, and in pods of this job.

    Raises:
        Problem: they are not.
    """
    if not services.exec_allowed:
        remedy = "run it with your own rights in the cluster: t9ksched exec --kubeconfig FILE, or kubectl exec"
        raise Problem("Forbidden", "this service runs no commands in pods", remedy=remedy)
    title = f"{job['kind']}/{job['name']}"
    if is_system_namespace(str(job["namespace"])):
        raise Problem("Forbidden", f"{title} is in a system namespace: no commands are run there")
    if await services.store.acceptances.get(str(job["uid"])) is None:
        raise Problem("Forbidden", f"{title} is not on record here: commands are run in pods of recorded jobs alone")


async def started(
    services: Services,
    caller: Caller,
    job: Mapping[str, Any],
    job_pod: JobPod,
    command: Sequence[str],
    container: str,
    stdin: str,
) -> "ExecResponse":
    """A command that runs.

    Raises:
        Problem: it may not, or cannot.
    """
    namespace = str(job_pod.pod["metadata"]["namespace"])
    await check_right(services, caller, *_RIGHT, namespace, job_pod.name)
    services.exec_streams.check(caller.user)
    if not isinstance(services.kube, ExecPort):
        raise Problem("Unavailable", "this service cannot run commands")
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true"), *([("stdin", "true")] if stdin else [])]
    await _record(services, caller, job, job_pod, command, container)
    try:
        running = await services.kube.exec(namespace, job_pod.name, query)
    except BadRequest as error:
        raise Problem("Conflict", error.message) from error
    except ApiError as error:
        raise from_kube(error, f"a command in pod {job_pod.name}") from error
    services.exec_streams.join(caller.user, running)
    return ExecResponse(services, caller, job_pod, running, stdin.encode())


async def _record(
    services: Services, caller: Caller, job: Mapping[str, Any], job_pod: JobPod, command: Sequence[str], container: str
) -> None:
    detail = {"pod": job_pod.name, "container": container, "program": command[0][:_SHOWN], "words": len(command)}
    await services.store.history.append(
        Event(
            event=history.JOB_EXEC,
            kind=job["kind"],
            namespace=job["namespace"],
            name=job["name"],
            uid=job["uid"],
            queue=job.get("queue"),
            actor=caller.user,
            detail=detail,
        )
    )


class ExecResponse(StreamingResponse):
    """What a command writes, a JSON object a line; the last one says how it ended."""

    def __init__(self, services: Services, caller: Caller, job_pod: JobPod, running: Executing, stdin: bytes) -> None:
        super().__init__(self._told(), headers=HEADERS, media_type=MEDIA)
        self._services = services
        self._caller = caller
        self._pod = job_pod
        self._running = running
        self._stdin = stdin
        self._refused = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._services.exec_streams.leave(self._caller.user, self._running)
            await self._running.aclose()

    async def _told(self) -> AsyncGenerator[bytes, None]:
        review = asyncio.create_task(until_refused(self._services, self._caller, *_RIGHT, self._pod, self._end))
        typing = asyncio.create_task(self._type())
        try:
            async for channel, data in self._running:
                name = "stderr" if channel == STDERR else "stdout"
                yield _line({"stream": name, "data": base64.b64encode(data).decode()})
            yield _line({"exitCode": self._running.exit_code})
        except ApiError as error:
            yield _line({"error": _LOST if self._refused else error.message})
        finally:
            for task in (review, typing):
                task.cancel()

    async def _type(self) -> None:
        if self._stdin:
            await self._running.write(self._stdin)
            await self._running.end_input()

    async def _end(self) -> None:
        self._refused = True
        await self._running.aclose()


def _line(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told) + b"\n"
