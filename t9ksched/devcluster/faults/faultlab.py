"""The fault lab over HTTP: `/_faults` to set and see it, and its rules between every request and its answer.

Only administrators reach it. A dropped request ends with its connection closed and no answer, as a broken network or a
killed server would; the lab's own path is never disturbed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from t9ksched.devcluster.apiserver import render
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.intake import body_of
from t9ksched.devcluster.apiserver.options import WriteOptions
from t9ksched.devcluster.apiserver.paths import method_not_allowed, parse, verb_of
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.faults.faults import NOTHING, Faults, Rule, Settings, told_unreachable

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
PATH: Final = "/_faults"
_BY_PATH: Final = "/as/"


class FaultLab:
    """The HTTP side of `faults` on one cluster; `watches` are the open streams, which it may break."""

    def __init__(self, api: Api, faults: Faults, watches: set[asyncio.Task[Any]]) -> None:
        self._api = api
        self._faults = faults
        self._watches = watches

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """`GET` shows the state, `POST` sets what its body gives, `DELETE` clears everything."""
        if request.method == "POST":
            try:
                settings = msgspec.json.decode(await body_of(request) or b"{}", type=Settings)
            except msgspec.DecodeError as error:
                text = f"{PATH}: {error}; see Settings and Rule of t9ksched.devcluster.faults.faults for what is known"
                raise StatusError(400, "BadRequest", text, {}) from None
            self.set(settings)
        elif request.method == "DELETE":
            self.set(NOTHING)
        elif request.method != "GET":
            raise method_not_allowed()
        return web.Response(body=render.encode(self._faults.show()), content_type="application/json")

    def set(self, settings: Settings) -> None:
        """Take over settings, and write the status of nodes that become silent or are heard again."""
        before = set(self._faults.silent)
        self._faults.set(settings)
        for name in before ^ self._faults.silent:
            self._tell(name, name in self._faults.silent)
        if settings.compact:
            self._api.storage.compact()
        if settings.cut_watches:
            for task in list(self._watches):
                task.cancel()

    def _tell(self, name: str, unreachable: bool) -> None:
        kind = self._api.kind("", "v1", "nodes")
        found = self._api.collection(kind).entries.get(name)
        if found is None:
            return
        wanted = told_unreachable(found.object, unreachable)
        entry, _ = self._api.replace(kind, None, name, wanted, WriteOptions())
        self._api.replace(kind, None, name, {**entry.object, "status": wanted["status"]}, WriteOptions(), "status")

    async def meet(self, request: web.BaseRequest, handler: Handler) -> web.StreamResponse:
        """Answer a request with `handler`, unless a rule says otherwise."""
        rule = self._rule(request)
        if rule is None:
            return await handler(request)
        await asyncio.sleep(rule.latency / 2)
        if rule.status:
            response = web.Response(
                status=rule.status, body=render.encode(rule.status_body()), content_type="application/json"
            )
            if rule.retry_after is not None:
                response.headers["Retry-After"] = f"{rule.retry_after:g}"
            return response
        if rule.drop == "before":
            dropped(request)
            return web.Response()  # the connection is closed: no client receives it
        answer = await handler(request)
        await asyncio.sleep(rule.latency / 2)
        if rule.drop == "after":
            dropped(request)
        return answer

    def _rule(self, request: web.BaseRequest) -> Rule | None:
        if not self._faults.rules:
            return None
        path = request.path
        if path.startswith(_BY_PATH):
            path = "/" + path.removeprefix(_BY_PATH).partition("/")[2]
        target = parse(path) if path.startswith(("/api/", "/apis/")) and path.count("/") >= 3 else None
        if target is None or not target.resource:
            return None
        try:
            verb = verb_of(request.method, target, request.query)
        except StatusError:
            return None
        return self._faults.draw(verb, "/".join(filter(None, (target.resource, target.subresource))))


def dropped(request: web.BaseRequest) -> ConnectionError:
    """Close the connection of a request as if it had broken; the error to end its handler with."""
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError("the fault lab closed the connection")
