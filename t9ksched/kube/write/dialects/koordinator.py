"""Koordinator: the cards of a pod, by their minors and with what it has of each, as JSON in one annotation.

A hook of the node's agent (koordlet) reads the annotation of that very pod when it creates a container, and lets all
its containers see these cards. The binding writes it, so there is no moment at which the pod is bound without it, and
nothing is to be prepared or awaited. Koordinator's own scheduler reads it too, and leaves these cards to the pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.card_requests import KOORDINATOR_CORE, KOORDINATOR_MEMORY, KOORDINATOR_RATIO
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import QuantityError, to_units

ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
_GPU: Final = "gpu"
_PERCENT: Final = 100
_THOUSANDTHS: Final = CORES // _PERCENT
_MIB: Final = 1 << 20
_LONGEST: Final = 64 * 1024
_MOST_NODES: Final = 1 << 14


class _Given(msgspec.Struct, gc=False):
    minor: int
    resources: dict[str, str | int | float]

    def amount(self, resource: str) -> int | None:
        """In units, None where it says nothing; raises QuantityError."""
        value = self.resources.get(resource)
        return None if value is None else to_units(resource, value)


class _Allocated(msgspec.Struct, gc=False):
    gpu: list[_Given] = []


@dataclass(frozen=True)
class DeviceAllocated(CardDialect):
    """The words for nodes with these cards."""

    cards: tuple[CardSize, ...]

    def keys(self, pod: PodClass) -> tuple[str, ...]:
        return (ALLOCATED,)

    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        given: list[dict[str, Any]] = []
        for part in held.parts:
            if part.resource != KOORDINATOR_CORE:
                continue
            size = self.cards[part.index] if part.index < len(self.cards) else None
            if size is None or size.minor < 0:
                return {}
            amounts = {KOORDINATOR_CORE: str(part.cores // _THOUSANDTHS)} if part.cores else {}
            amounts[KOORDINATOR_MEMORY] = f"{part.memory}Mi"
            amounts[KOORDINATOR_RATIO] = str(part.memory * _PERCENT // size.memory)
            given.append({"minor": size.minor, "resources": amounts})
        given.sort(key=lambda one: int(one["minor"]))
        return {ALLOCATED: msgspec.json.encode({_GPU: given}).decode()} if given else {}

    def read(self, pod: PodClass, annotations: Mapping[str, str]) -> CardGrant:
        text = annotations.get(ALLOCATED, "")
        if not text or len(text) > _LONGEST:
            return NO_CARDS
        try:
            said = msgspec.json.decode(text.encode("utf-8", "replace"), type=_Allocated)
            parts = [self._part(one) for one in said.gpu]
        except (msgspec.DecodeError, QuantityError, RecursionError):
            return NO_CARDS
        known = [part for part in parts if part is not None]
        if not len(parts) == len(known) == len({part.index for part in known}):
            return NO_CARDS
        return CardGrant.of_parts(known)

    def _part(self, given: _Given) -> CardPart | None:
        """None where it means no part of a card that there is."""
        index = next((at for at, size in enumerate(self.cards) if size.minor == given.minor and given.minor >= 0), None)
        if index is None:
            return None
        size = self.cards[index]
        cores = given.amount(KOORDINATOR_CORE) or 0
        memory, ratio = given.amount(KOORDINATOR_MEMORY), given.amount(KOORDINATOR_RATIO)
        if not 0 <= cores <= _PERCENT:
            return None
        if memory is None:
            if ratio is None or not 0 <= ratio <= _PERCENT:
                return None
            memory = -(-size.memory * ratio // _PERCENT)
        else:
            memory = -(-memory // _MIB)
        return CardPart(KOORDINATOR_CORE, index, cores * _THOUSANDTHS, memory) if 0 <= memory <= size.memory else None


@lru_cache(maxsize=_MOST_NODES)
def _dialect(cards: tuple[CardSize, ...]) -> DeviceAllocated:
    return DeviceAllocated(cards)


def koordinator_dialect(node: NodeFacts) -> CardDialect:
    """The dialect of a node of Koordinator."""
    return _dialect(node.cards.divided.get(KOORDINATOR_CORE, ()))
