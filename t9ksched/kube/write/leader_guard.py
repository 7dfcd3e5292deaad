"""A port that refuses to write: once this process does not hold the leader's lease any more, or always, for a process
that only observes.

The process that decides holds a lease. After a pause (a sleeping machine, a stopped process) the old leader must not
start a new write, so every write asks first. A write that was under way ends before the lease does: its time limit is
shorter. A refused write sends no request.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from t9ksched.kube.errors import BadRequest, Forbidden
from t9ksched.kube.port import (
    ClusterPort,
    DiscoveryPort,
    InitialEventsPort,
    Object,
    ObjectList,
    Page,
    WatchEvent,
    answers_of,
    expiries_of,
    pages_of,
)
from t9ksched.model.api_resource import Resource

NOT_LEADER: Final = "NotLeader"
OBSERVE_ONLY: Final = "ObserveOnly"
_SENTENCES: Final = {
    NOT_LEADER: "this scheduler no longer leads and writes nothing",
    OBSERVE_ONLY: "this t9ksched only observes and changes nothing in the cluster",
}


class LeaderGuard:
    """A `ClusterPort` that reads always and writes only while `holds()`; else Forbidden with `reason`."""

    def __init__(self, port: ClusterPort, holds: Callable[[], bool], reason: str = NOT_LEADER) -> None:
        self._port = port
        self._holds = holds
        self._reason = reason

    @property
    def answers(self) -> Mapping[tuple[str, str], int]:
        """See `answers_of`."""
        return answers_of(self._port)

    @property
    def expiries(self) -> Mapping[str, int]:
        """See `expiries_of`."""
        return expiries_of(self._port)

    def _check(self) -> None:
        if not self._holds():
            raise Forbidden(0, self._reason, _SENTENCES[self._reason])

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

    def watch_list(self, res: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent]:
        """See `InitialEventsPort`; BadRequest where the port does not offer it."""
        if not isinstance(self._port, InitialEventsPort):
            raise BadRequest(0, "BadRequest", "this port sends no initial events")
        return self._port.watch_list(res, namespace, **options)

    async def serves(self, res: Resource) -> bool:
        """See `DiscoveryPort`; a port that does not say is taken to serve every kind."""
        return not isinstance(self._port, DiscoveryPort) or await self._port.serves(res)

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.create(res, obj, namespace, dry_run=dry_run)

    async def replace(self, res: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """See `ClusterPort`."""
        self._check()
        return await self._port.replace(res, obj, dry_run=dry_run)

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


def read_only(port: ClusterPort) -> LeaderGuard:
    """The port for a process that only observes: every write is refused here."""
    return LeaderGuard(port, lambda: False, OBSERVE_ONLY)
