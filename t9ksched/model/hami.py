"""The cards of a node of HAMi, as its device plugin registers them in an annotation of the node.

`hami.io/node-nvidia-register` is a JSON list with an entry a card: UUID, index, how many containers share it at most,
MiB, percent of cores, model, NUMA node (-1 where it has none), health. A field that is zero or false is left out. An
entry that cannot be read names itself in a sentence and is left out; the other cards stay usable.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.cards import MOST_INDEXED

REGISTER: Final = "hami.io/node-nvidia-register"
CORDON: Final = "hami.io/device-cordon"
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/\-]{0,127}")
"""What does not end a field of the annotations of pods in which it stands."""
_MOST_CHARACTERS: Final = 256 * 1024
"""The API server takes no more of all annotations of an object."""
_MOST_CARDS: Final = 1024
_LARGEST: Final = (1 << 31) - 1
_PERCENT: Final = 100
_SHOWN: Final = 60
_SHARES: Final = ("", "hami-core", "mps")
"""Modes in which parts of cards are given by percent and MiB. With `mig` HAMi makes slices itself."""


class _Entry(msgspec.Struct, gc=False):
    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    health: bool = False


class Registered(msgspec.Struct, frozen=True):
    """What a node registers.

    Attributes:
        sizes: the cards by index; one that is not registered has no memory and no places.
        unhealthy: those that take no work, each with why.
        faults: what cannot be read, a sentence each.
    """

    sizes: tuple[CardSize, ...] = ()
    unhealthy: Mapping[int, str] = msgspec.field(default_factory=dict)
    faults: tuple[str, ...] = ()


def registered(text: str) -> Registered:
    """The cards that a node registers; none, with a fault, where the text is no list."""
    if len(text) > _MOST_CHARACTERS:
        return Registered(faults=(f"it has {len(text)} characters, at most {_MOST_CHARACTERS} are read",))
    try:
        entries = msgspec.json.decode(text.encode("utf-8", "replace"), type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        return Registered(faults=(f"it is no JSON list of cards: {error}",))
    if not entries or len(entries) > _MOST_CARDS:
        return Registered(faults=(f"it names {len(entries)} cards, 1 to {MOST_INDEXED} can be told apart",))
    found: dict[int, _Entry] = {}
    faults = []
    for at, raw in enumerate(entries):
        try:
            entry = msgspec.json.decode(raw, type=_Entry)
        except (msgspec.DecodeError, RecursionError) as error:
            faults.append(f"card {at} of the list cannot be read: {error}")
            continue
        others = {one.id for one in found.values()}
        if wrong := _wrong(entry) or ("its UUID is another card's" if entry.id in others else ""):
            faults.append(f"card {at} of the list: {wrong}")
        elif entry.index in found:
            faults.append(f"card {at} of the list has the index {entry.index} of a card before it")
        else:
            found[entry.index] = entry
    sizes = tuple(_size(found.get(index)) for index in range(max(found, default=-1) + 1))
    unhealthy = {index: why for index in range(len(sizes)) if (why := _out(found.get(index)))}
    return Registered(sizes, unhealthy, tuple(faults))


def _wrong(entry: _Entry) -> str:
    """What makes no sense in an entry; empty for nothing."""
    if not _UUID.fullmatch(entry.id):
        return f"{entry.id[:_SHOWN]!r} is no UUID"
    for name, number, least, most in (
        ("index", entry.index, 0, MOST_INDEXED - 1),
        ("count", entry.count, 0, _LARGEST),
        ("devmem", entry.devmem, 1, _LARGEST),
        ("devcore", entry.devcore, 0, _LARGEST),
        ("numa", entry.numa, -1, _LARGEST),
    ):
        if not least <= number <= most:
            return f"{name} {number} is not a number from {least} to {most}"
    return ""


def _size(entry: _Entry | None) -> CardSize:
    if entry is None:
        return CardSize(0, 0, 0)
    # Where a node offers more than 100 percent of a card, the rest is not given: 100 percent are the whole card.
    cores = min(entry.devcore, _PERCENT) * CORES // _PERCENT
    return CardSize(entry.devmem, entry.count, cores, entry.id, entry.type, numa=entry.numa)


def _out(entry: _Entry | None) -> str:
    """Why a card takes no work; empty if it does."""
    if entry is None:
        return "it is not registered"
    if not entry.health:
        return "its device plugin says that it is not healthy"
    return "" if entry.mode in _SHARES else f"it is in the mode {entry.mode[:_SHOWN]!r}, which is not given here"


def cordoned(text: str, sizes: tuple[CardSize, ...]) -> Iterator[int]:
    """The cards that `hami.io/device-cordon` names by their UUIDs."""
    named = {part.strip() for part in text.split(",")} - {""}
    return (index for index, size in enumerate(sizes) if size.uuid in named)
