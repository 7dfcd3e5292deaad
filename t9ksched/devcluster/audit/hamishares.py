"""The auditor's account of parts of cards of HAMi: what the node's device plugin gave each container, by UUID.

What a node has, it registers in an annotation; what a container asks for stands in its limits, of each card. Like
`auditor.py` it reads the documents anew and shares no code with what it audits.
"""

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from t9ksched.devcluster.audit.shares import Fault, Part, add_up, peak

Object = dict[str, Any]

_REGISTER: Final = "hami.io/node-nvidia-register"
_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_GIVEN: Final = "devcluster.tensorstack.dev/hami-container-"
_GPU: Final = "nvidia.com/gpu"
_CORES: Final = "nvidia.com/gpucores"
_MEMORY: Final = "nvidia.com/gpumem"
_PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
_ALL: Final = 100


def parts_given(pod: Object, asks: Mapping[str, Mapping[str, Fraction]]) -> tuple[dict[str, Part], list[Fault]]:
    """The parts of a pod by UUID, and what is wrong with them. `asks` are the amounts of containers."""
    annotations, spec = pod["metadata"].get("annotations") or {}, pod["spec"]
    if not any(key.startswith(_GIVEN) for key in annotations):
        return {}, []
    named = annotations.get(_ALLOCATED, "").split(";")
    steps, mains = spec.get("initContainers") or [], spec["containers"]
    faults: list[Fault] = []
    beside: dict[str, Part] = {}
    together: dict[str, Part] = {}
    moments: list[dict[str, Part]] = []
    for at, container in enumerate((*steps, *mains)):
        name, asked = container["name"], asks[container["name"]]
        text = annotations.get(_GIVEN + name)
        if text is None:
            continue
        if at >= len(named) or named[at] != text:
            faults.append(("CardsSwapped", f"{name} was given {text!r}; the scheduler named {named!r}"))
        own: dict[str, Part] = {}
        devices = [part.split(",") for part in text.split(":") if part]
        if not all(len(each) == 4 and each[2].isdecimal() and each[3].isdecimal() for each in devices):
            faults.append(("CardsUnreadable", f"{name} was given {text!r}"))
            continue
        for uuid, memory, core in ((each[0], Fraction(each[2]), Fraction(each[3])) for each in devices):
            if (asked.get(_MEMORY, memory), asked.get(_CORES, core)) != (memory, core):
                faults.append(("CardCountMismatch", f"{name} asks for other amounts than {text!r}"))
            if uuid in own:
                faults.append(("CardGivenTwice", f"{name} has the card {uuid} twice"))
            own[uuid] = Part(core, memory, core >= _ALL)
        count = asked.get(_GPU) or int(any(asked.get(part) for part in (_CORES, _MEMORY, _PERCENTAGE)))
        if len(devices) != count:
            faults.append(("CardCountMismatch", f"{name} asks for {count} cards and has {text!r}"))
        if at >= len(steps):
            together = add_up(together, own)
        elif container.get("restartPolicy") == "Always":
            beside = add_up(beside, own)
        else:
            moments.append(add_up(beside, own))
    return peak([*moments, add_up(together, beside)]), faults


class RegisteredCards(msgspec.Struct):
    """The cards of one node and what pods have of them, by UUID of the card and UID of the pod."""

    memory: dict[str, int] = msgspec.field(default_factory=dict)
    holders: dict[str, dict[str, tuple[str, Part]]] = msgspec.field(default_factory=dict)

    def update(self, annotations: Mapping[str, str]) -> None:
        """Take over what the node registers now."""
        try:
            entries = json.loads(annotations.get(_REGISTER) or "[]")
            self.memory = {entry["id"]: int(entry["devmem"]) for entry in entries if {"id", "devmem"} <= entry.keys()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            self.memory = {}

    def leave(self, uid: str) -> None:
        """The pod has nothing any more."""
        for holders in self.holders.values():
            holders.pop(uid, None)

    def enter(self, uid: str, name: str, parts: Mapping[str, Part]) -> Iterator[tuple[Fault, tuple[str, ...]]]:
        """The pod has these parts: what is wrong now, and whom it concerns."""
        for uuid, part in sorted(parts.items()):
            if uuid not in self.memory:
                yield ("CardOutOfRange", f"{name} has card {uuid}, which the node does not register"), (name,)
                continue
            holders = self.holders.setdefault(uuid, {})
            holders[uid] = (name, part)
            names = tuple(sorted(holder for holder, _ in holders.values()))
            if len(holders) > 1 and any(one.whole for _, one in holders.values()):
                yield ("CardGivenTwice", f"card {uuid} is whole for one of {' and '.join(names)}"), names
                continue
            core = sum((one.core for _, one in holders.values()), Fraction(0))
            memory = sum((one.memory for _, one in holders.values()), Fraction(0))
            if core > _ALL or memory > self.memory[uuid]:
                detail = (
                    f"card {uuid}: {float(core):g} % of its cores and {float(memory):g} of its {self.memory[uuid]} MiB"
                    f" are given to {' and '.join(names)}"
                )
                yield ("CardOvershared", detail), names
