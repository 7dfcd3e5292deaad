"""How large one card of a node is, where cards are divided, and what else is known of that single card."""

from typing import Final

import msgspec

CORES: Final = 1000
"""Cores of a whole card, in thousandths of it."""


class CardSize(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one divided card has: memory in MiB, places for containers, and cores in thousandths. `uuid` and `model` are
    empty, and `minor` is -1, where the node does not say them. `unit` is how many MiB pods mean by one of memory there.
    `numa` is the NUMA node of the host to which it is attached, 0 too where the node does not say it.
    """

    memory: int
    places: int
    cores: int = CORES
    uuid: str = ""
    model: str = ""
    unit: int = 1
    minor: int = -1
    numa: int = 0
