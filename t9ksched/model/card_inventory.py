"""The cards of a node that gives parts of them: how many there are, and how large each is.

Each system that shares cards says it in its own way: by amounts of its resources, or by an annotation. `INVENTORIES`
has one reader a mode (`model.cardmode`); nodes of other modes divide no cards.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from t9ksched.model import hami
from t9ksched.model.card_models import LARGEST_MIB
from t9ksched.model.card_requests import (
    GPUSHARE_COUNT,
    GPUSHARE_MEMORY,
    KOORDINATOR_CORE,
    KOORDINATOR_SUMS,
    MGPU_CORE,
    MGPU_MEMORY,
)
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import MOST_INDEXED
from t9ksched.model.readiness import Unready
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource

Amounts = Mapping[str, int]
Texts = Mapping[str, str]
Own = hami.Registered | None
"""The cards of a node as an object of their own says them; None without such an object."""

_CARD: Final = 100
"""Percent of cores that one card adds to a node's amount."""
_GIB: Final = 1024
"""MiB."""
_MGPU_PLACES: Final = 16
"""Containers that share one card at most."""


class Inventory(msgspec.Struct, frozen=True):
    """The divided cards of a node.

    Attributes:
        divided: by resource, the size of each card, by index. Empty where the node divides none.
        fault: why no parts are given now although the node offers some; empty where they are.
        remedy: what to do about it.
        cordoned: cards, by index, that an administrator took out of work in the words of the system, each with why.
        unhealthy: cards that do not work as the node says, each with why.
        unread: what of the node's own words about single cards cannot be read, a sentence each.
    """

    divided: Mapping[str, tuple[CardSize, ...]] = msgspec.field(default_factory=dict)
    fault: str = ""
    remedy: str = ""
    cordoned: Mapping[int, str] = msgspec.field(default_factory=dict)
    unhealthy: Mapping[int, str] = msgspec.field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def unready(self) -> Unready | None:
        """The same as a reason why the node's accelerators are not ready; how it divides its cards is known anyway."""
        return Unready("", self.fault, self.remedy, layout=True) if self.fault else None


NOTHING: Final = Inventory()


def _broken(fault: str, remedy: str) -> Inventory:
    """Amounts that are no cards: the node gives none, and is told what is wrong."""
    return Inventory({}, fault, remedy, unread=(fault,))


def _mgpu(capacity: Amounts, allocatable: Amounts, annotations: Texts, own: Own) -> Inventory:
    """Cards add 100 to the cores each, and all are alike: how large each is follows from the sums."""
    offered, cores = allocatable.get(MGPU_CORE, 0), max(capacity.get(MGPU_CORE, 0), allocatable.get(MGPU_CORE, 0))
    cards, memory = cores // _CARD, max(capacity.get(MGPU_MEMORY, 0), allocatable.get(MGPU_MEMORY, 0))
    if not cores and not memory:
        return NOTHING
    look = "look at the device plugin of mGPU on the node"
    if cores % _CARD or not cards or not cards <= memory <= cards * LARGEST_MIB:
        said = f"it offers {cores} of {MGPU_CORE} and {memory} of {MGPU_MEMORY}, which is no number of cards"
        return _broken(said, look)
    if cards > MOST_INDEXED:
        return _broken(f"it has {cards} cards of {MGPU_CORE}, and at most {MOST_INDEXED} can be told apart", look)
    divided = {MGPU_CORE: (CardSize(memory // cards, _MGPU_PLACES),) * cards}
    uneven = _uneven(MGPU_MEMORY, memory, cards)
    if offered < cores:
        return Inventory(
            divided,
            f"it offers {offered} of its {cores} of {MGPU_CORE}: which of its cards do not work is unknown",
            look,
            unread=uneven,
        )
    return Inventory(divided, unread=uneven)


def _uneven(resource: str, amount: int, cards: int) -> tuple[str, ...]:
    """What is wrong with an amount that is not the sum of equal cards."""
    if not (rest := amount % cards):
        return ()
    each = amount // cards
    return (f"{amount} of {resource} are no {cards} equal cards: each is taken to have {each}, {rest} are not given",)


def _hami(capacity: Amounts, allocatable: Amounts, annotations: Texts, own: Own) -> Inventory:
    """Cards are registered one by one, with their UUIDs."""
    text = annotations.get(hami.REGISTER, "")
    if not text:
        return NOTHING
    cards = hami.registered(text)
    look = "look at the device plugin of HAMi on the node"
    if not cards.sizes:
        fault = f"its annotation {hami.REGISTER} cannot be read: {cards.faults[0]}"
        return Inventory({}, fault, look, unread=(fault,))
    out = dict.fromkeys(hami.cordoned(annotations.get(hami.CORDON, ""), cards.sizes), hami.CORDON)
    fault, unread = "", tuple(f"its annotation {hami.REGISTER}: {one}" for one in cards.faults)
    has, places = (
        max(capacity.get(NVIDIA_GPU, 0), allocatable.get(NVIDIA_GPU, 0)),
        sum(one.places for one in cards.sizes),
    )
    if not allocatable.get(NVIDIA_GPU):
        fault = f"it registers cards, and its device plugin offers no {NVIDIA_GPU} now"
    elif places > has:
        unread += (f"it registers places for {places} containers, and offers {has} of {NVIDIA_GPU}: no more are given",)
    return Inventory({NVIDIA_GPU: cards.sizes}, fault, look if fault else "", out, cards.unhealthy, unread)


def _gpushare(capacity: Amounts, allocatable: Amounts, annotations: Texts, own: Own) -> Inventory:
    """Cards are alike, and their memory is in GiB or in MiB, as its device plugin is told: no card has 1024 GiB, and
    none has less than 1024 MiB.
    """
    count, total = (max(capacity.get(name, 0), allocatable.get(name, 0)) for name in (GPUSHARE_COUNT, GPUSHARE_MEMORY))
    if not total:
        return NOTHING
    look = "look at the device plugin of gpushare on the node"
    if not 0 < count <= min(total, MOST_INDEXED) or total // count > LARGEST_MIB:
        said = f"it offers {total} of {GPUSHARE_MEMORY} and {count} of {GPUSHARE_COUNT}, which is no number of cards"
        whole = any(amount and is_card_resource(name) for name, amount in allocatable.items())
        return Inventory(unread=(said,)) if whole and not count else _broken(said, look)
    each = total // count
    uneven = _uneven(GPUSHARE_MEMORY, total, count)
    unit = _GIB if each < _GIB else 1
    divided = {GPUSHARE_MEMORY: (CardSize(each * unit, each, unit=unit),) * count}
    if (offered := allocatable.get(GPUSHARE_MEMORY, 0)) < total:
        fault = f"it offers {offered} of its {total} of {GPUSHARE_MEMORY}: which of its cards do not work is unknown"
        return Inventory(divided, fault, look, unread=uneven)
    return Inventory(divided, unread=uneven)


def _koordinator(capacity: Amounts, allocatable: Amounts, annotations: Texts, own: Own) -> Inventory:
    """Cards are reported in an object `Device`; what the node offers of resources is the sum over the healthy ones."""
    offered = next((name for name in KOORDINATOR_SUMS if allocatable.get(name) or capacity.get(name)), "")
    if own is None or not (own.sizes or own.faults):
        if not offered:
            return NOTHING
        fault = f"it offers {offered}, and no Device (scheduling.koordinator.sh) of its name says which cards it has"
        return Inventory({}, fault, "look at koordlet on the node, and whether the scheduler may read devices (doctor)")
    if not own.sizes:
        fault = f"its Device (scheduling.koordinator.sh) cannot be read: {own.faults[0]}"
        return Inventory({}, fault, "look at koordlet on the node", unread=(fault,))
    fault = "" if offered else f"its Device names cards, and it offers no {KOORDINATOR_CORE} now"
    look = "look at koord-manager and at the health of its cards" if fault else ""
    unread = tuple(f"its Device (scheduling.koordinator.sh): {one}" for one in own.faults)
    return Inventory({KOORDINATOR_CORE: own.sizes}, fault, look, unhealthy=own.unhealthy, unread=unread)


INVENTORIES: Final[Mapping[str, Callable[[Amounts, Amounts, Texts, Own], Inventory]]] = {
    "MGPU": _mgpu,
    "HAMi": _hami,
    "GPUShare": _gpushare,
    "Koordinator": _koordinator,
}
"""By mode, what the node's capacity, what is allocatable, its annotations and its own object say."""
_NO_TEXTS: Final[Texts] = {}


def inventory(
    mode: str, capacity: Amounts, allocatable: Amounts, annotations: Texts = _NO_TEXTS, own: Own = None
) -> Inventory:
    """The divided cards of a node of this mode; amounts in units. Nodes that state no capacity are taken to have what
    is allocatable.
    """
    reader = INVENTORIES.get(mode)
    return reader(capacity, allocatable, annotations, own) if reader is not None else NOTHING
