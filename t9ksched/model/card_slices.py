"""How much of a card one unit of a resource is that nodes count by number: MIG slices, time slices, clients of MPS.

Labels of GPU Feature Discovery tell it. Of a slice the larger of its parts of the cores and of the memory counts: what
is left of a card beside it cannot be used otherwise.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.quantity import CARD
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource
from t9ksched.model.whole import whole_number

_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_NVIDIA: Final = "nvidia.com/"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_SHARED: Final = ".shared"
_TIME_SLICED: Final = "TimeSliced"
_MPS: Final = "MPS"
_MIG: Final = re.compile(r"(?:nvidia\.com/mig-|-MIG-)(?:\d+c\.)?(?P<cores>\d+)g\.(?P<memory>\d+)gb")
_OF_CARD: Final = re.compile(r"(\d+)GB")
_CORES: Final = 7
"""Parts into which MIG divides the cores of a card."""
_CORES_OF_A30: Final = 4
_MEMORIES: Final = 8
"""Parts into which it divides the memory; how large each is differs, and the names of profiles round it."""
_MIB_OF_GIB: Final = 1024


class Unit(NamedTuple):
    """What one `nvidia.com/gpu` has for certain on a node that does not divide its cards by index.

    Attributes:
        cores: in thousandths of a card.
        memory: of a card's memory, in parts of `quantity.CARD`.
        clients: among how many containers the memory is divided that the node's label names; 0 if that is unknown.
    """

    cores: int = CORES
    memory: int = CARD
    clients: int = 1


class CardLayout(NamedTuple):
    """All of a node that decides how much of its cards a pod has.

    Attributes:
        offered: its accelerators, by resource.
        indexed: those whose cards have indices.
        divided: those whose cards are divided, with the kinds of cards (their size and model), and how many of each.
        parts: those that are counted by number and are less than a card, with what one is.
    """

    offered: frozenset[str]
    indexed: frozenset[str]
    divided: tuple[tuple[str, tuple[tuple[CardSize, int], ...]], ...]
    parts: tuple[tuple[str, int], ...]


def part_worths(labels: Mapping[str, str], allocatable: Mapping[str, int], mode: str) -> dict[str, int]:
    """By resource, what one unit of it is of a card, in parts of `CARD`; whole cards, and what is no part of a card,
    are left out. `mode` is how the node hands out its accelerators (`model.cardmode`).
    """
    found = {}
    for resource in allocatable:
        if not resource.startswith(_NVIDIA):
            continue
        kind = resource.removesuffix(_SHARED)
        text = resource
        if mode == "MIGSingle" and is_card_resource(kind):
            text = labels.get(_PRODUCT, "")
        slice_ = _MIG.search(text)
        if slice_ is None and not is_card_resource(kind):
            continue
        worth = CARD if slice_ is None else _of_slice(slice_, labels)
        if (sharers := replicas(labels, resource, mode)) > 1:
            worth = -(-worth // sharers)
        if worth < CARD or not is_card_resource(resource):
            found[resource] = worth
    return found


def unit(labels: Mapping[str, str], mode: str) -> Unit:
    """What one `nvidia.com/gpu` has for certain on a node of that mode. Containers of MPS have equal parts of a card's
    memory and cores; those that take turns have equal parts of the time, and any of them may use all of the memory.
    """
    shares = mode in (_TIME_SLICED, _MPS)
    if not shares and not mode.startswith("MIG"):
        return Unit()
    clients = whole_number(labels.get("nvidia.com/gpu.replicas", "")) or (0 if shares else 1)
    profile = _MIG.search(labels.get(_PRODUCT, "")) if mode == "MIGSingle" else None
    cores = memory = CARD
    if profile is not None:
        of_cores, _ = _slicing(labels)
        cores, memory = CARD * int(profile["cores"]) // of_cores, _of_slice(profile, labels)
    apart = clients if mode == _MPS or labels.get(_STRATEGY) == "mps" else 1
    if not clients:  # it says that several containers share a card, and not how many
        return Unit(0, memory * apart, apart)
    return Unit(cores * CORES // (CARD * clients), memory // apart, apart)


def _slicing(labels: Mapping[str, str]) -> tuple[int, tuple[str, str, str]]:
    """Into how many parts MIG divides the cores; and the model of the card, with what stands behind it of a slice."""
    product = labels.get(_PRODUCT, "").partition("-MIG-")
    return (_CORES_OF_A30 if "A30" in re.split(r"[-_ ]", product[0]) else _CORES), product


def _of_slice(profile: re.Match[str], labels: Mapping[str, str]) -> int:
    cores, memory = int(profile["cores"]), int(profile["memory"])
    of_cores, product = _slicing(labels)
    worth = CARD * cores // of_cores
    named = _OF_CARD.search(product[0])
    whole = int(named[1]) if named else 0
    if not whole and not product[1]:  # with a slice's name behind it the label tells how large a slice is
        whole = (whole_number(labels.get(_MEMORY, "")) or 0) // _MIB_OF_GIB
    if whole:
        eighths = max(1, (2 * memory * _MEMORIES + whole) // (2 * whole))
    else:
        eighths = {1: 1, 2: 2}.get(cores, 4) if cores < _CORES else _MEMORIES
    return min(CARD, max(worth, CARD * eighths // _MEMORIES))


def replicas(labels: Mapping[str, str], resource: str, mode: str) -> int:
    """Among how many containers a card, or a slice of one, that is offered by this name is shared."""
    kind = resource.removesuffix(_SHARED)
    if resource == kind and mode not in ("TimeSliced", "MPS", "MIGSingle", "MIGMixed"):
        return 1
    name = "nvidia.com/gpu" if kind == NVIDIA_GPU else kind
    return whole_number(labels.get(f"{name}.replicas", "")) or 1
