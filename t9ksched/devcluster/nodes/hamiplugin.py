"""The device plugin of HAMi on a simulated node: which part of which card each container really gets.

The kubelet asks it container by container and does not say for which pod. It takes the pod that holds the lock of the
node, else one that was bound here and waits, and gives the container what stands first in that pod's annotation
`hami.io/vgpu-devices-to-allocate`, which it takes out there. When nothing is left it writes `hami.io/bind-phase:
success` on the pod and takes the lock away; when something is wrong, `failed`. So with two pods at a time one may get
the other's cards. Annotations and amounts are read here anew.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from t9ksched.devcluster.names import DOMAIN
from t9ksched.devcluster.nodes.deviceplugin import CardsRefused
from t9ksched.kube.errors import Conflict
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model.quantity import parse

Object = dict[str, Any]

REGISTER: Final = "hami.io/node-nvidia-register"
GIVEN_PREFIX: Final = f"{DOMAIN}/hami-container-"
"""Annotation of a running pod, one a container: what the plugin gave it, `UUID,NVIDIA,MiB,percent:` for each card."""
_LOCK: Final = "hami.io/mutex.lock"
_PHASE: Final = "hami.io/bind-phase"
_TIME: Final = "hami.io/bind-time"
_NODE: Final = "hami.io/vgpu-node"
_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
_GPU: Final = "nvidia.com/gpu"
_PARTS: Final = ("nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage")


class _Card(msgspec.Struct, frozen=True):
    memory: int
    cores: int
    count: int
    healthy: bool


class Device(msgspec.Struct, frozen=True):
    """What a container has of one card: MiB and percent of the cores."""

    uuid: str
    memory: int
    cores: int


class HamiCards(msgspec.Struct):
    """The cards of one node, and what pods have of them; `name` is the node's."""

    name: str
    cards: dict[str, _Card] = msgspec.field(default_factory=dict)
    held: dict[str, list[Device]] = msgspec.field(default_factory=dict)
    """By UID of the pod."""
    dying: set[str] = msgspec.field(default_factory=set)
    """Cards that cannot be given although they are registered as healthy."""
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def update(self, annotations: Mapping[str, str]) -> None:
        """Take over what is registered now; nothing where that cannot be read."""
        try:
            entries = json.loads(annotations.get(REGISTER) or "[]")
            self.cards = {
                entry["id"]: _Card(
                    int(entry["devmem"]),
                    int(entry.get("devcore", 0)),
                    int(entry.get("count", 0)),
                    bool(entry.get("health")),
                )
                for entry in entries
                if isinstance(entry, dict) and isinstance(entry.get("id"), str) and "devmem" in entry
            }
        except (ValueError, TypeError, RecursionError):
            self.cards = {}

    async def allocate(self, port: ClusterPort, pod: Object) -> dict[str, str]:
        """Give each container of a pod its cards, as the kubelet asks for them.

        Returns:
            the annotations that record it.

        Raises:
            CardsRefused: the plugin failed; the pod that it took for this one says so, if there is one.
        """
        async with self.turn:
            given: dict[str, list[Device]] = {}
            for name, count in _asking(pod):
                given[name] = await self._one(port, count)
            self.held[pod["metadata"]["uid"]] = [each for devices in given.values() for each in devices]
        return {
            GIVEN_PREFIX + name: "".join(f"{each.uuid},NVIDIA,{each.memory},{each.cores}:" for each in devices)
            for name, devices in given.items()
        }

    def restore(self, pod: Object) -> None:
        """Take in a pod that runs already."""
        texts = [text for key, text in _notes(pod).items() if key.startswith(GIVEN_PREFIX)]
        fields = [part.split(",") for text in texts for part in text.split(":") if part]
        if fields:
            self.held[pod["metadata"]["uid"]] = [Device(uuid, int(mem), int(core)) for uuid, _, mem, core in fields]

    def release(self, uid: str) -> None:
        """Give back what a pod has."""
        self.held.pop(uid, None)

    async def _one(self, port: ClusterPort, count: int) -> list[Device]:
        """What one container gets that asks for so many cards."""
        pod = await self._pending(port)
        if pod is None:
            raise CardsRefused(f"no binding pod found on node {self.name}")
        slots = _notes(pod).get(_TO_ALLOCATE, "").split(";")
        at = next((at for at, text in enumerate(slots) if text), None)
        try:
            if at is None:
                raise CardsRefused("nothing is left to be allocated")
            devices = [self._device(text) for text in slots[at].split(":") if text]
            if len(devices) != count:
                raise CardsRefused(f"device number not matched: {count} are asked for, {slots[at]!r} are allocated")
        except CardsRefused:
            await self._end(port, pod, {_PHASE: "failed"})
            raise
        slots[at] = ""
        left = ";".join(slots)
        if any(slots):
            await self._write(port, pod, {_TO_ALLOCATE: left})
        else:
            await self._end(port, pod, {_TO_ALLOCATE: left, _PHASE: "success"})
        return devices

    def _device(self, text: str) -> Device:
        fields = text.split(",")
        if len(fields) != 4 or fields[1] != "NVIDIA" or not (fields[2] + fields[3]).isdecimal():
            raise CardsRefused(f"{text!r} is no device")
        card = self.cards.get(fields[0])
        if card is None or not card.healthy or fields[0] in self.dying:
            raise CardsRefused(f"card {fields[0]} is not on node {self.name}, or does not work")
        return Device(fields[0], int(fields[2]), int(fields[3]))

    async def _pending(self, port: ClusterPort) -> Object | None:
        """The pod for which the kubelet asks, as far as the plugin can tell."""
        node = await port.get(NODES, self.name)
        if lock := _notes(node).get(_LOCK):
            parts = lock.split(",")
            if len(parts) != 3:
                raise CardsRefused(f"malformed lock annotation {lock!r}")
            return await port.get(PODS, parts[2], parts[1])
        listed = await port.list(PODS, field_selector=f"spec.nodeName={self.name}")
        for pod in listed.items:
            notes = _notes(pod)
            waits = (pod.get("status") or {}).get("phase") == "Pending" and _TIME in notes
            if waits and notes.get(_PHASE) in ("allocating", "success") and notes.get(_NODE) == self.name:
                return pod
        return None

    async def _end(self, port: ClusterPort, pod: Object, notes: Mapping[str, str]) -> None:
        """Say how it went, and take the lock away if it is this pod's."""
        meta = pod["metadata"]
        await self._write(port, pod, notes)
        while True:
            node = await port.get(NODES, self.name)
            if not _notes(node).get(_LOCK, "").endswith(f",{meta['namespace']},{meta['name']}"):
                return
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version, "annotations": {_LOCK: None}}}
            with suppress(Conflict):  # the node changed meanwhile
                await port.patch(NODES, self.name, None, body)
                return

    @staticmethod
    async def _write(port: ClusterPort, pod: Object, notes: Mapping[str, str]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"annotations": dict(notes)}}
        await port.patch(PODS, meta["name"], meta["namespace"], body)


def asks(pod: Object) -> bool:
    """Whether the kubelet asks the plugin for cards of a pod."""
    return bool(_asking(pod))


def _asking(pod: Object) -> list[tuple[str, int]]:
    spec = pod["spec"]
    found = []
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limits = (container.get("resources") or {}).get("limits") or {}
        count = int(parse(limits.get(_GPU, 0)))
        if not count and any(parse(limits.get(name, 0)) for name in _PARTS):
            count = 1  # as the webhook of HAMi, or one that does the same, has completed it
        if count:
            found.append((container["name"], count))
    return found


def _notes(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}
