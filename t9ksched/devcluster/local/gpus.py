"""The NVIDIA cards of this machine, as NVML tells them; the library for it is optional (`nvidia-ml-py`).

Cards are numbered as NVML and `nvidia-smi` do, in the order of the PCI bus. With `CUDA_VISIBLE_DEVICES` in the
environment only the cards that it names are offered.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

INSTALL: Final = "pip install 't9ksched[here]'"
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")


class Card(msgspec.Struct, frozen=True):
    """One card: its number for CUDA in the order of the PCI bus, what it is, and its memory in MiB."""

    index: int
    uuid: str
    model: str
    memory: int


class Found(msgspec.Struct, frozen=True):
    """The cards that are offered, and what a person should know about others."""

    cards: tuple[Card, ...] = ()
    notes: tuple[str, ...] = ()


def find(environment: Mapping[str, str]) -> Found:
    """The cards of this machine."""
    try:
        import pynvml
    except ImportError:
        here = len(list(_DRIVER.iterdir())) if _DRIVER.is_dir() else 0
        cards = "1 NVIDIA card" if here == 1 else f"{here} NVIDIA cards"
        return Found(notes=(f"{cards} cannot be seen without the library for it: {INSTALL}",)) if here else Found()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        gone = isinstance(error, pynvml.NVMLError_LibraryNotFound | pynvml.NVMLError_DriverNotLoaded)
        return Found() if gone else Found(notes=(f"NVIDIA cards cannot be seen: {error}",))
    try:
        return _visible(_read(pynvml), environment.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError as error:
        return Found(notes=(f"NVIDIA cards cannot be read: {error}",))
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any) -> Found:
    cards: list[Card] = []
    notes: list[str] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        model, uuid = _text(nvml.nvmlDeviceGetName(handle)), _text(nvml.nvmlDeviceGetUUID(handle))
        if _in_slices(nvml, handle):
            notes.append(f"card {index} ({model}) is in MIG mode, which is not offered here")
            continue
        cards.append(Card(index, uuid, model, nvml.nvmlDeviceGetMemoryInfo(handle).total >> 20))
    if len({card.model for card in cards}) > 1:
        notes.append("the cards differ, and all are told as the model of the first")
    return Found(tuple(cards), tuple(notes))


def _in_slices(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False  # a card that knows no slices


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _visible(found: Found, wanted: str | None) -> Found:
    if wanted is None:
        return found
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    cards = tuple(
        card
        for card in found.cards
        if any(name == str(card.index) or (name.startswith("GPU-") and card.uuid.startswith(name)) for name in names)
    )
    left = len(found.cards) - len(cards)
    note = (
        (f"{left} of {len(found.cards)} cards are not offered: CUDA_VISIBLE_DEVICES leaves them out",) if left else ()
    )
    return Found(cards, (*found.notes, *note))
