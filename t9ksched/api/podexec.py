"""Commands in pods of jobs, where the service runs them at all (`T9KSCHED_REST_EXEC`, `deploy/overlays/exec`): in pods
of jobs on record outside system namespaces, for users whom the cluster lets do it, which is asked at the start and each
minute. Each command is on record, by its program alone: its words may be secret.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from t9ksched.api.auth import Caller
from t9ksched.api.http.conversation import Left, Lines
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.http.streams import HEADERS
from t9ksched.api.jobpods import JobPod
from t9ksched.api.podlogs import check_right, until_refused
from t9ksched.api.services import Services
from t9ksched.kube.errors import ApiError, BadRequest
from t9ksched.kube.port import STDERR, ExecPort, Executing
from t9ksched.model.names import is_system_namespace
from t9ksched.store import history
from t9ksched.store.history import Event

MEDIA: Final = "text/plain"
_RIGHT: Final = ("exec", "create")
_SHOWN: Final = 100
_ALIVE_SECONDS: Final = 15.0
"""How often a command that writes nothing is said to run."""
_FAREWELL_SECONDS: Final = 1.0
_LARGEST: Final = 1 << 16
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
    talk: "Talk | None" = None,
) -> "ExecResponse":
    """A command that runs; with `talk` what is typed comes while it does.

    Raises:
        Problem: it may not, or cannot.
    """
    namespace = str(job_pod.pod["metadata"]["namespace"])
    await check_right(services, caller, *_RIGHT, namespace, job_pod.name)
    services.exec_streams.check(caller.user)
    if not isinstance(services.kube, ExecPort):
        raise Problem("Unavailable", "this service cannot run commands")
    query = [("command", word) for word in command]
    terminal = talk is not None and talk.terminal
    query += [("container", container), ("stdout", "true"), *([("tty", "true")] if terminal else [("stderr", "true")])]
    query += [("stdin", "true")] if stdin or talk is not None else []
    await _record(services, caller, job, job_pod, command, container)
    try:
        running = await services.kube.exec(namespace, job_pod.name, query)
    except BadRequest as error:
        raise Problem("Conflict", error.message) from error
    except ApiError as error:
        raise from_kube(error, f"a command in pod {job_pod.name}") from error
    services.exec_streams.join(caller.user, running)
    if talk is not None:
        return Conversation(services, caller, job_pod, running, talk)
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
        self._fault = ""

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
            async for channel, data in _living(self._running):
                if not channel:
                    yield b"\n"
                    continue
                name = "stderr" if channel == STDERR else "stdout"
                yield _line({"stream": name, "data": base64.b64encode(data).decode()})
            yield _line({"exitCode": self._running.exit_code})
        except ApiError as error:
            yield _line({"error": self._fault or (_LOST if self._refused else error.message)})
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


@dataclass(frozen=True)
class Talk:
    """What a client says while its command runs. `size` is that of its terminal, columns and rows."""

    lines: Lines
    terminal: bool
    size: tuple[int, int] | None


class Conversation(ExecResponse):
    """The same, while the client goes on with its body: lines with `stdin` in base64, `columns` and `rows`, or `end`
    for the end of standard input. A client that leaves ends the command.
    """

    def __init__(self, services: Services, caller: Caller, job_pod: JobPod, running: Executing, talk: Talk) -> None:
        super().__init__(services, caller, job_pod, running, b"")
        self._talk = talk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with aclosing(self._told()) as parts:
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):  # a client that still sends would lose the last line
                    await self._talk.lines.end()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._services.exec_streams.leave(self._caller.user, self._running)
            await self._running.aclose()

    async def _type(self) -> None:
        if self._talk.terminal and self._talk.size is not None:
            await self._running.resize(*self._talk.size)
        try:
            while (told := await self._talk.lines.next()) is not None:
                await self._take(told)
            await self._talk.lines.gone()
        except Left:
            pass
        except (Problem, ValueError) as error:
            self._fault = error.detail if isinstance(error, Problem) else str(error)
        await self._running.aclose()

    async def _take(self, told: Mapping[str, Any]) -> None:
        if unknown := next((key for key in told if key not in ("stdin", "end", "columns", "rows")), None):
            raise ValueError(f"{unknown[:100]!r} is unknown: a line has stdin, end, or columns and rows")
        if "stdin" in told:
            try:
                data = base64.b64decode(told["stdin"], validate=True)
            except (ValueError, TypeError):
                raise ValueError("stdin is not written in base64") from None
            await self._running.write(data)
        if told.get("end"):
            await self._running.end_input()
        if self._talk.terminal and (size := size_of(told)) is not None:
            await self._running.resize(*size)


def size_of(told: Mapping[str, Any]) -> tuple[int, int] | None:
    """The columns and rows of a terminal; None where they are not said. Raises ValueError where they are none."""
    size = told.get("columns"), told.get("rows")
    if size == (None, None):
        return None
    for one in size:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 < one < _LARGEST:
            raise ValueError(f"columns and rows are whole numbers from 1 to {_LARGEST - 1}")
    return int(size[0] or 0), int(size[1] or 0)


async def _living(running: Executing) -> AsyncGenerator[tuple[int, bytes], None]:
    """What a command writes; channel 0 from time to time, where it writes nothing."""
    parts = aiter(running)
    pending: asyncio.Future[tuple[int, bytes]] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(parts))
            done, _ = await asyncio.wait({pending}, timeout=_ALIVE_SECONDS)
            if not done:
                yield 0, b""
                continue
            try:
                part = pending.result()
            except StopAsyncIteration:
                return
            pending = None
            yield part
    finally:
        if pending is not None:
            pending.cancel()


def _line(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told) + b"\n"
