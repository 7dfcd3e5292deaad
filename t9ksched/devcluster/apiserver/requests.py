"""Requests about objects: read the request, ask the `Api`, answer.

Each method takes the kind and the target that the path names; refusals are `StatusError`.
"""

import asyncio
import contextlib
import random
from typing import Any, Final

from aiohttp import web

from t9ksched.devcluster.apiserver import media, options, render
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.apply import apply
from t9ksched.devcluster.apiserver.intake import body_of
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.media import Form
from t9ksched.devcluster.apiserver.patching import APPLY_PATCH
from t9ksched.devcluster.apiserver.paths import Target
from t9ksched.devcluster.apiserver.responses import body_response, warned
from t9ksched.devcluster.apiserver.status import Cause, StatusError
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.devcluster.apiserver.watch import Event, Watcher
from t9ksched.devcluster.faults.faultlab import dropped
from t9ksched.devcluster.faults.faults import SWAP_SECONDS, Faults, Stream

Object = dict[str, Any]
_WATCH_SECONDS: Final = (1800.0, 3600.0)
_LINES_A_WRITE: Final = 200


class ResourceRequests:
    """Get, list, watch, create, update, patch and delete over HTTP. `watches` holds the tasks of watches under way."""

    def __init__(self, api: Api, faults: Faults) -> None:
        self.api = api
        self.faults = faults
        self.watches: set[asyncio.Task[Any]] = set()
        self.version_wait = 3.0
        """Seconds that a read waits for a version still to come."""

    async def get(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """One object."""
        form = media.negotiate(request.headers.get("Accept"))
        query = request.query
        if query.get("resourceVersion"):
            await self.await_version(options.parse_version(query["resourceVersion"]))
        entry = self.api.get(kind, target.namespace, target.name or "")
        return self.show(kind, entry, form, query.get("includeObject", ""))

    def show(self, kind: Kind, entry: Entry, form: Form, include: str, code: int = 200) -> web.Response:
        """One object in the form that was asked for."""
        return body_response(render.one(kind, entry, form, include, self.api.storage.version), code, form)

    async def await_version(self, version: int) -> None:
        """Wait a little for a version that is still to come; 504 when it does not."""
        for _ in range(30):
            if version <= self.api.storage.version:
                return
            await asyncio.sleep(self.version_wait / 30)
        text = f"Too large resource version: {version}, current: {self.api.storage.version}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version").to_dict()
        body = {"causes": [cause], "retryAfterSeconds": 1}
        raise StatusError(504, "Timeout", f"Timeout: {text}", body, retry_after=1)

    async def list(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """Objects of a kind, or a page of them."""
        form = media.negotiate(request.headers.get("Accept"))
        wanted = options.list_options(request.query)
        options.check_list(wanted, request.query.get("sendInitialEvents"))
        if wanted.version:
            await self.await_version(options.parse_version(wanted.version))
        if target.name and not wanted.fields:
            wanted.fields = f"metadata.name={target.name}"
        found = self.api.listing(kind, target.namespace, wanted)
        return body_response(render.listing(kind, found, form, request.query.get("includeObject", "")), 200, form)

    async def watch(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """Changes as a stream, until the client leaves or the time is over."""
        form = media.negotiate(request.headers.get("Accept"))
        query = request.query
        wanted = options.watch_options(query)
        fields = query.get("fieldSelector", "") or (f"metadata.name={target.name}" if target.name else "")
        matches = self.api.matcher(kind, query.get("labelSelector", ""), fields)
        limit = wanted.timeout if wanted.timeout is not None else random.uniform(*_WATCH_SECONDS)
        watcher = Watcher(self.api, kind, target.namespace, matches, wanted, limit)
        lines = render.Lines(kind, form, query.get("includeObject", ""))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        if task is not None:
            self.watches.add(task)
        stream = Stream(self.faults, kind.plural)
        with contextlib.suppress(ConnectionError):
            try:
                events: list[Event] | None = watcher.initial()
                while events is not None:
                    sent, cut = stream.through(events)
                    for start in range(0, len(sent), _LINES_A_WRITE):
                        await response.write(b"".join(map(lines.line, sent[start : start + _LINES_A_WRITE])))
                    if cut:
                        raise dropped(request)
                    events = await (_soon(watcher) if stream.holding else watcher.next())
            except StatusError as error:
                await response.write(render.error_line(error))
            finally:
                if task is not None:
                    self.watches.discard(task)
            await response.write_eof()
        return response

    async def create(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """A new object."""
        form = media.negotiate(request.headers.get("Accept"))
        opts = options.write_options(request.query, "CreateOptions")
        body = await self.read(request, kind, opts)
        entry = self.api.create(kind, target.namespace, body, opts)
        return warned(self.show(kind, entry, form, request.query.get("includeObject", ""), 201), opts)

    async def read(self, request: web.BaseRequest, kind: Kind, opts: options.WriteOptions) -> Object:
        """The object in the body of a request."""
        raw = await body_of(request)
        strict = opts.validation == "Strict"
        body: Object = media.read_object(raw, request.headers.get("Content-Type"), kind.kind, strict=strict)
        return body

    async def replace(
        self, request: web.BaseRequest, kind: Kind, target: Target, subresource: str = ""
    ) -> web.StreamResponse:
        """An object, or its status, in place of the one there."""
        form = media.negotiate(request.headers.get("Accept"))
        opts = options.write_options(request.query, "UpdateOptions")
        body = await self.read(request, kind, opts)
        entry, created = self.api.replace(kind, target.namespace, target.name or "", body, opts, subresource)
        return warned(self.show(kind, entry, form, "", 201 if created else 200), opts)

    async def patch(
        self, request: web.BaseRequest, kind: Kind, target: Target, subresource: str = ""
    ) -> web.StreamResponse:
        """A change of an object or of its status; of an applied one also its creation."""
        form = media.negotiate(request.headers.get("Accept"))
        language, body = media.read_patch(await body_of(request), request.headers.get("Content-Type"))
        opts = options.write_options(request.query, "PatchOptions")
        name = target.name or ""
        created = False
        if language == APPLY_PATCH:
            entry, created = apply(self.api, kind, target.namespace, name, body, opts, subresource)
        else:
            entry = self.api.patch(kind, target.namespace, name, body, language, opts, subresource)
        return warned(self.show(kind, entry, form, "", 201 if created else 200), opts)

    async def delete(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """One object less."""
        form = media.negotiate(request.headers.get("Accept"))
        body = media.read_options(await body_of(request), request.headers.get("Content-Type"))
        opts = options.delete_options(request.query, body)
        answer, _ = self.api.delete(kind, target.namespace, target.name or "", opts)
        return body_response(render.encode(answer), 200, form)

    async def delete_collection(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """No object that matches."""
        form = media.negotiate(request.headers.get("Accept"))
        body = media.read_options(await body_of(request), request.headers.get("Content-Type"))
        which = options.list_options(request.query)
        deleted = self.api.delete_collection(kind, target.namespace, which, options.delete_options(request.query, body))
        return body_response(render.listing(kind, deleted, form, ""), 200, form)


async def _soon(watcher: Watcher) -> list[Event]:
    """What comes while an event is held back for it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SWAP_SECONDS):
            return await watcher.next() or []
    return []
