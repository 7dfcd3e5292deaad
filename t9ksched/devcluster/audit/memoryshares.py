"""The auditor's account of gpushare: which card of a node a container got, and how much of its memory it asks for.

Like `auditor.py` it reads the documents anew and shares no code with what it audits.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from t9ksched.devcluster.audit.shares import Fault

Object = dict[str, Any]

_MEMORY: Final = "aliyun.com/gpu-mem"
_COUNT: Final = "aliyun.com/gpu-count"
_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
_GIVEN: Final = "devcluster.tensorstack.dev/gpushare-container-"
_NONE: Final = "-1"


def memory_given(pod: Object, asks: Mapping[str, Mapping[str, Fraction]]) -> tuple[dict[int, Fraction], list[Fault]]:
    """How much of each card a pod has, by index, and what is wrong. `asks` are the amounts of containers."""
    annotations = pod["metadata"].get("annotations") or {}
    found: dict[int, Fraction] = {}
    faults: list[Fault] = []
    for name, asked in asks.items():
        text = annotations.get(_GIVEN + name)
        if text is None:
            continue
        if text == _NONE or text != annotations.get(_INDEX):
            faults.append(("CardsSwapped", f"{name} was given card {text}; {_INDEX} is {annotations.get(_INDEX)!r}"))
        if text.isdecimal():
            found[int(text)] = found.get(int(text), Fraction(0)) + asked.get(_MEMORY, Fraction(0))
    return found, faults


class MemoryShares(msgspec.Struct):
    """The cards of one node and what pods have of their memory, by index and UID."""

    count: int = 0
    memory: Fraction = Fraction(0)
    holders: dict[int, dict[str, tuple[str, Fraction]]] = msgspec.field(default_factory=dict)

    def update(self, allocatable: Mapping[str, Fraction]) -> None:
        """Take over what the node has now."""
        self.count = int(allocatable.get(_COUNT, Fraction(0)))
        self.memory = Fraction(int(allocatable.get(_MEMORY, Fraction(0))) // max(1, self.count))

    def leave(self, uid: str) -> None:
        """The pod has nothing any more."""
        for holders in self.holders.values():
            holders.pop(uid, None)

    def enter(self, uid: str, name: str, parts: Mapping[int, Fraction]) -> Iterator[tuple[Fault, tuple[str, ...]]]:
        """The pod has these parts: what is wrong now, and whom it concerns."""
        for index, amount in sorted(parts.items()):
            if index >= self.count:
                yield ("CardOutOfRange", f"{name} has card {index} of gpushare; the node has {self.count}"), (name,)
            holders = self.holders.setdefault(index, {})
            holders[uid] = (name, amount)
            total = sum((one for _, one in holders.values()), Fraction(0))
            if total > self.memory:
                names = tuple(sorted(holder for holder, _ in holders.values()))
                detail = f"card {index} of gpushare: {float(total):g} of its {float(self.memory):g} are given to "
                yield ("CardOvershared", detail + " and ".join(names)), names
