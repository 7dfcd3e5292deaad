"""Random histories of nodes that divide cards as HAMi, gpushare and Koordinator do: how each names cards."""

import json
from typing import Any, ClassVar

from t9ksched.model.koordinator import DeviceReport
from t9ksched.model.node import decode_node
from t9ksched.model.pod import Metadata
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.bindings import CardBinding
from tests.property.parts import Amounts, History

GPU, ALLOCATED = "nvidia.com/gpu", "hami.io/vgpu-devices-allocated"
MEMORY_OF_ONE, GPUSHARE = "aliyun.com/gpu-mem", "ALIYUN_COM_GPU_MEM_"
KOORDINATOR, KOORDINATOR_GPU = "koordinator.sh/gpu-core", "koordinator.sh/gpu"
DEVICES = "scheduling.koordinator.sh/device-allocated"


class HamiHistory(History):
    """The same on nodes of HAMi: cards are named by UUID, and amounts are those of each card."""

    resource = GPU
    forged = (ALLOCATED, "hami.io/vgpu-node", "hami.io/bind-phase")
    texts = (
        "",
        ";",
        "GPU-n0-0,NVIDIA,1,1:;",
        "GPU-n1-1,NVIDIA,256,100:;",
        "GPU-n0-0,NVIDIA,-1,1:;",
        "x" * 9,
        "n0",
        "n1",
    )
    several: ClassVar[dict[str, str]] = {}

    def at(self, node: str, card: int) -> int:
        return self.orders[node].index(card) if node in self.orders else card

    def begin(self) -> ClusterState:
        self.orders: dict[str, list[int]] = getattr(self, "orders", {})
        """By node, the cards in the order of their indices; those whose order never changed are left out."""
        return super().begin()

    def renumber(self) -> None:
        name = self.rng.choice(sorted(self.sizes))
        self.orders[name] = self.rng.sample(range(self.sizes[name][0]), self.sizes[name][0])
        self.state.upsert_node(self.node(name))

    def known(self, row: CardBinding) -> Any:
        uuids = {(one.resource, one.index): one.uuid for one in row.devices or ()}
        return sorted((uuids[part.resource, part.index], part.cores, part.memory) for part in row.grant.parts)

    def node(self, name: str) -> Any:
        cards, memory = self.sizes[name]
        entries = [
            {"id": f"GPU-{name}-{card}", "count": 16, "devmem": memory, "devcore": 100, "health": True}
            | ({"index": at} if (at := self.at(name, card)) else {})
            for card in range(cards)
        ]
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(16 * cards)}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        notes = {"hami.io/node-nvidia-register": json.dumps(entries)}
        meta = {"name": name, "uid": name, "labels": {}, "annotations": notes}
        return decode_node({"metadata": meta, "spec": {}, "status": status})

    def part(self, name: str, core: int, memory: int, cards: int = 1) -> dict[str, Any]:
        return self.container(name, {GPU: cards, "nvidia.com/gpucores": core, "nvidia.com/gpumem": memory})

    def whole(self, name: str, cards: int) -> dict[str, Any]:
        return self.container(name, {GPU: cards})

    def what_it_holds(self, pod: dict[str, Any], node: str) -> dict[int, Amounts]:
        slots = pod["metadata"]["annotations"][ALLOCATED].split(";")
        assert slots.pop() == ""
        steps, mains = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert len(slots) == len(steps) + len(mains)
        has = []
        for container, slot in zip((*steps, *mains), slots, strict=True):
            limits, own = container["resources"]["limits"], {}
            devices = [device.split(",") for device in slot.split(":") if device]
            assert len(devices) == int(limits.get(GPU, 0))
            for uuid, vendor, memory, core in devices:
                _, owner, index = uuid.split("-")
                assert (owner, vendor) == (node, "NVIDIA")
                wanted = limits.get("nvidia.com/gpumem", self.sizes[node][1]), limits.get("nvidia.com/gpucores", 100)
                assert (int(memory), int(core)) == (int(wanted[0]), int(wanted[1]))
                assert int(index) not in own, "cards of one container are different ones"
                own[int(index)] = int(core), int(memory)
            has.append(own)
        return self.peak(pod, has)

    def named(self, node: str, index: int, core: int, memory: int) -> dict[str, str]:
        return {"hami.io/vgpu-node": node, ALLOCATED: f"GPU-{node}-{index},NVIDIA,{memory},{core}:;"}


class GpuShareHistory(History):
    """The same on nodes of gpushare, which divide the memory of cards alone, in MiB."""

    resource = MEMORY_OF_ONE
    cores = 0
    shapes = ("part",)
    forged = (f"{GPUSHARE}IDX", f"{GPUSHARE}POD", f"{GPUSHARE}ASSIGNED")
    texts = ("0", "1", "63", "x", "-1", "", "false", "9" * 30)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sizes = {name: (cards, 32_510) for name, (cards, _) in self.sizes.items()}
        self.state = self.begin()

    def node(self, name: str) -> Any:
        cards, memory = self.sizes[name]
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        amounts |= {MEMORY_OF_ONE: str(cards * memory), "aliyun.com/gpu-count": str(cards)}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        return decode_node({"metadata": {"name": name, "uid": name, "labels": {}}, "spec": {}, "status": status})

    def part(self, name: str, core: int, memory: int, cards: int = 1) -> dict[str, Any]:
        return self.container(name, {MEMORY_OF_ONE: memory * (1 if memory == 256 else 32)})

    def what_it_holds(self, pod: dict[str, Any], node: str) -> dict[int, Amounts]:
        notes = pod["metadata"]["annotations"]
        (amount,) = (
            int(limits[MEMORY_OF_ONE])
            for container in pod["spec"]["containers"]
            if MEMORY_OF_ONE in (limits := container["resources"]["limits"])
        )
        assert notes[f"{GPUSHARE}POD"] == str(amount)
        assert notes[f"{GPUSHARE}DEV"] == str(self.sizes[node][1])
        return {int(notes[f"{GPUSHARE}IDX"]): (0, amount)}

    def named(self, node: str, index: int, core: int, memory: int) -> dict[str, str]:
        return {f"{GPUSHARE}IDX": str(index), f"{GPUSHARE}POD": str(memory)}


class KoordinatorHistory(History):
    """The same on nodes of Koordinator: cards are named by minor, and pods ask in several ways."""

    resource = KOORDINATOR
    shapes = ("part", "part", "part", "whole", "several")
    several: ClassVar[dict[str, str]] = {}
    forged = (DEVICES,)
    texts = (
        "",
        "{",
        "[]",
        '{"gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-memory-ratio": 1}}]}',
        '{"gpu": [{"minor": 63, "resources": {"koordinator.sh/gpu-memory-ratio": 1}}]}',
        '{"gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-memory": "-1"}}]}',
    )

    def begin(self) -> ClusterState:
        state = super().begin()
        for name, (cards, memory) in self.sizes.items():
            resources = {KOORDINATOR: 100, f"{KOORDINATOR_GPU}-memory": f"{memory}Mi"}
            devices = [
                {"type": "gpu", "id": f"{name}-{at}", "minor": at, "health": True, "resources": resources}
                for at in range(cards)
            ]
            state.reported_cards.upsert(DeviceReport(Metadata(name=name), {"devices": devices}))
        return state

    def node(self, name: str) -> Any:
        cards, memory = self.sizes[name]
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", f"{KOORDINATOR_GPU}-memory": f"{cards * memory}Mi"}
        amounts |= dict.fromkeys((KOORDINATOR, KOORDINATOR_GPU, f"{KOORDINATOR_GPU}-memory-ratio"), str(100 * cards))
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        return decode_node({"metadata": {"name": name, "uid": name, "labels": {}}, "spec": {}, "status": status})

    def part(self, name: str, core: int, memory: int, cards: int = 1) -> dict[str, Any]:
        asked = {KOORDINATOR: core * cards, f"{KOORDINATOR_GPU}-memory": memory * cards << 20}
        return self.container(name, asked | ({f"{KOORDINATOR_GPU}.shared": cards} if cards > 1 else {}))

    def whole(self, name: str, cards: int) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            return self.container(name, {KOORDINATOR_GPU: 100 * cards})
        return self.container(name, {KOORDINATOR: 100 * cards, f"{KOORDINATOR_GPU}-memory-ratio": 100 * cards})

    def what_it_holds(self, pod: dict[str, Any], node: str) -> dict[int, Amounts]:
        (limits,) = (
            container["resources"]["limits"]
            for container in pod["spec"]["containers"]
            if len(container["resources"]["limits"]) > 1
        )
        core = int(limits.get(KOORDINATOR, limits.get(KOORDINATOR_GPU, 0)))
        memory = int(limits.get(f"{KOORDINATOR_GPU}-memory", 0)) >> 20
        cards = int(limits.get(f"{KOORDINATOR_GPU}.shared", 0)) or max(1, core // 100)
        each = core // cards, memory // cards or self.sizes[node][1]
        devices = json.loads(pod["metadata"]["annotations"][DEVICES])["gpu"]
        assert len(devices) == cards
        for device in devices:
            given = device["resources"]
            assert int(given[KOORDINATOR]) == each[0]
            assert given[f"{KOORDINATOR_GPU}-memory"] == f"{each[1]}Mi"
            assert int(given[f"{KOORDINATOR_GPU}-memory-ratio"]) == each[1] * 100 // self.sizes[node][1]
        return {device["minor"]: each for device in devices}

    def named(self, node: str, index: int, core: int, memory: int) -> dict[str, str]:
        resources = {KOORDINATOR: str(core), f"{KOORDINATOR_GPU}-memory": f"{memory}Mi"}
        return {DEVICES: json.dumps({"gpu": [{"minor": index, "resources": resources}]})}
