"""A port that refuses to write once the leader's lease is no longer ours.

Whoever decides holds a lease. After a pause (a sleeping machine, a stopped process) the old leader must not start a new
write, so every write asks first. A write that was under way ends before the lease does: its time limit is shorter.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

from t9ksched.kube.errors import Forbidden
from t9ksched.kube.port import ClusterPort, Object, ObjectList, Page, WatchEvent, pages_of
from t9ksched.kube.resources import Resource


class GuardedPort:
    """A `ClusterPort` that reads always and writes only while `holds()`."""

    def __init__(self, port: ClusterPort, holds: Callable[[], bool]) -> None:
        self._port = port
        self._holds = holds

    def _check(self) -> None:
        if not self._holds():
            raise Forbidden(0, "NotLeader", "this scheduler no longer leads and writes nothing")

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object:
        """See `ClusterPort`."""
        return await self._port.get(res, name, namespace)

    async def list(self, res: Resource, namespace: str | None = None, **options: Any) -> ObjectList:
        """See `ClusterPort`."""
        return await self._port.list(res, namespace, **options)

    async def pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncIterator[Page]:
        """See `PagedPort`."""
        async for page in pages_of(
            self._port, res, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        ):
            yield page

    def watch(self, res: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent]:
        """See `ClusterPort`."""
        return self._port.watch(res, namespace, **options)

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.create(res, obj, namespace, dry_run=dry_run)

    async def replace(self, res: Resource, obj: Object) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.replace(res, obj)

    async def replace_status(self, res: Resource, obj: Object) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.replace_status(res, obj)

    async def patch(self, res: Resource, name: str, namespace: str | None, body: Any, **options: Any) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.patch(res, name, namespace, body, **options)

    async def delete(self, res: Resource, name: str, namespace: str | None = None, **options: Any) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.delete(res, name, namespace, **options)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """See `ClusterPort`."""
        self._check()
        await self._port.bind(namespace, name, binding)

    async def evict(self, namespace: str, name: str, **options: Any) -> None:
        """See `ClusterPort`."""
        self._check()
        await self._port.evict(namespace, name, **options)
