"""The auditor's account of Koordinator: which cards of a node, by minor, the containers of a pod see, and how much of
each the pod has.

Like `auditor.py` it reads the documents anew and shares no code with what it audits.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from t9ksched.devcluster.audit.shares import Fault

Object = dict[str, Any]

_CORE: Final = "koordinator.sh/gpu-core"
_MEMORY: Final = "koordinator.sh/gpu-memory"
_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
_BOTH: Final = "koordinator.sh/gpu"
_CARDS: Final = "koordinator.sh/gpu.shared"
_SEEN: Final = "devcluster.tensorstack.dev/visible-devices-container-"
_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
_ALL: Final = 100


class Given(msgspec.Struct, frozen=True):
    """Percent of the cores and of the memory of a card."""

    core: Fraction
    ratio: Fraction


def devices_given(pod: Object, asks: Mapping[str, Mapping[str, Fraction]]) -> tuple[dict[int, Given], list[Fault]]:
    """The parts of a pod by minor, and what is wrong. `asks` are the amounts of containers."""
    asking = {name: asked for name, asked in asks.items() if any(asked.get(one) for one in (_BOTH, _MEMORY, _RATIO))}
    annotations = pod["metadata"].get("annotations") or {}
    seen = {key.removeprefix(_SEEN): text for key, text in annotations.items() if key.startswith(_SEEN)}
    if not asking and not seen:
        return {}, []
    if asking and not seen:
        if (pod.get("status") or {}).get("phase") == "Running":
            return {}, [("CardsUnreadable", f"{' and '.join(asking)} asks for cards of Koordinator and sees none")]
        return {}, []
    faults: list[Fault] = []
    minors = {int(minor) for text in seen.values() for minor in text.split(",")}
    named = _named(annotations)
    if named.keys() != minors:
        faults.append(("CardsSwapped", f"it sees the cards {sorted(minors)}; {_ALLOCATED} names {sorted(named)}"))
    core, ratio, count = Fraction(0), Fraction(0), 0
    for asked in asking.values():
        both = asked.get(_BOTH, Fraction(0))
        percent = asked.get(_RATIO, Fraction(0)) or both
        cards = int(asked.get(_CARDS, 0)) or max(1, int(percent // _ALL))
        core += (asked.get(_CORE, Fraction(0)) or both) / cards
        ratio += percent / cards
        count += cards
    if asking and count != len(minors):
        faults.append(("CardCountMismatch", f"it asks for {count} cards of Koordinator and sees {sorted(minors)}"))
    least = Given(core, ratio)
    return {minor: _larger(least, named.get(minor, least)) for minor in minors}, faults


def _larger(left: Given, right: Given) -> Given:
    return Given(max(left.core, right.core), max(left.ratio, right.ratio))


def _percent(value: object) -> Fraction:
    """A whole number of at most nine digits; raises ValueError."""
    if not re.fullmatch("[0-9]{1,9}", str(value)):
        raise ValueError(value)
    return Fraction(str(value))


def _named(annotations: Mapping[str, str]) -> dict[int, Given]:
    """What the annotation says, by minor."""
    try:
        return {
            int(one["minor"]): Given(*(_percent(one["resources"].get(name, 0)) for name in (_CORE, _RATIO)))
            for one in json.loads(annotations.get(_ALLOCATED, "{}")).get("gpu") or ()
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return {}


class DeviceShares(msgspec.Struct):
    """What pods have of the cards of one node, by minor and UID."""

    holders: dict[int, dict[str, tuple[str, Given]]] = msgspec.field(default_factory=dict)

    def leave(self, uid: str) -> None:
        """The pod has nothing any more."""
        for holders in self.holders.values():
            holders.pop(uid, None)

    def enter(self, uid: str, name: str, parts: Mapping[int, Given]) -> Iterator[tuple[Fault, tuple[str, ...]]]:
        """The pod has these parts: what is wrong now, and whom it concerns."""
        for minor, part in sorted(parts.items()):
            holders = self.holders.setdefault(minor, {})
            holders[uid] = (name, part)
            core = sum((one.core for _, one in holders.values()), Fraction(0))
            ratio = sum((one.ratio for _, one in holders.values()), Fraction(0))
            if max(core, ratio) > _ALL:
                names = tuple(sorted(holder for holder, _ in holders.values()))
                detail = f"card {minor} of Koordinator: {float(core):g} % of its cores and {float(ratio):g} % of its"
                yield ("CardOvershared", f"{detail} memory are given to {' and '.join(names)}"), names
