"""gpushare (Alibaba): the index of one card, and how much of its memory, in annotations of the pod.

The node's device plugin does not know for which pod the kubelet asks. It takes the oldest pod of the node that is not
assigned yet and asks for as much, writes `ALIYUN_COM_GPU_MEM_ASSIGNED: "true"` and gives the container that pod's card.
So no pod is bound while another waits there for the same amount, whoever bound it. A container for which the plugin
finds no pod runs without a card: such a pod did not get what it was given.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS
from t9ksched.kube.write.binding import AgentAnswer, Binding, Busy, Outcome, Protocol, post
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.card_requests import GPUSHARE_MEMORY
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.whole import whole_number

INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
OF_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
OF_CARD: Final = "ALIYUN_COM_GPU_MEM_DEV"
ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
WORDS: Final = (INDEX, OF_POD, OF_CARD, ASSIGNED, ASSUME_TIME)
"""Annotations by which the device plugin finds the pod for which a kubelet asks."""
_ENDED: Final = ("Succeeded", "Failed")
_WAITS: Final = "false"


@dataclass(frozen=True)
class OneOfEachAmount(Protocol):
    """Binds a pod when no other of its amount waits on the node. `clock` gives nanoseconds since the epoch."""

    clock: Callable[[], int] = time.time_ns
    name = "gpushare"
    evicts_failed = True

    async def prepare(self, port: ClusterPort, binding: Binding) -> Outcome | None:
        listed = await port.list(PODS, field_selector=f"spec.nodeName={binding.node}")
        amount = binding.annotations.get(OF_POD)
        for pod in listed.items:
            notes, meta = _notes(pod), pod["metadata"]
            waits = notes.get(ASSIGNED) == _WAITS and notes.get(OF_POD) == amount and not _over(pod)
            if waits and meta.get("uid") != binding.uid:
                other = f"{meta.get('namespace', '')}/{meta['name']}"
                return Busy(f"pod {other} on node {binding.node} waits for the same amount ({ASSIGNED} is 'false')")
        return None

    async def bind(self, port: ClusterPort, binding: Binding, *, sent: bool = False) -> Outcome:
        once = {**binding.once, ASSUME_TIME: str(self.clock())}
        return await post(port, msgspec.structs.replace(binding, once=once), sent=sent)

    async def confirm(self, port: ClusterPort, binding: Binding) -> AgentAnswer:
        try:
            pod = await port.get(PODS, binding.name, binding.namespace)
        except NotFound:
            return AgentAnswer.OVER
        if pod["metadata"].get("uid") != binding.uid or _over(pod):
            return AgentAnswer.OVER
        if _notes(pod).get(ASSIGNED) != _WAITS:
            return AgentAnswer.GIVEN
        return AgentAnswer.FAILED if (pod.get("status") or {}).get("phase") == "Running" else AgentAnswer.PENDING


_TURNS: Final = OneOfEachAmount()


@dataclass(frozen=True)
class GpuShare(CardDialect):
    """The words for nodes with these cards."""

    cards: tuple[CardSize, ...]
    protocol: Protocol | None = _TURNS

    def keys(self, pod: PodClass) -> tuple[str, ...]:
        return INDEX, OF_POD

    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        for part in held.parts:
            if part.resource == GPUSHARE_MEMORY and part.index < len(self.cards):
                size = self.cards[part.index]
                amounts = {OF_POD: part.memory // size.unit, OF_CARD: size.memory // size.unit}
                return {INDEX: str(part.index)} | {key: str(amount) for key, amount in amounts.items()}
        return {}

    def write_once(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        return {ASSIGNED: _WAITS} if self.write(pod, held) else {}

    def read(self, pod: PodClass, annotations: Mapping[str, str]) -> CardGrant:
        index, amount = (whole_number(annotations.get(key, "")) for key in (INDEX, OF_POD))
        if index is None or not amount or index >= len(self.cards) or amount > self.cards[index].memory:
            return NO_CARDS
        return CardGrant.of_parts([CardPart(GPUSHARE_MEMORY, index, 0, amount * self.cards[index].unit)])

    def leaves(self, key: str, said: str, written: Mapping[str, str]) -> bool:
        return key in (ASSIGNED, ASSUME_TIME)

    def unanswered(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(ASSIGNED) == _WAITS


def gpushare_dialect(node: NodeFacts) -> CardDialect:
    """The dialect of a node of gpushare."""
    return GpuShare(node.cards.divided.get(GPUSHARE_MEMORY, ()))


def _notes(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED
