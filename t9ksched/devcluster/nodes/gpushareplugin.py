"""The device plugin of gpushare on a simulated node: which card each container really gets.

The kubelet asks it container by container and does not say for which pod. It takes the oldest pod of the node that is
not assigned yet and whose containers ask for as much in all, marks it as assigned, and gives the container the card
that stands in that pod's annotation. Where it finds none, the container starts without a card, but for a node that has
one card only: then it is that. Annotations and amounts are read here anew.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from t9ksched.devcluster.names import DOMAIN
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.model.quantity import parse
from t9ksched.model.whole import whole_number

Object = dict[str, Any]

MEMORY: Final = "aliyun.com/gpu-mem"
COUNT: Final = "aliyun.com/gpu-count"
GIVEN_PREFIX: Final = f"{DOMAIN}/gpushare-container-"
"""Annotation of a running pod, one a container: the index of the card that the plugin gave it, `-1` for none."""
_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"


class GpuShareCards(msgspec.Struct):
    """The cards of one node; `name` is the node's."""

    name: str
    count: int = 0
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def update(self, allocatable: Mapping[str, int]) -> None:
        """Take over what the node offers now."""
        self.count = allocatable.get(COUNT, 0) if allocatable.get(MEMORY) else 0

    async def allocate(self, port: ClusterPort, pod: Object) -> dict[str, str]:
        """Give each container of a pod its card, as the kubelet asks for them: the annotations that record it."""
        async with self.turn:
            return {GIVEN_PREFIX + name: str(await self._one(port, amount)) for name, amount in _asking(pod)}

    async def _one(self, port: ClusterPort, amount: int) -> int:
        listed = await port.list(PODS, field_selector=f"spec.nodeName={self.name}")
        waiting = [pod for pod in listed.items if _notes(pod).get(_ASSIGNED) == "false" and _TIME in _notes(pod)]
        waiting = [pod for pod in waiting if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
        for pod in sorted(waiting, key=lambda pod: whole_number(_notes(pod)[_TIME]) or 0):
            if sum(one for _, one in _asking(pod)) == amount:
                index = whole_number(_notes(pod).get(_INDEX, ""))
                if index is None or index >= self.count:
                    return -1
                meta = pod["metadata"]
                body = {"metadata": {"annotations": {_ASSIGNED: "true"}}}
                await port.patch(PODS, meta["name"], meta["namespace"], body)
                return index
        return 0 if self.count == 1 else -1


def asks(pod: Object) -> bool:
    """Whether the kubelet asks the plugin for cards of a pod."""
    return bool(_asking(pod))


def _asking(pod: Object) -> list[tuple[str, int]]:
    found = []
    for container in pod["spec"].get("containers") or ():
        amount = int(parse(((container.get("resources") or {}).get("limits") or {}).get(MEMORY, 0)))
        if amount:
            found.append((container["name"], amount))
    return found


def _notes(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}
