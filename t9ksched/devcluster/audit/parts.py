"""The auditor's accounts of all systems that give parts of cards: mGPU and gpushare by index, HAMi by UUID, Koordinator
by minor.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from t9ksched.devcluster.audit.deviceshares import DeviceShares, Given, devices_given
from t9ksched.devcluster.audit.hamishares import Object, RegisteredCards, parts_given
from t9ksched.devcluster.audit.memoryshares import MemoryShares, memory_given
from t9ksched.devcluster.audit.shares import Fault, Part, SharedCards, asks_for_parts, parts_of


class PodParts(msgspec.Struct):
    """What one pod has of cards: of those of mGPU, HAMi, gpushare and Koordinator."""

    indexed: dict[int, Part] = msgspec.field(default_factory=dict)
    registered: dict[str, Part] = msgspec.field(default_factory=dict)
    memory: dict[int, Fraction] = msgspec.field(default_factory=dict)
    devices: dict[int, Given] = msgspec.field(default_factory=dict)


def read_parts(pod: Object, asks: Mapping[str, Mapping[str, Fraction]]) -> tuple[PodParts, list[Fault]]:
    """The parts of a pod, and what is wrong with them. `asks` are the amounts of containers."""
    indexed, faults = parts_of(pod, asks) if any(map(asks_for_parts, asks.values())) else ({}, [])
    registered, more = parts_given(pod, asks)
    memory, others = memory_given(pod, asks)
    devices, last = devices_given(pod, asks)
    return PodParts(indexed, registered, memory, devices), faults + more + others + last


class NodeParts(msgspec.Struct):
    """The divided cards of one node, and who has what of them."""

    indexed: SharedCards = msgspec.field(default_factory=SharedCards)
    registered: RegisteredCards = msgspec.field(default_factory=RegisteredCards)
    memory: MemoryShares = msgspec.field(default_factory=MemoryShares)
    devices: DeviceShares = msgspec.field(default_factory=DeviceShares)

    def update(self, allocatable: Mapping[str, Fraction], annotations: Mapping[str, str]) -> None:
        """Take over what the node has now."""
        self.indexed.update(allocatable)
        self.registered.update(annotations)
        self.memory.update(allocatable)

    def leave(self, uid: str) -> None:
        """The pod has nothing any more."""
        self.indexed.leave(uid)
        self.registered.leave(uid)
        self.memory.leave(uid)
        self.devices.leave(uid)

    def enter(self, uid: str, name: str, parts: PodParts) -> Iterator[tuple[Fault, tuple[str, ...]]]:
        """The pod has these parts: what is wrong now, and whom it concerns."""
        yield from self.indexed.enter(uid, name, parts.indexed)
        yield from self.registered.enter(uid, name, parts.registered)
        yield from self.memory.enter(uid, name, parts.memory)
        yield from self.devices.enter(uid, name, parts.devices)
