"""Logs of pods for users whom the cluster lets read them: asked before the first byte and again each minute.

The service reads the log with its own right; the user's is asked by a SubjectAccessReview. Streams are counted, because
each holds a connection to the API server.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from t9ksched.api.auth import Caller, caller_of_token
from t9ksched.api.clusterrights import cluster_allows
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.http.streams import HEADERS
from t9ksched.api.jobpods import JobPod
from t9ksched.api.services import Services
from t9ksched.kube.errors import ApiError, BadRequest
from t9ksched.kube.port import LogPort, Parts
from t9ksched.kube.resources import PODS

log = structlog.get_logger("api")
MEDIA: Final = "text/plain"
REVIEW_SECONDS: Final = 60.0


async def check_right(
    services: Services, caller: Caller, subresource: str, verb: str, namespace: str, pod: str
) -> None:
    """Check that the cluster lets the caller do this with a pod.

    Raises:
        Problem: it does not.
    """
    try:
        allowed = await cluster_allows(services, caller, verb, PODS, namespace, pod, subresource)
    except ApiError as error:
        raise from_kube(error, f"pod {pod}") from error
    if not allowed:
        raise Problem(
            "Forbidden",
            f"the cluster does not let {caller.user!r} {verb} pods/{subresource} in the namespace {namespace!r}",
            remedy=f"an administrator of the cluster binds {caller.user!r} to a role with `{verb}` on"
            f" `pods/{subresource}`, such as `{'view' if subresource == 'log' else 'edit'}`",
        )


async def still_allowed(services: Services, caller: Caller, subresource: str, verb: str, job_pod: JobPod) -> bool:
    """Whether the caller's token and the right to that pod still count; True while nobody answers that."""
    try:
        decided = await services.store.read_cache.now()
        now = caller_of_token(decided, caller.digest, datetime.now(UTC))
        if now is None or (now.user, now.role) != (caller.user, caller.role):
            return False
        namespace = str(job_pod.pod["metadata"]["namespace"])
        return await cluster_allows(services, now, verb, PODS, namespace, job_pod.name, subresource)
    except Exception as error:  # of the database or of the cluster: it is asked again a minute later
        log.warning("a right cannot be reviewed", pod=job_pod.name, error=str(error))
        return True


async def until_refused(
    services: Services, caller: Caller, subresource: str, verb: str, job_pod: JobPod, end: Callable[[], Awaitable[None]]
) -> None:
    """Review the caller's right each minute, and end what relies on it once it is gone."""
    while True:
        await asyncio.sleep(REVIEW_SECONDS)
        if not await still_allowed(services, caller, subresource, verb, job_pod):
            await end()
            return


class LogResponse(StreamingResponse):
    """The log of one container as it comes."""

    def __init__(self, services: Services, caller: Caller, job_pod: JobPod, parts: Parts, *, follow: bool) -> None:
        super().__init__(self._told(), headers=HEADERS, media_type=MEDIA)
        self._services = services
        self._caller = caller
        self._pod = job_pod
        self._parts = parts
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = self._services.log_streams
        try:
            await super().__call__(scope, receive, send)
        finally:
            streams.leave(self._caller.user, self._parts)
            await self._parts.aclose()

    async def _told(self) -> AsyncGenerator[bytes, None]:
        """The parts, until they end or the caller may not read them any more."""
        review = asyncio.create_task(
            until_refused(self._services, self._caller, "log", "get", self._pod, self._parts.aclose)
        )
        try:
            async for part in self._parts:
                yield part
        except ApiError as error:
            if not self._follow:
                raise  # a log that is cut must not look whole; who follows it looks again
            log.info("a log broke off", pod=self._pod.name, error=str(error))
        finally:
            review.cancel()


async def opened(services: Services, caller: Caller, job_pod: JobPod, query: Mapping[str, str]) -> LogResponse:
    """The log of a pod that the caller may see.

    Raises:
        Problem: the caller may not read it, or there is none.
    """
    namespace = str(job_pod.pod["metadata"]["namespace"])
    await check_right(services, caller, "log", "get", namespace, job_pod.name)
    if not job_pod.has_written:
        raise not_started(job_pod)
    if not isinstance(services.kube, LogPort):
        raise Problem("Unavailable", "this service cannot read logs")
    services.log_streams.check(caller.user)
    try:
        parts = await services.kube.log(namespace, job_pod.name, query)
    except BadRequest as error:
        raise Problem("Conflict", error.message) from error
    except ApiError as error:
        raise from_kube(error, f"the log of pod {job_pod.name}") from error
    services.log_streams.join(caller.user, parts)
    return LogResponse(services, caller, job_pod, parts, follow=query.get("follow") == "true")


def not_started(job_pod: JobPod) -> Problem:
    """The problem of a pod without a log: none of its containers has run."""
    why: dict[str, Any] | None = job_pod.reason
    if why is not None:
        text = f"{why['code']}: {why['message']}"
        return Problem("Conflict", f"pod {job_pod.name} has no log, because none of its containers has run: {text}")
    state = "waits for a node" if not job_pod.pod["spec"].get("nodeName") else "is being started"
    return Problem(
        "Conflict",
        f"pod {job_pod.name} has no log yet: it {state}",
        remedy="ask for the job's explanation, or wait a moment",
    )
