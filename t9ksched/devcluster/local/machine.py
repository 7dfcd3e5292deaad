"""A machine as a node: what it has, what it can do for containers, and the containers that run on it already."""

import os
import platform
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from t9ksched.devcluster.controllers.timers import system_clock, to_text
from t9ksched.devcluster.controllers.volumes import PROVISIONER
from t9ksched.devcluster.local import cgroups, gpus
from t9ksched.devcluster.local.cgroups import Cgroups
from t9ksched.devcluster.local.gpus import Card
from t9ksched.devcluster.local.names import Names, Ports
from t9ksched.devcluster.local.runtime import Runtime, mounts_possible
from t9ksched.kube.errors import AlreadyExists, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, STORAGECLASSES
from t9ksched.model.names import CARD_MODE_ANNOTATION, HONOURS_INDEX
from t9ksched.model.resources import NVIDIA_GPU

Object = dict[str, Any]
ENGINE: Final = "local://"
"""How the version of the container runtime begins on a node that is a machine."""
ADDRESS: Final = "127.0.0.1"
STORAGE_CLASS: Final[Object] = {
    "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "volumeBindingMode": "Immediate",
    "reclaimPolicy": "Retain",
}
"""Of claims that name none: their volumes are directories in the data directory, and are never removed."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_LEAST_RESERVED: Final = 256 << 20
_RESERVED_SHARE: Final = 20
"""One part of so many of the memory is left to everything else on the machine."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class NotPossible(Exception):
    """A machine cannot be a node; the text says why."""


class Machine(msgspec.Struct):
    """The machine on which this runs.

    Attributes:
        cards: what the node offers, by the indices that the scheduler decides on.
        no_mounts: why processes cannot have mounts of their own; empty if they can.
        kept: containers of an earlier run that run on.
        lost: containers of an earlier run that were found without their supervisor.
        claims: where volumes of claims are made.
    """

    name: str
    runtime: Runtime
    names: Names
    ports: Ports
    limits: Cgroups
    cards: tuple[Card, ...] = ()
    no_mounts: str = ""
    kept: int = 0
    lost: int = 0
    notes: tuple[str, ...] = ()
    claims: Path = msgspec.field(default_factory=Path)

    @classmethod
    async def open(cls, folder: Path) -> "Machine":
        """The machine on which this runs; what it must remember is in `folder`. Containers that run already are found.

        Raises:
            NotPossible: the system has not what this needs.
        """
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            raise NotPossible(f"a node of this machine needs Linux, and this is {platform.system()}")
        runtime = Runtime(folder)
        kept, lost = runtime.adopt()
        names = Names(folder / "hosts")
        if not kept:
            names.clear()
        found = gpus.find(os.environ)
        return cls(
            name=node_name(socket.gethostname()),
            runtime=runtime,
            names=names,
            ports=Ports(folder / "ports.json"),
            limits=cgroups.find(str(folder)),
            cards=found.cards,
            no_mounts=await mounts_possible(),
            kept=kept,
            lost=lost,
            notes=found.notes,
            claims=folder / "claims",
        )

    def node(self) -> Object:
        """The Node object."""
        cpus, memory = _cpus(), _memory()
        kept_back = max(_LEAST_RESERVED, memory // _RESERVED_SHARE)
        capacity = {"cpu": str(cpus), "memory": f"{memory >> 20}Mi", "pods": "110"}
        allocatable = capacity | {"memory": f"{max(0, memory - kept_back) >> 20}Mi"}
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
        }
        if self.cards:
            capacity[NVIDIA_GPU] = allocatable[NVIDIA_GPU] = str(len(self.cards))
            labels |= _card_labels(self.cards)
        now = to_text(system_clock())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "processes run on this machine",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": {CARD_MODE_ANNOTATION: HONOURS_INDEX}},
            "spec": {},
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": [ready | times],
                "addresses": [
                    {"type": "InternalIP", "address": ADDRESS},
                    {"type": "Hostname", "address": self.name},
                ],
                "nodeInfo": {
                    "machineID": "",
                    "systemUUID": "",
                    "bootID": "",
                    "kernelVersion": platform.release(),
                    "osImage": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
                    "containerRuntimeVersion": f"{ENGINE}1",
                    "kubeletVersion": "v1.34.0-local",
                    "kubeProxyVersion": "",
                    "operatingSystem": "linux",
                    "architecture": _architecture(),
                },
            },
        }

    async def register(self, port: ClusterPort) -> None:
        """Make the node, or tell what it has now. What others wrote on it stays: cordons, labels of their own."""
        with suppress(AlreadyExists):
            await port.create(STORAGECLASSES, STORAGE_CLASS)
        node = self.node()
        try:
            found = await port.get(NODES, self.name)
        except NotFound:
            created = await port.create(NODES, node)
            if created["spec"].get("taints"):
                await port.patch(NODES, self.name, None, {"spec": {"taints": None}})
            return
        fresh = node["status"]
        for amounts in ("capacity", "allocatable"):
            fresh[amounts] = dict.fromkeys((found.get("status") or {}).get(amounts) or {}) | fresh[amounts]
        await port.patch(NODES, self.name, None, {"metadata": {"labels": node["metadata"]["labels"]}})
        await port.patch(NODES, self.name, None, {"status": fresh}, subresource="status")


def node_name(host: str) -> str:
    """A name that a node may have, of the machine's own."""
    return _NOT_IN_NAMES.sub("-", host.lower())[:57].strip(".-") or "here"


def is_machine(node: Object) -> bool:
    """Whether a node is a machine on which processes run, not a simulated one."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion", "")).startswith(ENGINE)


def _card_labels(cards: tuple[Card, ...]) -> dict[str, str]:
    product = _NOT_IN_LABELS.sub("-", cards[0].model)[:63].strip("-_.")
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(min(card.memory for card in cards)),
        "nvidia.com/gpu.count": str(len(cards)),
        "nvidia.com/gpu.replicas": "1",
    }


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _cpus() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
