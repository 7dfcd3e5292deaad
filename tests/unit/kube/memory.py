"""Objects in memory with the verbs that simple writers need: versions, conflicts, and failures on order."""

from __future__ import annotations

import copy
from typing import Any

from t9ksched.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from t9ksched.kube.port import ObjectList
from t9ksched.model.api_resource import Resource


class MemoryPort:
    """`fail["patch"] = [error, None]` makes the first patch fail and the second succeed."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.calls: list[str] = []
        self.fail: dict[str, list[ApiError | None]] = {}
        self.serial = 0

    def _call(self, verb: str) -> None:
        self.calls.append(verb)
        planned = self.fail.get(verb)
        if planned and (error := planned.pop(0)) is not None:
            raise error

    def _store(self, key: tuple[str, str, str], obj: dict[str, Any]) -> dict[str, Any]:
        self.serial += 1
        obj["metadata"]["resourceVersion"] = f"v{self.serial}"
        self.objects[key] = obj
        return copy.deepcopy(obj)

    def put(self, res: Resource, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        self._store((str(res), metadata.get("namespace") or "", metadata["name"]), copy.deepcopy(obj))

    def one(self, res: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self.objects[str(res), namespace or "", name]

    def _find(self, res: Resource, name: str, namespace: str | None) -> dict[str, Any]:
        try:
            return self.one(res, name, namespace)
        except KeyError:
            raise NotFound(404, "NotFound", f"{res} {name}") from None

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        self._call("get")
        return copy.deepcopy(self._find(res, name, namespace))

    async def list(self, res: Resource, namespace: str | None = None, **_: Any) -> ObjectList:
        self._call("list")
        found = [obj for key, obj in self.objects.items() if key[0] == str(res) and namespace in (None, key[1])]
        return ObjectList(copy.deepcopy(found), f"v{self.serial}")

    async def create(self, res: Resource, obj: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
        self._call("create")
        key = (str(res), namespace or obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists")
        return self._store(key, copy.deepcopy(obj))

    async def replace(self, res: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        self._call("replace")
        metadata = obj["metadata"]
        known = self._find(res, metadata["name"], metadata.get("namespace"))
        if metadata.get("resourceVersion") != known["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict")
        return self._store((str(res), metadata.get("namespace") or "", metadata["name"]), copy.deepcopy(obj))

    async def patch(
        self, res: Resource, name: str, namespace: str | None, body: Any, *, subresource: str = "", **_: Any
    ) -> dict[str, Any]:
        self._call("patch")
        known = copy.deepcopy(self._find(res, name, namespace))
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != known["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict")
        for key, value in body.items():
            known[key] = {**known.get(key, {}), **value} if isinstance(value, dict) else value
        return self._store((str(res), namespace or "", name), known)

    async def delete(
        self, res: Resource, name: str, namespace: str | None = None, *, uid: str | None = None, **_: Any
    ) -> dict[str, Any]:
        self._call("delete")
        known = self._find(res, name, namespace)
        if uid is not None and known["metadata"].get("uid") != uid:
            raise Conflict(409, "Conflict")
        return self.objects.pop((str(res), namespace or "", name))
