"""The HTTP front end of the dev cluster: users, paths and verbs, discovery; `requests.py` answers requests about
objects.

One low-level aiohttp handler reads the path itself, which is faster than a router and distinguishes a missing path from
a missing resource as the API server does. `middleware` is where faults can be put between client and server.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from t9ksched.devcluster.apiserver import media
from t9ksched.devcluster.apiserver.api import Api
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
from t9ksched.devcluster.apiserver.journal import CannotRecord
from t9ksched.devcluster.apiserver.media import Form
from t9ksched.devcluster.apiserver.openapi import OpenApi
from t9ksched.devcluster.apiserver.paths import Target, method_not_allowed, parse, verb_of
from t9ksched.devcluster.apiserver.policies import ACTING
from t9ksched.devcluster.apiserver.requests import ResourceRequests
from t9ksched.devcluster.apiserver.responses import json_response, status_response
from t9ksched.devcluster.apiserver.status import PlainNotFound, StatusError, internal, unknown_path
from t9ksched.devcluster.apiserver.subresources import SubresourceRequests
from t9ksched.devcluster.apiserver.tokens import ACCOUNT, ACCOUNTS, AccountTokens
from t9ksched.devcluster.faults.faultlab import PATH as FAULTS_PATH
from t9ksched.devcluster.faults.faultlab import FaultLab
from t9ksched.devcluster.faults.faults import Faults
from t9ksched.serving import answering

Object = dict[str, Any]
_log = logging.getLogger(__name__)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.BaseRequest, Handler], Awaitable[web.StreamResponse]]

_BY_PATH: Final = "/as/"


class Frontend:
    """Answers HTTP requests from an `Api`."""

    def __init__(
        self,
        api: Api,
        authenticator: Authenticator,
        authorizer: Authorizer,
        faults: Faults | None = None,
        accounts: AccountTokens | None = None,
        machine_logs: Path | None = None,
    ) -> None:
        self.api = api
        self.faults = faults or Faults()
        self.middleware: Middleware | None = None
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._reviews = Reviews(authenticator, authorizer)
        self._discovery = Discovery(api.registry)
        self._openapi = OpenApi(api.registry)
        self.requests = ResourceRequests(api, self.faults)
        self._subresources = SubresourceRequests(api, self.requests, accounts, machine_logs)
        self.lab = FaultLab(api, self.faults, self.requests.watches)

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
            return status_response(error)
        except (web.HTTPException, ConnectionError):
            raise
        except CannotRecord as error:
            _log.warning("a write was refused: %s", error)
            return status_response(internal(str(error), ""))
        except Exception as error:
            _log.exception("a request failed", extra={"path": request.path})
            return status_response(internal(f"{type(error).__name__}: {error}"))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path, user = self._identify(request)
        check_reserve(request, path, user)
        if not path.startswith(("/api/", "/apis/")) or path.count("/") < 3:
            return await self._plain(request, path, user)
        target = parse(path)
        if target is None or not target.resource:
            return await self._plain(request, path, user)
        verb = verb_of(request.method, target, request.query)
        # Whoever runs a command by a WebSocket, which is a GET, needs the right to create one too.
        for each in (verb, "create") if verb == "get" and target.subresource == "exec" else (verb,):
            self._authorizer.check(
                user,
                Attributes(
                    each, target.group, target.resource, target.subresource, target.namespace or "", target.name or ""
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
        """The user whom the authenticated user impersonates (`kubectl --as`), else the authenticated user; 403 without
        the right.
        """
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
            return json_response({})
        if path == FAULTS_PATH:
            return await self.lab.answer(request)
        if request.method != "GET":
            raise PlainNotFound
        trimmed = path.rstrip("/") or "/"
        if trimmed.startswith(("/healthz", "/livez", "/readyz")):
            return web.Response(text="ok")
        if trimmed == "/version":
            return json_response(VERSION)
        if trimmed == "/":
            groups = [f"/apis/{name}" for name in self.api.registry.groups() if name]
            return json_response(
                {"paths": ["/api", "/api/v1", "/apis", *groups, "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
            )
        if trimmed.startswith("/openapi/"):
            return self._openapi.answer(trimmed, request.headers)
        form = media.negotiate(request.headers.get("Accept"))
        found = self._discover(trimmed, form)
        response = json_response(found)
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
            return json_response(self._reviews.answer(target.group, target.resource, body, user), 201)
        if target.resource == "bindings" and not target.group:
            if verb != "create":
                raise method_not_allowed()
            return await self._subresources.bind(request, target, legacy=True)
        kind = self.api.registry.find(target.group, target.version, target.resource)
        if kind is None:
            if target.group and not self._discovery.known_group(target.group):
                raise PlainNotFound
            raise unknown_path()
        if target.namespace and not kind.namespaced:
            raise unknown_path()
        if target.subresource:
            return await self._subresources.answer(request, kind, target, verb)
        handler = {
            "get": self.requests.get,
            "list": self.requests.list,
            "watch": self.requests.watch,
            "create": self.requests.create,
            "update": self.requests.replace,
            "patch": self.requests.patch,
            "delete": self.requests.delete,
            "deletecollection": self.requests.delete_collection,
        }.get(verb)
        homeless = verb in ("create", "deletecollection") and kind.namespaced and not target.namespace
        if handler is None or homeless:
            raise method_not_allowed()
        return await handler(request, kind, target)
