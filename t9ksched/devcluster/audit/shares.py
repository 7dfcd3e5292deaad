"""The auditor's account of parts of cards: mGPU gives containers percent of the cores and MiB of the memory of a card.

Which card a container has stands in an annotation of its pod; how much of it, in the container's limits. Like
`auditor.py` it reads the documents anew and shares no code with what it audits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeVar

import msgspec

Object = dict[str, Any]
Card = TypeVar("Card", int, str)
Fault = tuple[str, str]
"""Kind and detail of a finding."""

_CORE: Final = "vke.volcengine.com/mgpu-core"
_MEMORY: Final = "vke.volcengine.com/mgpu-memory"
_COUNTS: Final = "vke.volcengine.com/container-multiple-gpu"
_NAMED: Final = "vke.volcengine.com/gpu-index-container-"
_GIVEN: Final = "devcluster.tensorstack.dev/cards-container-"
_CARD: Final = 100
OF_EACH_CARD: Final = frozenset(
    {"nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "koordinator.sh/gpu.shared"}
)
"""Resources that say how much of each of its cards a container needs; nodes do not offer them."""


class Part(msgspec.Struct, frozen=True):
    """What a pod has of one card at its peak; `whole` when it is to have it alone."""

    core: Fraction
    memory: Fraction
    whole: bool


def asks_for_parts(asks: Mapping[str, Fraction]) -> bool:
    """Whether a container asks for cards of mGPU."""
    return bool(asks.get(_CORE))


def parts_of(pod: Object, asks: Mapping[str, Mapping[str, Fraction]]) -> tuple[dict[int, Part], list[Fault]]:
    """The parts of a pod by card, and what is wrong with how they are named. `asks` are the amounts of containers."""
    annotations, spec = pod["metadata"].get("annotations") or {}, pod["spec"]
    counts = [part.strip() for part in str(annotations.get(_COUNTS, "")).split(",")]
    moments: list[dict[int, Part]] = []
    faults: list[Fault] = []
    sidecars: dict[int, Part] = {}
    steps = spec.get("initContainers") or []
    mains: dict[int, Part] = {}
    for container, at in [*((one, -1) for one in steps), *((one, at) for at, one in enumerate(spec["containers"]))]:
        name, asked = container["name"], asks[container["name"]]
        if not asks_for_parts(asked):
            continue
        told = counts[at] if 0 <= at < len(counts) and counts[at].isdecimal() else ""
        count = int(told) if told and int(told) else max(1, int(asked[_CORE] / _CARD))
        core = asked[_CORE] / count
        text = annotations.get(_GIVEN + name, annotations.get(_NAMED + name))
        if text is None or not re.fullmatch("[0-9]{1,9}(,[0-9]{1,9})*", text):
            faults.append(("CardsUnreadable", f"{name} asks for {count} cards of mGPU, and they are named {text!r}"))
            continue
        indices = {int(index) for index in text.split(",")}
        if len(indices) != count:
            faults.append(("CardCountMismatch", f"{name} asks for {count} cards of mGPU and has {text!r}"))
        whole = core >= _CARD
        own = dict.fromkeys(indices, Part(core, asked.get(_MEMORY, Fraction(0)) / count, whole))
        if at >= 0:
            mains = add_up(mains, own)
        elif container.get("restartPolicy") == "Always":
            sidecars = add_up(sidecars, own)
        else:
            moments.append(add_up(sidecars, own))
    moments.append(add_up(mains, sidecars))
    return peak(moments), faults


def peak(moments: Iterable[Mapping[Card, Part]]) -> dict[Card, Part]:
    """The most that a pod has of each card at one of these moments."""
    found: dict[Card, Part] = {}
    for moment in moments:
        for index, part in moment.items():
            known = found.get(index, part)
            found[index] = Part(max(known.core, part.core), max(known.memory, part.memory), known.whole or part.whole)
    return found


def add_up(left: Mapping[Card, Part], right: Mapping[Card, Part]) -> dict[Card, Part]:
    """What two that run at the same time have of each card."""
    found = dict(left)
    for index, part in right.items():
        known = found.get(index, Part(Fraction(0), Fraction(0), whole=False))
        found[index] = Part(known.core + part.core, known.memory + part.memory, known.whole or part.whole)
    return found


class SharedCards(msgspec.Struct):
    """The cards of one node and what pods have of them, by index and UID."""

    count: int = 0
    memory: Fraction = Fraction(0)
    holders: dict[int, dict[str, tuple[str, Part]]] = msgspec.field(default_factory=dict)

    def update(self, allocatable: Mapping[str, Fraction]) -> None:
        """Take over what the node has now."""
        self.count = int(allocatable.get(_CORE, Fraction(0)) / _CARD)
        self.memory = allocatable.get(_MEMORY, Fraction(0)) / max(1, self.count)

    def leave(self, uid: str) -> None:
        """The pod has nothing any more."""
        for holders in self.holders.values():
            holders.pop(uid, None)

    def enter(self, uid: str, name: str, parts: Mapping[int, Part]) -> Iterator[tuple[Fault, tuple[str, ...]]]:
        """The pod has these parts: what is wrong now, and whom it concerns."""
        for index, part in sorted(parts.items()):
            if index >= self.count:
                detail = f"{name} has card {index} of mGPU; the node has {self.count}"
                yield ("CardOutOfRange", detail), (name,)
            holders = self.holders.setdefault(index, {})
            holders[uid] = (name, part)
            names = tuple(sorted(holder for holder, _ in holders.values()))
            if len(holders) > 1 and any(one.whole for _, one in holders.values()):
                detail = f"card {index} of mGPU is whole for one of {' and '.join(names)}"
                yield ("CardGivenTwice", detail), names
                continue
            core = sum((one.core for _, one in holders.values()), Fraction(0))
            memory = sum((one.memory for _, one in holders.values()), Fraction(0))
            if core > _CARD or memory > self.memory:
                detail = (
                    f"card {index} of mGPU: {float(core):g} % of its cores and {float(memory):g} of its "
                    f"{float(self.memory):g} MiB are given to {' and '.join(names)}"
                )
                yield ("CardOvershared", detail), names
