"""HAMi: the cards by their UUIDs in one text for all containers, behind a lock on the node.

The node's device plugin gives a container the cards of the pod that holds the lock, so one pod is bound to a node at a
time (`hami_lock.py`). The text has `UUID,NVIDIA,MiB,percent:` for each card and `;` after each container, init
containers first; one without cards leaves its place empty. It is written twice: the plugin takes what it has given out
of `devices-to-allocate`, and leaves `devices-allocated`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from msgspec import structs

from t9ksched.kube.write.binding import Protocol
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.hami_lock import ALLOCATING, BIND_PHASE, NodeLock
from t9ksched.model.card_peak import peak
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, ContainerGrant, ContainerKind
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.resources import NVIDIA_GPU
from t9ksched.model.whole import whole_number

VGPU_NODE: Final = "hami.io/vgpu-node"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
WORDS: Final = (VGPU_NODE, TO_ALLOCATE, ALLOCATED, BIND_PHASE)
"""Annotations by which nodes and schedulers of HAMi take a pod for the holder of cards."""
_VENDOR: Final = "NVIDIA"
_PERCENT: Final = 100
_THOUSANDTHS: Final = CORES // _PERCENT
_LARGEST: Final = (1 << 31) - 1
_LONGEST: Final = 64 * 1024
_MOST_NODES: Final = 1 << 14
_LOCK: Final = NodeLock()
Given = tuple[str, ContainerKind, tuple[CardPart, ...]]
"""A container, and what it has."""


@dataclass(frozen=True)
class HamiDevices(CardDialect):
    """The words for one node, whose cards it has by index."""

    node: str
    cards: tuple[CardSize, ...]
    protocol: Protocol | None = _LOCK

    def keys(self, pod: PodClass) -> tuple[str, ...]:
        return VGPU_NODE, ALLOCATED

    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        text = self._text(pod, held)
        return {VGPU_NODE: self.node, ALLOCATED: text} if text else {}

    def write_once(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        text = self._text(pod, held)
        return {TO_ALLOCATE: text} if text else {}

    def _text(self, pod: PodClass, held: CardGrant) -> str:
        """The cards of all containers; empty where one of them has no UUID here."""
        if not held:
            return ""
        parts = {part.index: part for part in held.parts if part.resource == NVIDIA_GPU}
        given = {request.container: (request, indices) for request, indices in held.split(pod.cards)}
        names = pod.containers or tuple(given)
        found = []
        for name in names:
            of_container = []
            request, indices = given.get(name, (None, ()))
            for index in indices:
                size, part = self.cards[index] if index < len(self.cards) else None, parts.get(index)
                if size is None or not size.uuid or part is None:
                    return ""
                if held.given and request is not None:  # the part of this container, not of all
                    part = request.part_of(index, size)
                of_container.append(f"{size.uuid},{_VENDOR},{part.memory},{part.cores // _THOUSANDTHS}:")
            found.append("".join(of_container) + ";")
        return "".join(found)

    def read(self, pod: PodClass, annotations: Mapping[str, str]) -> CardGrant:
        text = annotations.get(ALLOCATED, "")
        if annotations.get(VGPU_NODE) != self.node or not text or len(text) > _LONGEST:
            return NO_CARDS
        given = self._given(pod, text)
        if not given or len(given) != max(len(pod.containers), 1):
            return NO_CARDS
        most = peak([(kind, parts) for _, kind, parts in given])
        held = (structs.replace(part, cores=min(part.cores, CORES)) for part in most)
        return CardGrant.of_parts(held, self._by_container(pod, given))

    @staticmethod
    def _by_container(pod: PodClass, given: list[Given]) -> list[ContainerGrant]:
        """Which of its containers has which cards, where several ask for parts."""
        indices = {name: tuple(sorted(part.index for part in parts)) for name, _, parts in given}
        asking = [one.container for one in pod.cards if one.resource == NVIDIA_GPU]
        return [(name, NVIDIA_GPU, indices.get(name, ())) for name in asking] if len(asking) > 1 else []

    def _whole(self, part: CardPart) -> CardPart:
        """With all its cores a pod has the card alone."""
        memory = self.cards[part.index].memory if part.cores >= CORES else part.memory
        return CardPart(part.resource, part.index, min(part.cores, CORES), memory)

    def _given(self, pod: PodClass, text: str) -> list[Given]:
        """What each container has; nothing where a part of the text means nothing."""
        kinds = {request.container: request.kind for request in pod.cards}
        known = {size.uuid: index for index, size in enumerate(self.cards) if size.uuid}
        found: list[Given] = []
        for at, one in enumerate(text.removesuffix(";").split(";")):
            name = pod.containers[at] if at < len(pod.containers) else ""
            parts = []
            for device in one.removesuffix(":").split(":") if one else ():
                fields = device.split(",")
                if len(fields) != 4 or fields[0] not in known:
                    return []
                memory, cores = whole_number(fields[2]), whole_number(fields[3])
                if memory is None or cores is None or memory > _LARGEST or cores > _LARGEST:
                    return []
                parts.append(self._whole(CardPart(NVIDIA_GPU, known[fields[0]], cores * _THOUSANDTHS, memory)))
            found.append((name, kinds.get(name, "main"), tuple(parts)))
        return found

    def agrees(self, key: str, said: str, written: str) -> bool:
        """The order of a container's cards means nothing: it is that of their indices when they were given."""
        return said == written or (key == ALLOCATED and len(said) == len(written) and _cards(said) == _cards(written))

    def leaves(self, key: str, said: str, written: Mapping[str, str]) -> bool:
        if key != TO_ALLOCATE:
            return key == BIND_PHASE
        left, given = ([one for each in _cards(text) for one in each] for text in (said, written.get(ALLOCATED, "")))
        return not set(left) - {"", *given}

    def unanswered(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(BIND_PHASE) == ALLOCATING


def _cards(text: str) -> list[list[str]]:
    """The cards of each container as the text has them, in an order of their own."""
    return [sorted(one.split(":")) for one in text.split(";")]


@lru_cache(maxsize=_MOST_NODES)
def _dialect(node: str, cards: tuple[CardSize, ...]) -> HamiDevices:
    return HamiDevices(node, cards)


def hami_dialect(node: NodeFacts) -> CardDialect:
    """The dialect of a node of HAMi."""
    return _dialect(node.name, node.cards.divided.get(NVIDIA_GPU, ()))
