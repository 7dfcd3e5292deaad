"""The names that exist in the cluster: resources and labels of nodes, resource shape profiles. REST warns a user whose
queue or job uses other names.
"""

import asyncio
from collections import Counter, defaultdict
from typing import Any, Final

import structlog

from t9ksched.admission.oddities import Vocabulary
from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.model.text import YamlFault, read
from t9ksched.model.volumes import counts_volumes
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

SHAPES: Final = "resource-shapes"
"""The ConfigMap of the profiles; they are under the key `config.yaml`."""
MOST_VALUES: Final = 10_000
"""Of a label with more values than this, only the key is returned."""
_NODES_A_SLICE: Final = 200
_KEPT_SECONDS: Final = 5.0


class Names:
    """Collects the vocabulary; an answer is good for five seconds."""

    def __init__(self, client: ClusterPort, state: ClusterState) -> None:
        self._client = client
        self._state = state
        self._known = Vocabulary()
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def known(self) -> Vocabulary:
        """The names there are."""
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() >= self._until:
                self._known = await self._read()
                self._until = loop.time() + _KEPT_SECONDS
        return self._known

    async def _read(self) -> Vocabulary:
        resources: Counter[str] = Counter()
        labels: defaultdict[str, set[str]] = defaultdict(set)
        for count, (_, facts) in enumerate(list(self._state.node_objects.values()), start=1):
            resources.update(name for name in facts.allocatable if not counts_volumes(name))
            for key, value in facts.labels.items():
                labels[key].add(value)
            if count % _NODES_A_SLICE == 0:
                await asyncio.sleep(0)
        common = sorted(resources, key=lambda name: (-resources[name], name))
        values = {key: frozenset(found) if len(found) <= MOST_VALUES else None for key, found in labels.items()}
        return Vocabulary(tuple(common), values, await self._profiles())

    async def _profiles(self) -> tuple[str, ...] | None:
        """The profiles' names; None if they cannot be read."""
        try:
            selector = f"metadata.name={SHAPES}"
            found = (await self._client.list(CONFIGMAPS, SYSTEM_NAMESPACE, field_selector=selector)).items
            texts = [(item.get("data") or {}).get("config.yaml") or "" for item in found]
            return tuple(name for text in texts for name in _names(read(text)))
        except (ApiError, YamlFault) as error:
            log.info("the resource shape profiles cannot be read", error=str(error))
            return None


def _names(document: Any) -> list[str]:
    profiles = document.get("profiles") if isinstance(document, dict) else None
    found = [one.get("name") for one in profiles or () if isinstance(one, dict)] if isinstance(profiles, list) else []
    return [name for name in found if isinstance(name, str)]
