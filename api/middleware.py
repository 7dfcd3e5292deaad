"""Around every request: an id, one line in the log, and an answer even when something unforeseen goes wrong.

HEAD is answered wherever GET is, with the headers of that answer and no body.

Query strings, headers and bodies never reach the log: they may hold secrets.
"""

import time
import uuid

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Problem

log = structlog.get_logger("api")

_QUIET = ("/healthz", "/readyz", "/metrics")


class Envelope:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, started, status = uuid.uuid4().hex[:12], time.monotonic(), 0
        method = scope["method"]
        if method == "HEAD":
            scope = {**scope, "method": "GET"}

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            elif method == "HEAD" and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
                    problem = Problem("Malformed", "the address holds a NUL character")
                    await problem.response()(scope, receive, watched)
                else:
                    await self._app(scope, receive, watched)
            except Exception:
                log.exception("request failed", method=method, path=scope["path"])
                if status:
                    raise  # the answer has begun; all that is left is to break the connection
                detail = f"the service made a mistake; its log tells more under {request_id}"
                await Problem("Internal", detail, id=request_id).response()(scope, receive, watched)
            finally:
                report = log.debug if scope["path"] in _QUIET else log.info
                took = round((time.monotonic() - started) * 1000, 1)
                report("request", method=method, path=scope["path"], status=status, ms=took)
