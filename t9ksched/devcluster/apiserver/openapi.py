"""OpenAPI documents, made from the table of kinds at the first request: enough for `kubectl explain` and `apply`.

Version 3 has one document for each API version with the schemas of its kinds and a few paths that tie them to their
group, version and kind; version 2 has the schemas of all kinds in one document (`openapi2`), as JSON or as a Protocol
Buffer. Answers carry an ETag, because kubectl keeps them.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from aiohttp import web

from t9ksched.devcluster.apiserver import openapi2
from t9ksched.devcluster.apiserver.kinds import Kind, Registry
from t9ksched.devcluster.apiserver.models import descriptions, fields
from t9ksched.devcluster.apiserver.status import PlainNotFound
from t9ksched.devcluster.apiserver.storage import encode
from t9ksched.devcluster.apiserver.strategic import merge_key

Object = dict[str, Any]
_PREFIX: Final = "#/components/schemas/"
_SCALARS: Final = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {},
}


def _type(kind: str, needed: set[str]) -> Object:
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind.startswith("List["):
        return {"type": "array", "items": _type(kind[5:-1], needed)}
    if kind.startswith("Dict["):
        return {"type": "object", "additionalProperties": _type(kind[len("Dict[str, ") : -1], needed)}
    needed.add(kind)
    return {"allOf": [{"$ref": f"{_PREFIX}{_name(kind)}"}]}


def _name(model: str) -> str:
    return f"io.k8s.api.{model}"


@cache
def _model(model: str) -> tuple[Object, frozenset[str]]:
    """The schema of one model of the client library, and the models that it refers to."""
    needed: set[str] = set()
    (text, described), (types, required_fields) = descriptions(model), fields(model)
    properties: Object = {}
    for name, kind in types.items():
        schema = _type(kind, needed)
        if name in described:
            schema["description"] = described[name]
        if key := merge_key(model, name):
            schema |= {"x-kubernetes-patch-merge-key": key, "x-kubernetes-patch-strategy": "merge"}
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
        properties[name] = schema
    schema = {"type": "object", "description": text, "properties": properties}
    if required := sorted(required_fields):
        schema["required"] = required
    return schema, frozenset(needed)


class OpenApi:
    """Answers requests below `/openapi/`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cache: dict[str, bytes] = {}
        self._changes = -1

    def answer(self, path: str, headers: Mapping[str, str]) -> web.Response:
        """One document; 304 when the client has it already."""
        if self._changes != self._registry.changes:
            self._cache.clear()
            self._changes = self._registry.changes
        media = "application/json"
        if path == "/openapi/v2" and openapi2.ASKED in headers.get("Accept", ""):
            media = openapi2.MEDIA
        body = self._cache.get(path + media)
        if body is None:
            document = self._document(path)
            body = self._cache[path + media] = (
                encode(document) if media != openapi2.MEDIA else openapi2.encode(document)
            )
        tag = f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        sent = {"ETag": tag, "Vary": "Accept", "Content-Type": media}
        if headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=sent)
        return web.Response(body=body, headers=sent)

    def _document(self, path: str) -> Object:
        if path == "/openapi/v2":
            return self._everything()
        if path == "/openapi/v3":
            return self._index()
        if path == "/openapi/v3/version":
            return _shell("version", {}, {})
        parts = path.removeprefix("/openapi/v3/").split("/")
        group = parts[1] if parts[0] == "apis" and len(parts) == 3 else ""
        kinds = [k for k in self._registry.all() if (k.group, k.version) == (group, parts[-1])]
        if not kinds or not path.startswith("/openapi/v3/") or (parts[0] == "api") is bool(group):
            raise PlainNotFound
        return self._describe(kinds)

    def _index(self) -> Object:
        names = {f"apis/{k.group}/{k.version}" if k.group else f"api/{k.version}" for k in self._registry.all()}
        stamp = self._registry.changes
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={stamp}"} for name in sorted(names)}}

    def _everything(self) -> Object:
        schemas: Object = {}
        for kind in self._registry.all():
            _add(kind, schemas)
        return openapi2.document({"title": "t9ksched dev cluster", "version": "v1.36.0"}, schemas)

    def _describe(self, kinds: list[Kind]) -> Object:
        schemas: Object = {}
        paths: Object = {}
        for kind in kinds:
            identity, name = _add(kind, schemas)
            paths |= _paths(kind, identity, f"{_PREFIX}{name}")
        return _shell("kubernetes", paths, schemas)


def _add(kind: Kind, schemas: Object) -> tuple[Object, str]:
    """Add the kind's schema, and those it refers to, to `schemas`; returns its identity and its name there."""
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    name = _name(kind.model) if kind.model else f"{kind.group}.{kind.version}.{kind.kind}"
    if kind.custom is not None:
        schemas[name] = {**_custom(kind), "x-kubernetes-group-version-kind": [identity]}
        _collect("V1ObjectMeta", schemas)
    else:
        _collect(kind.model, schemas)
        schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": [identity]}
    return identity, name


def _collect(model: str, schemas: Object) -> None:
    waiting = [model]
    while waiting:
        current = waiting.pop()
        if _name(current) not in schemas:
            schemas[_name(current)], needed = _model(current)
            waiting += needed


def _custom(kind: Kind) -> Object:
    schema = dict(kind.custom.schema)
    common = {
        "apiVersion": {"type": "string", "description": "The version of this object's shape."},
        "kind": {"type": "string", "description": "The kind of this object."},
        "metadata": {"allOf": [{"$ref": f"{_PREFIX}{_name('V1ObjectMeta')}"}]},
    }
    return {**schema, "properties": {**(schema.get("properties") or {}), **common}}


def _paths(kind: Kind, identity: Object, reference: str) -> Object:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    root += "/namespaces/{namespace}" if kind.namespaced else ""
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": reference}}}}}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]

    def operation(action: str, *, writes: bool) -> Object:
        found: Object = {
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": identity,
        }
        return found | {"parameters": parameters} if writes else found

    return {
        f"{root}/{kind.plural}": {"get": operation("list", writes=False), "post": operation("post", writes=True)},
        f"{root}/{kind.plural}/{{name}}": {
            "get": operation("get", writes=False),
            "put": operation("put", writes=True),
            "patch": operation("patch", writes=True),
        },
    }


def _shell(title: str, paths: Object, schemas: Object) -> Object:
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
