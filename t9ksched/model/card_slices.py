"""How much of a card one unit of a resource is that nodes count by number: MIG slices, time slices, clients of MPS.

Labels of GPU Feature Discovery tell it. Of a slice the larger of its parts of the cores and of the memory counts: what
is left of a card beside it cannot be used otherwise.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from t9ksched.model.card_size import CardSize
from t9ksched.model.quantity import CARD
from t9ksched.model.resources import NVIDIA_GPU, is_card_resource
from t9ksched.model.whole import whole_number

_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_NVIDIA: Final = "nvidia.com/"
_SHARED: Final = ".shared"
_MIG: Final = re.compile(r"(?:nvidia\.com/mig-|-MIG-)(?:\d+c\.)?(?P<cores>\d+)g\.(?P<memory>\d+)gb")
_OF_CARD: Final = re.compile(r"(\d+)GB")
_CORES: Final = 7
"""Parts into which MIG divides the cores of a card."""
_CORES_OF_A30: Final = 4
_MEMORIES: Final = 8
"""Parts into which it divides the memory; how large each is differs, and the names of profiles round it."""
_MIB_OF_GIB: Final = 1024


class CardLayout(NamedTuple):
    """All of a node that decides how much of its cards a pod has.

    Attributes:
        offered: its accelerators, by resource.
        indexed: those whose cards have indices.
        divided: those whose cards are divided, with the sizes that cards have.
        parts: those that are counted by number and are less than a card, with what one is.
    """

    offered: frozenset[str]
    indexed: frozenset[str]
    divided: tuple[tuple[str, tuple[CardSize, ...]], ...]
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
        if (replicas := _replicas(labels, kind, resource != kind, mode)) > 1:
            worth = -(-worth // replicas)
        if worth < CARD or not is_card_resource(resource):
            found[resource] = worth
    return found


def _of_slice(profile: re.Match[str], labels: Mapping[str, str]) -> int:
    cores, memory = int(profile["cores"]), int(profile["memory"])
    product = labels.get(_PRODUCT, "").partition("-MIG-")
    of_cores = _CORES_OF_A30 if "A30" in re.split(r"[-_ ]", product[0]) else _CORES
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


def _replicas(labels: Mapping[str, str], kind: str, renamed: bool, mode: str) -> int:
    """Among how many containers a card, or a slice of one, is shared."""
    if not renamed and mode not in ("TimeSliced", "MPS", "MIGSingle", "MIGMixed"):
        return 1
    name = "nvidia.com/gpu" if kind == NVIDIA_GPU else kind
    return whole_number(labels.get(f"{name}.replicas", "")) or 1
