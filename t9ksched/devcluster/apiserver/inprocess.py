"""The cluster as an object in the same process: `kube.port.ClusterPort` over the same `Api` as HTTP.

Simulated kubelets and small controllers use it, so that what they do is checked like any client's request. Objects that
come out are copies; what goes in is decoded anew. Refusals are the client's own `kube.errors`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from t9ksched.devcluster.apiserver import eviction, render, scale
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.binding import bind
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from t9ksched.devcluster.apiserver.patching import apply_patch
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.devcluster.apiserver.watch import Event, Watcher
from t9ksched.kube.errors import error_from_status
from t9ksched.kube.port import ObjectList, WatchEvent
from t9ksched.kube.resources import PODS
from t9ksched.model.api_resource import Resource

Object = dict[str, Any]
_decode = msgspec.json.Decoder().decode


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StatusError as error:
        raise error_from_status(error.code, error.to_dict(), error.retry_after) from None


class InProcessPort:
    """A `ClusterPort` on a running dev cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def _kind(self, res: Resource) -> Kind:
        return self._api.kind(res.group, res.version, res.plural)

    def _copy(self, kind: Kind, entry: Entry) -> Object:
        found: Object = _decode(render.raw(kind, entry))
        return found

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object:
        """One object."""
        with _translated():
            kind = self._kind(res)
            return self._copy(kind, self._api.get(kind, namespace, name))

    async def list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> ObjectList:
        """The whole list."""
        with _translated():
            kind = self._kind(res)
            found = self._api.listing(kind, namespace, ListOptions(label_selector, field_selector))
            return ObjectList([self._copy(kind, entry) for entry in found.entries], str(found.version))

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """Create an object in `namespace`, else in its own."""
        with _translated():
            kind = self._kind(res)
            where = namespace or (obj.get("metadata") or {}).get("namespace")
            return self._copy(kind, self._api.create(kind, where, obj, WriteOptions(dry_run)))

    async def replace(self, res: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """Put an object in place of the stored one."""
        return self._replace(res, obj, "", dry_run=dry_run)

    async def replace_status(self, res: Resource, obj: Object) -> Object:
        """Put an object's status in place of the stored one."""
        return self._replace(res, obj, "status")

    def _replace(self, res: Resource, obj: Object, subresource: str, *, dry_run: bool = False) -> Object:
        with _translated():
            kind = self._kind(res)
            meta = obj.get("metadata") or {}
            entry, _ = self._api.replace(
                kind, meta.get("namespace"), meta.get("name", ""), obj, WriteOptions(dry_run), subresource
            )
            return self._copy(kind, entry)

    async def patch(
        self,
        res: Resource,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        content_type: str = "application/merge-patch+json",
        subresource: str = "",
    ) -> Object:
        """Change an object, its status or its scale by a patch."""
        with _translated():
            kind = self._kind(res)
            if subresource == "scale":
                entry = self._api.get(kind, namespace, name)
                changed = apply_patch(None, scale.show(kind, entry.object), body, content_type)
                return scale.write(self._api, kind, entry, changed)
            entry = self._api.patch(kind, namespace, name, body, content_type, WriteOptions(), subresource)
            return self._copy(kind, entry)

    async def delete(
        self,
        res: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> Object:
        """Delete an object."""
        with _translated():
            kind = self._kind(res)
            opts = DeleteOptions(grace=grace, propagation=propagation, uid=uid)
            answer, _ = self._api.delete(kind, namespace, name, opts)
            return dict(answer)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """Bind a pod."""
        with _translated():
            bind(self._api, self._kind(PODS), namespace, name, binding)

    async def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        """Evict a pod."""
        deletion: Object = {}
        if uid:
            deletion["preconditions"] = {"uid": uid}
        if grace is not None:
            deletion["gracePeriodSeconds"] = grace
        with _translated():
            body = {"metadata": {"name": name, "namespace": namespace}, "deleteOptions": deletion}
            eviction.evict(self._api, self._kind(PODS), namespace, name, body)

    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float = 300,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after a version."""
        with _translated():
            kind = self._kind(res)
            matches = self._api.matcher(kind, label_selector, field_selector)
            options = WatchOptions(int(resource_version or 0), True, None, timeout)
            watcher = Watcher(self._api, kind, namespace, matches, options, timeout)
            events: list[Event] | None = watcher.initial()
        while events is not None:
            for event in events:
                raw = event.entry.raw if event.entry.key == "" else render.raw(kind, event.entry)
                yield WatchEvent(event.type, raw=raw)
            with _translated():
                events = await watcher.next()
