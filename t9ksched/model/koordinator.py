"""The cards of a node of Koordinator, as its node agent reports them in an object `Device` with the node's name.

`spec.devices` is a list with an entry a device: type, UUID, minor, health, and how much it has of
`koordinator.sh/gpu-core` (percent) and `koordinator.sh/gpu-memory` (a quantity of bytes). A node's words for a card are
its minor: cards have it as their index here, so that a card that is not reported any more leaves a gap and moves no
other. An entry that cannot be read names itself in a sentence and is left out; the other cards stay usable.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.cards import MOST_INDEXED
from t9ksched.model.hami import Registered
from t9ksched.model.pod import Metadata
from t9ksched.model.quantity import QuantityError, to_units

GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
GPU_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
PLACES: Final = 100
"""Pods that share one card at most: as many units of `koordinator.sh/gpu.shared` a card has."""

_MODEL: Final = "node.koordinator.sh/gpu-model"
_GPU: Final = "gpu"
_PERCENT: Final = 100
_MIB: Final = 1 << 20
_LARGEST: Final = (1 << 31) - 1
"""MiB."""
_MOST_DEVICES: Final = 1024
_MOST_NAMED: Final = 8
_LONGEST: Final = 128
_SHOWN: Final = 200


class CardCondition(msgspec.Struct, gc=False):
    """What the agent says of a card besides."""

    type: str = ""
    status: str = ""
    message: str = ""


class CardEntry(msgspec.Struct, gc=False):
    """One device as it is reported."""

    type: str = ""
    id: str = ""
    minor: int | None = None
    health: bool = False
    resources: dict[str, str | int | float] = {}
    conditions: list[CardCondition] | None = None
    labels: dict[str, str] | None = None

    def amount(self, resource: str, absent: int = 0) -> int:
        """In units, `absent` where it says nothing; raises QuantityError."""
        value = self.resources.get(resource)
        return absent if value is None else to_units(resource, value)


class DeviceReport(msgspec.Struct, gc=False):
    """A Device object as far as scheduling reads it. Its spec is read entry by entry."""

    metadata: Metadata
    spec: Any = None


def reported(report: DeviceReport) -> Registered:
    """The cards that a node reports; none where it reports none, with a fault where the object cannot be read."""
    devices = report.spec.get("devices") if isinstance(report.spec, dict) else None
    if devices is None:
        return Registered()
    if not isinstance(devices, list):
        return Registered(faults=("spec.devices is no list",))
    if len(devices) > _MOST_DEVICES:
        return Registered(faults=(f"spec.devices has {len(devices)} entries, at most {_MOST_DEVICES} are read",))
    model = (report.metadata.labels or {}).get(_MODEL, "")
    found: dict[int, tuple[CardEntry, CardSize]] = {}
    faults = []
    for at, raw in enumerate(devices):
        if isinstance(raw, dict) and raw.get("type") not in (None, _GPU):
            continue
        try:
            entry = msgspec.convert(raw, CardEntry)
            size = _size(entry, model)
        except (msgspec.ValidationError, QuantityError) as error:
            faults.append(f"spec.devices[{at}]: {str(error)[:_SHOWN]}")
            continue
        if size.minor in found:
            faults.append(f"spec.devices[{at}]: minor {size.minor} is that of a device before it")
        elif any(size.uuid and size.uuid == other.uuid for _, other in found.values()):
            faults.append(f"spec.devices[{at}]: its id is another device's")
        else:
            found[size.minor] = entry, size
    sizes = tuple(
        found[minor][1] if minor in found else CardSize(0, 0, 0) for minor in range(max(found, default=-1) + 1)
    )
    unhealthy = {minor: why for minor in range(len(sizes)) if (why := _out(found.get(minor)))}
    if len(faults) > _MOST_NAMED:
        faults = [*faults[:_MOST_NAMED], f"and {len(faults) - _MOST_NAMED} more"]
    return Registered(sizes, unhealthy, tuple(faults))


def _size(entry: CardEntry, model: str) -> CardSize:
    if entry.minor is None or not 0 <= entry.minor < MOST_INDEXED:
        said = "it has no minor" if entry.minor is None else f"minor {entry.minor} is none"
        raise QuantityError(f"{said}: cards have minors from 0 to {MOST_INDEXED - 1}")
    if len(entry.id) > _LONGEST:
        raise QuantityError(f"id is longer than {_LONGEST} characters")
    memory, cores = entry.amount(GPU_MEMORY) // _MIB, entry.amount(GPU_CORE, _PERCENT)
    if not 0 < memory <= _LARGEST:
        raise QuantityError(f"resources[{GPU_MEMORY}] of {memory} MiB is not from 1 to {_LARGEST} MiB")
    if not 0 <= cores <= _PERCENT:
        raise QuantityError(f"resources[{GPU_CORE}] of {cores} is not from 0 to {_PERCENT} percent")
    return CardSize(memory, PLACES, cores * CORES // _PERCENT, entry.id, _model_of(entry) or model, minor=entry.minor)


def _model_of(entry: CardEntry) -> str:
    """The model of one card, where its own labels say it: cards of a node may be of several."""
    return (entry.labels or {}).get(_MODEL, "")


def _out(known: tuple[CardEntry, CardSize] | None) -> str:
    """Why a card takes no work; empty if it does."""
    if known is None:
        return "it is not reported"
    if known[0].health:
        return ""
    said = "; ".join(_messages(known[0]))[:_SHOWN]
    return f"Koordinator says that it is not healthy{': ' if said else ''}{said}"


def _messages(entry: CardEntry) -> Iterator[str]:
    for condition in entry.conditions or ():
        if condition.status == "False" and condition.message:
            yield condition.message
