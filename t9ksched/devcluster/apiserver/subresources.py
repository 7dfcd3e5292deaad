"""Requests about parts of objects: status, scale, binding, eviction, tokens and finalizers."""

from pathlib import Path
from typing import Any, Final

from aiohttp import web

from t9ksched.devcluster.apiserver import binding, eviction, media, options, scale
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.intake import body_of
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.patching import apply_patch
from t9ksched.devcluster.apiserver.paths import Target, method_not_allowed
from t9ksched.devcluster.apiserver.podexec import PodExec
from t9ksched.devcluster.apiserver.podlogs import PodLogs
from t9ksched.devcluster.apiserver.requests import ResourceRequests
from t9ksched.devcluster.apiserver.responses import json_response
from t9ksched.devcluster.apiserver.status import not_found, unknown_path
from t9ksched.devcluster.apiserver.tokens import AccountTokens

Object = dict[str, Any]
_CREATED: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class SubresourceRequests:
    """Answers requests about subresources, by `requests` where they are read and written as their object is."""

    def __init__(
        self,
        api: Api,
        requests: ResourceRequests,
        accounts: AccountTokens | None,
        machine_logs: Path | None = None,
    ) -> None:
        self.api = api
        self._logs = PodLogs(api, requests.faults, machine_logs)
        self._exec = PodExec(api, requests.faults, machine_logs)
        self._requests = requests
        self._accounts = accounts

    async def answer(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        """A request about a subresource."""
        name = target.subresource
        if kind.plural == "pods" and not kind.group and name in ("binding", "eviction", "exec", "log"):
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
            return await self._requests.get(request, kind, target)
        if verb == "update":
            return await self._requests.replace(request, kind, target, name)
        if verb == "patch":
            return await self._requests.patch(request, kind, target, name)
        raise method_not_allowed()

    async def _token(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        if verb != "create" or self._accounts is None:
            raise method_not_allowed()
        account = self.api.get(kind, target.namespace, target.name or "")
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "TokenRequest")
        return json_response(self._accounts.answer(account.object, body), 201)

    async def _pod_subresource(
        self, request: web.BaseRequest, kind: Kind, target: Target, verb: str
    ) -> web.StreamResponse:
        if target.subresource == "exec":
            if verb not in ("get", "create"):
                raise method_not_allowed()
            return await self._exec.answer(request, kind, target)
        if target.subresource == "log":
            if verb != "get":
                raise method_not_allowed()
            return await self._logs.answer(request, kind, target)
        if verb != "create":
            raise method_not_allowed()
        if target.subresource == "binding":
            return await self.bind(request, target, legacy=False)
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "Eviction")
        opts = options.write_options(request.query, "CreateOptions")
        eviction.evict(self.api, kind, target.namespace or "", target.name or "", body, opts.dry_run)
        return json_response(_CREATED, 201)

    async def bind(self, request: web.BaseRequest, target: Target, *, legacy: bool) -> web.StreamResponse:
        """A binding; the `legacy` path has its pod in the body."""
        body = media.read_object(await body_of(request), request.headers.get("Content-Type"), "Binding")
        opts = options.write_options(request.query, "CreateOptions")
        name = (body.get("metadata") or {}).get("name", "") if legacy else target.name or ""
        pods = self.api.kind("", "v1", "pods")
        binding.bind(self.api, pods, target.namespace or "", name, body, opts.dry_run)
        return json_response(_CREATED, 201)

    async def _scale(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        entry = self.api.get(kind, target.namespace, target.name or "")
        if verb == "get":
            return json_response(scale.show(kind, entry.object))
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
        return json_response(scale.write(self.api, kind, entry, body, opts.dry_run))

    async def _finalize(self, request: web.BaseRequest, kind: Kind, target: Target, verb: str) -> web.StreamResponse:
        if verb != "update":
            raise method_not_allowed()
        opts = options.write_options(request.query, "UpdateOptions")
        body = await self._requests.read(request, kind, opts)
        entry = self.api.finalize(kind, target.name or "", body, opts)
        return self._requests.show(kind, entry, media.PLAIN, "")
