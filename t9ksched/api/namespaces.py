"""What the service knows of namespaces: their labels and their owners. Read from the cluster and cached for seconds.
The annotation `tensorstack.dev/owner` names a namespace's owner. While the cluster does not answer, no namespace is
known: no user gets a right because the answer is missing.
"""

import time
from collections.abc import Callable
from typing import Any

import structlog

from t9ksched.admission.identity import Namespace
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NAMESPACES

log = structlog.get_logger(__name__)

KEPT_SECONDS = 5.0


class Namespaces:
    """Namespaces of a cluster. `clock` gives seconds."""

    def __init__(self, kube: ClusterPort, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[str, Namespace] = {}
        self._listed_at: float | None = None

    async def get(self, name: str) -> Namespace:
        """One namespace; one without labels where there is none or the cluster does not answer."""
        found = (await self.all()).get(name)
        if found is not None:
            return found
        try:
            obj = await self._kube.get(NAMESPACES, name)
        except NotFound:
            return Namespace(name)
        except ApiError as error:
            log.warning("a namespace cannot be read", namespace=name, error=str(error))
            return Namespace(name)
        return _read(obj)

    async def owned_by(self, user: str) -> frozenset[str]:
        """The names of a user's namespaces."""
        return frozenset(space.name for space in (await self.all()).values() if space.owner == user)

    async def all(self) -> dict[str, Namespace]:
        """Every namespace by name, as of the last few seconds."""
        now = self._clock()
        if self._listed_at is None or now - self._listed_at > KEPT_SECONDS:
            try:
                listed = await self._kube.list(NAMESPACES)
            except ApiError as error:
                log.warning("namespaces cannot be listed", error=str(error))
                return {}
            self._known = {space.name: space for space in map(_read, listed.items)}
            self._listed_at = now
        return self._known


def _read(obj: dict[str, Any]) -> Namespace:
    meta = obj["metadata"]
    name = str(meta["name"])
    labels = {"kubernetes.io/metadata.name": name} | (meta.get("labels") or {})
    return Namespace(name, labels, meta.get("annotations") or {})
