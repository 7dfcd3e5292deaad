"""Nodes of Koordinator, as its node agent and its controller make them known."""

from contextlib import suppress
from typing import Any

from t9ksched.kube.errors import AlreadyExists, NotFound
from t9ksched.kube.resources import KOORDINATOR_DEVICES
from tests.integration.world import World

CORE, MEMORY, RATIO = (f"koordinator.sh/gpu-{name}" for name in ("core", "memory", "memory-ratio"))
GPU, SHARED = "koordinator.sh/gpu", "koordinator.sh/gpu.shared"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
SEEN = "devcluster.tensorstack.dev/visible-devices-container-main"
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "devices.scheduling.koordinator.sh"},
    "spec": {
        "group": "scheduling.koordinator.sh",
        "scope": "Cluster",
        "names": {"kind": "Device", "listKind": "DeviceList", "plural": "devices", "singular": "device"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


def card(minor: int, memory: str = "80Gi", **more: Any) -> dict[str, Any]:
    """One device as koordlet reports it."""
    resources = {CORE: "100", MEMORY: memory, RATIO: "100"}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources, **more}


async def serve(world: World) -> None:
    """Have the server know the kind."""
    with suppress(AlreadyExists):
        await world.define(DEFINITION)


async def report(world: World, devices: list[Any], node: str = "", labels: dict[str, str] | None = None) -> None:
    """Say which cards a node has, the first one unless another is named."""
    await serve(world)
    name = node or world.nodes[0]
    try:
        body = {"metadata": {"labels": labels}, "spec": {"devices": devices}}
        await world.client.patch(KOORDINATOR_DEVICES, name, None, body)
    except NotFound:
        made = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"devices": devices},
        }
        await world.create_shared(KOORDINATOR_DEVICES, made)


async def play(world: World, devices: list[Any] | None = None, cards: int = 2, each: int = 80, nodes: int = 1) -> None:
    """Nodes with these devices; the sums are those of `cards` cards with `each` GiB."""
    sums = {GPU: 100 * cards, CORE: 100 * cards, MEMORY: f"{each * cards}Gi", RATIO: 100 * cards}
    offered = {"cpu": "64", "memory": "256Gi", **{name: str(amount) for name, amount in sums.items()}}
    await world.play(nodes, allocatable=offered)
    for node in world.nodes:
        await report(world, devices if devices is not None else [card(minor) for minor in range(cards)], node)
