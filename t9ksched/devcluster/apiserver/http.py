"""The HTTP face of the dev cluster: paths and verbs, bodies and answers, watches as streams.

One low-level aiohttp handler reads the path itself, which is quicker than a router and can tell a missing path from a
missing resource as the API server does. `middleware` is where faults can be put between client and server.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from t9ksched.devcluster.apiserver import binding, eviction, media, options, render, scale
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.apply import apply
from t9ksched.devcluster.apiserver.auth import (
    AUTHENTICATED,
    REVIEWS,
    Attributes,
    Authenticator,
    Authorizer,
    Reviews,
    User,
)
from t9ksched.devcluster.apiserver.discovery import VERSION, Discovery
from t9ksched.devcluster.apiserver.intake import RESERVED, body_of, check_reserve
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.media import Form
from t9ksched.devcluster.apiserver.openapi import OpenApi
from t9ksched.devcluster.apiserver.patching import APPLY_PATCH, apply_patch
from t9ksched.devcluster.apiserver.paths import Target, method_not_allowed, parse, verb_of
from t9ksched.devcluster.apiserver.policies import ACTING
from t9ksched.devcluster.apiserver.status import Cause, PlainNotFound, StatusError, internal, not_found, unknown_path
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.devcluster.apiserver.tokens import ACCOUNT, ACCOUNTS, AccountTokens
from t9ksched.devcluster.apiserver.watch import Event, Watcher
from t9ksched.devcluster.faults.faultlab import PATH as FAULTS_PATH
from t9ksched.devcluster.faults.faultlab import FaultLab, dropped
from t9ksched.devcluster.faults.faults import SWAP_SECONDS, Faults, Stream
from t9ksched.model.text import write
from t9ksched.serving import answering

Object = dict[str, Any]
_log = logging.getLogger(__name__)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.BaseRequest, Handler], Awaitable[web.StreamResponse]]

_WATCH_SECONDS: Final = (1800.0, 3600.0)
_LINES_A_WRITE: Final = 200
_BY_PATH: Final = "/as/"
_CREATED: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class Frontend:
    """Answers HTTP requests from an `Api`."""

    def __init__(
        self,
        api: Api,
        authenticator: Authenticator,
        authorizer: Authorizer,
        faults: Faults | None = None,
        accounts: AccountTokens | None = None,
    ) -> None:
        self.api = api
        self.faults = faults or Faults()
        self.middleware: Middleware | None = None
        self.version_wait = 3.0
        """Seconds that a read waits for a version still to come."""
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._accounts = accounts
        self._reviews = Reviews(authenticator, authorizer)
        self._discovery = Discovery(api.registry)
        self._openapi = OpenApi(api.registry)
        self.watches: set[asyncio.Task[Any]] = set()
        self.lab = FaultLab(api, self.faults, self.watches)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever it is."""
        with answering() as connection:
            request[RESERVED] = connection is not None and connection.reserved
            if self.middleware is not None:
                return await self.middleware(request, self.answer)
            return await self.lab.meet(request, self.answer)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, past the middleware; refusals become Status objects."""
        try:
            return await self._route(request)
        except PlainNotFound as error:
            return web.Response(status=404, text=f"{error.message}\n")
        except StatusError as error:
            return _status(error)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:
            _log.exception("a request failed", extra={"path": request.path})
            return _status(internal(f"{type(error).__name__}: {error}"))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path, user = self._identify(request)
        check_reserve(request, path, user)
        if not path.startswith(("/api/", "/apis/")) or path.count("/") < 3:
            return await self._plain(request, path, user)
        target = parse(path)
        if target is None or not target.resource:
            return await self._plain(request, path, user)
        verb = verb_of(request.method, target, request.query)
        self._authorizer.check(
            user,
            Attributes(
                verb, target.group, target.resource, target.subresource, target.namespace or "", target.name or ""
            ),
        )
        acting = ACTING.set(user)
        try:
            return await self._resource(request, target, verb, user)
        finally:
            ACTING.reset(acting)

    def _identify(self, request: web.BaseRequest) -> tuple[str, User]:
        """The path and the user of a request.

        kubectl sends no token over plain HTTP, so a kubeconfig carries it in the path as well: `/as/<token>/api…`.
        """
        path = request.path
        header = request.headers.get("Authorization")
        if path.startswith(_BY_PATH):
            token, _, rest = path.removeprefix(_BY_PATH).partition("/")
            path, header = f"/{rest}", header or f"Bearer {token}"
        return path, self._impersonated(self._authenticator.identify(header), request)

    def _impersonated(self, user: User, request: web.BaseRequest) -> User:
        """Whom the user acts for, as `kubectl --as` asks; himself without that. 403 when he may not."""
        name, groups = request.headers.get("Impersonate-User"), request.headers.getall("Impersonate-Group", [])
        if not name:
            if groups:
                raise internal(f"requested {groups} without impersonating a user", "")
            return user
        account = ACCOUNT.fullmatch(name)
        if account:
            self._authorizer.check(user, Attributes("impersonate", "", ACCOUNTS, "", account[1], account[2]))
            groups = groups or ["system:serviceaccounts", f"system:serviceaccounts:{account[1]}"]
        else:
            self._authorizer.check(user, Attributes("impersonate", "", "users", name=name))
        for group in request.headers.getall("Impersonate-Group", []):
            self._authorizer.check(user, Attributes("impersonate", "", "groups", name=group))
        return User(name, (*groups, AUTHENTICATED))

    # ---- paths outside the resources

    async def _plain(self, request: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        self._authorizer.check(user, Attributes(request.method.lower(), path=path))
        if path == "/devcluster/compact" and request.method == "POST":
            self.api.storage.compact()
            return _json({})
        if path == FAULTS_PATH:
            return await self.lab.answer(request)
        if request.method != "GET":
            raise PlainNotFound
        trimmed = path.rstrip("/") or "/"
        if trimmed.startswith(("/healthz", "/livez", "/readyz")):
            return web.Response(text="ok")
        if trimmed == "/version":
            return _json(VERSION)
        if trimmed == "/":
            groups = [f"/apis/{name}" for name in self.api.registry.groups() if name]
            return _json(
                {"paths": ["/api", "/api/v1", "/apis", *groups, "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
            )
        if trimmed.startswith("/openapi/"):
            return self._openapi.answer(trimmed, request.headers)
        form = media.negotiate(request.headers.get("Accept"))
        found = self._discover(trimmed, form)
        response = _json(found)
        if form.view == "APIGroupDiscoveryList":
            response.headers["Content-Type"] = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return response

    def _discover(self, path: str, form: Form) -> Object:
        parts = path.strip("/").split("/")
        discovery = self._discovery
        whole = form.view == "APIGroupDiscoveryList"
        if parts == ["api"]:
            return discovery.aggregated(legacy=True) if whole else discovery.legacy()
        if parts == ["apis"]:
            return discovery.aggregated(legacy=False) if whole else discovery.groups()
        if parts[0] == "api" and len(parts) == 2:
            return discovery.resources("", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            return discovery.group(parts[1])
        if parts[0] == "apis" and len(parts) == 3:
            return discovery.resources(parts[1], parts[2])
        raise PlainNotFound

    # ---- resources

    async def _resource(self, request: web.BaseRequest, target: Target, verb: str, user: User) -> web.StreamResponse:
        if target.resource in REVIEWS.get(target.group, {}):
            if verb != "create":
                raise method_not_allowed()
            body = media.read_object(await body_of(request), request.headers.get("Content-Type"), target.resource)
            return _json(self._reviews.answer(target.group, target.resource, body, user), 201)
        if target.resource == "bindings" and not target.group:
            if verb != "create":
                raise method_not_allowed()
            return await self._bind(request, target, legacy=True)
        kind = self.api.registry.find(target.group, target.version, target.resource)
        if kind is None:
            if target.group and not self._discovery.known_group(target.group):
                raise PlainNotFound
            raise unknown_path()
        if target.namespace and not kind.namespaced:
            raise unknown_path()
        if target.subresource:
            return await self._subresource(request, kind, target, verb)
        handler = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._replace,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }.get(verb)
        homeless = verb in ("create", "deletecollection") and kind.namespaced and not target.namespace
        if handler is None or homeless:
            raise method_not_allowed()
        return await handler(request, kind, target)

    async def _get(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        query = request.query
        if query.get("resourceVersion"):
            await self._await_version(options.parse_version(query["resourceVersion"]))
        entry = self.api.get(kind, target.namespace, target.name or "")
        return self._show(kind, entry, form, query.get("includeObject", ""))

    def _show(self, kind: Kind, entry: Entry, form: Form, include: str, code: int = 200) -> web.Response:
        return _body(render.one(kind, entry, form, include, self.api.storage.version), code, form)

    async def _await_version(self, version: int) -> None:
        """Wait a little for a version that is still to come; 504 when it does not."""
        for _ in range(30):
            if version <= self.api.storage.version:
                return
            await asyncio.sleep(self.version_wait / 30)
        text = f"Too large resource version: {version}, current: {self.api.storage.version}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version").to_dict()
        body = {"causes": [cause], "retryAfterSeconds": 1}
        raise StatusError(504, "Timeout", f"Timeout: {text}", body, retry_after=1)

    async def _list(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        wanted = options.list_options(request.query)
        options.check_list(wanted, request.query.get("sendInitialEvents"))
        if wanted.version:
            await self._await_version(options.parse_version(wanted.version))
        if target.name and not wanted.fields:
            wanted.fields = f"metadata.name={target.name}"
        found = self.api.listing(kind, target.namespace, wanted)
        return _body(render.listing(kind, found, form, request.query.get("includeObject", "")), 200, form)

    async def _watch(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
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

    async def _create(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        opts = options.write_options(request.query, "CreateOptions")
        body = await self._read(request, kind, opts)
        entry = self.api.create(kind, target.namespace, body, opts)
        return _warned(self._show(kind, entry, form, request.query.get("includeObject", ""), 201), opts)

    async def _read(self, request: web.BaseRequest, kind: Kind, opts: options.WriteOptions) -> Object:
        raw = await body_of(request)
        strict = opts.validation == "Strict"
        body: Object = media.read_object(raw, request.headers.get("Content-Type"), kind.kind, strict=strict)
        return body

    async def _replace(
        self, request: web.BaseRequest, kind: Kind, target: Target, subresource: str = ""
    ) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        opts = options.write_options(request.query, "UpdateOptions")
        body = await self._read(request, kind, opts)
        entry, created = self.api.replace(kind, target.namespace, target.name or "", body, opts, subresource)
        return _warned(self._show(kind, entry, form, "", 201 if created else 200), opts)

    async def _patch(
        self, request: web.BaseRequest, kind: Kind, target: Target, subresource: str = ""
    ) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        language, body = media.read_patch(await body_of(request), request.headers.get("Content-Type"))
        opts = options.write_options(request.query, "PatchOptions")
        name = target.name or ""
        created = False
        if language == APPLY_PATCH:
            entry, created = apply(self.api, kind, target.namespace, name, body, opts, subresource)
        else:
            entry = self.api.patch(kind, target.namespace, name, body, language, opts, subresource)
        return _warned(self._show(kind, entry, form, "", 201 if created else 200), opts)

    async def _delete(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        body = media.read_options(await body_of(request), request.headers.get("Content-Type"))
        opts = options.delete_options(request.query, body)
        answer, _ = self.api.delete(kind, target.namespace, target.name or "", opts)
        return _body(render.encode(answer), 200, form)

    async def _delete_collection(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        form = media.negotiate(request.headers.get("Accept"))
        body = media.read_options(await body_of(request), request.headers.get("Content-Type"))
        which = options.list_options(request.query)
        deleted = self.api.delete_collection(kind, target.namespace, which, options.delete_options(request.query, body))
        return _body(render.listing(kind, deleted, form, ""), 200, form)

    # ---- subresources

    async def _subresource(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        name = target.subresource
        if kind.plural == "pods" and not kind.group and name in ("binding", "eviction", "log"):
            return await self._pod_subresource(request, kind, target, verb)
        if name not in kind.subresources:
            self.api.get(kind, target.namespace, target.name or "")
            raise not_found(kind.plural, kind.group, target.name or "") if kind.custom else unknown_path()
        if name == "token":
            return await self._token(request, kind, target, verb)
        if name == "scale":
            return await self._scale(request, kind, target, verb)
        if name == "finalize":
            return await self._finalize(request, kind, target, verb)
        if verb == "get":
            return await self._get(request, kind, target)
        if verb == "update":
            return await self._replace(request, kind, target, name)
        if verb == "patch":
            return await self._patch(request, kind, target, name)
        raise method_not_allowed()

    async def _token(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        if verb != "create" or self._accounts is None:
            raise method_not_allowed()
        account = self.api.get(kind, target.namespace, target.name or "")
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "TokenRequest")
        return _json(self._accounts.answer(account.object, body), 201)

    async def _pod_subresource(
        self, request: web.BaseRequest, kind: Kind, target: Target, verb: str
    ) -> web.StreamResponse:
        if target.subresource == "log":
            if verb != "get":
                raise method_not_allowed()
            self.api.get(kind, target.namespace, target.name or "")
            return web.Response(text="")
        if verb != "create":
            raise method_not_allowed()
        if target.subresource == "binding":
            return await self._bind(request, target, legacy=False)
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "Eviction")
        opts = options.write_options(request.query, "CreateOptions")
        eviction.evict(self.api, kind, target.namespace or "", target.name or "", body, opts.dry_run)
        return _json(_CREATED, 201)

    async def _bind(self, request: web.BaseRequest, target: Target, *, legacy: bool) -> web.StreamResponse:
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "Binding")
        opts = options.write_options(request.query, "CreateOptions")
        name = (body.get("metadata") or {}).get("name", "") if legacy else target.name or ""
        pods = self.api.kind("", "v1", "pods")
        binding.bind(self.api, pods, target.namespace or "", name, body, opts.dry_run)
        return _json(_CREATED, 201)

    async def _scale(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        entry = self.api.get(kind, target.namespace, target.name or "")
        if verb == "get":
            return _json(scale.show(kind, entry.object))
        if verb == "update":
            body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "Scale")
            opts = options.write_options(request.query, "UpdateOptions")
        elif verb == "patch":
            language, patch = media.read_patch(await body_of(request), request.headers.get("Content-Type"))
            opts = options.write_options(request.query, "PatchOptions")
            body = apply_patch(None, scale.show(kind, entry.object), patch, language)
        else:
            raise method_not_allowed()
        entry = self.api.get(kind, target.namespace, target.name or "")
        return _json(scale.write(self.api, kind, entry, body, opts.dry_run))

    async def _finalize(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        if verb != "update":
            raise method_not_allowed()
        opts = options.write_options(request.query, "UpdateOptions")
        body = await self._read(request, kind, opts)
        entry = self.api.finalize(kind, target.name or "", body, opts)
        return self._show(kind, entry, media.PLAIN, "")


async def _soon(watcher: Watcher) -> list[Event]:
    """What comes while an event is held back for it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SWAP_SECONDS):
            return await watcher.next() or []
    return []


def _json(body: Object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=render.encode(body), headers={"Content-Type": "application/json"})


def _body(raw: bytes, status: int, form: Form) -> web.Response:
    if form.yaml:
        text = write(msgspec.json.decode(raw)).encode()
        return web.Response(status=status, body=text, headers={"Content-Type": "application/yaml"})
    return web.Response(status=status, body=raw, headers={"Content-Type": "application/json"})


def _status(error: StatusError) -> web.Response:
    response = _json(error.to_dict(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _warned(response: web.Response, opts: options.WriteOptions) -> web.Response:
    for text in opts.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response
