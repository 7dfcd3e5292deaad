"""A server on loopback that answers as a test scripts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedApi:
    """Answers requests with `script` in turn; the last answer repeats."""

    url: str = ""
    script: list[Answer] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def then(self, status: int, body: Any = None, **headers: str) -> ScriptedApi:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})

        async def answer(request: web.Request) -> web.StreamResponse:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            return web.Response(status=status, body=raw, headers={"Content-Type": "application/json"} | names)

        self.script.append(answer)
        return self

    def refuse(self, status: int, reason: str = "", message: str = "", **headers: str) -> ScriptedApi:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
        return self.then(status, body | {"code": status}, **headers)

    def do(self, answer: Answer) -> ScriptedApi:
        self.script.append(answer)
        return self

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                msgspec.json.decode(body) if body else None,
            )
        )
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await answer(request)


async def drop(request: web.Request) -> web.StreamResponse:
    """Break the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
