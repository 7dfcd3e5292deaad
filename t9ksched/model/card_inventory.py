"""The cards of a node that gives parts of them: how many there are, and how large each is.

Each system that shares cards says it in its own way: by amounts of its resources, or by an annotation. `INVENTORIES`
has one reader a mode (`model.cardmode`); nodes of other modes divide no cards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from t9ksched.model.card_requests import MGPU_CORE, MGPU_MEMORY
from t9ksched.model.cards import MOST_INDEXED, CardSize
from t9ksched.model.readiness import Unready

Amounts = Mapping[str, int]

_CARD: Final = 100
"""Percent of cores that one card adds to a node's amount."""
_MGPU_PLACES: Final = 16
"""Containers that share one card at most."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The divided cards of a node.

    Attributes:
        divided: by resource, the size of each card, by index. Empty where the node divides none.
        fault: why no parts are given now although the node offers some; empty where they are.
        remedy: what to do about it.
    """

    divided: Mapping[str, tuple[CardSize, ...]] = field(default_factory=dict)
    fault: str = ""
    remedy: str = ""

    @property
    def unready(self) -> Unready | None:
        """The same as a reason why the node's accelerators are not ready; how it divides its cards is known anyway."""
        return Unready("", self.fault, self.remedy, layout=True) if self.fault else None


NOTHING: Final = Inventory()


def _mgpu(capacity: Amounts, allocatable: Amounts) -> Inventory:
    """Cards add 100 to the cores each, and all are alike: how large each is follows from the sums."""
    offered, cores = allocatable.get(MGPU_CORE, 0), max(capacity.get(MGPU_CORE, 0), allocatable.get(MGPU_CORE, 0))
    if not cores:
        return NOTHING
    cards, memory = cores // _CARD, max(capacity.get(MGPU_MEMORY, 0), allocatable.get(MGPU_MEMORY, 0))
    look = "look at the device plugin of mGPU on the node"
    if cores % _CARD or memory < cards:
        return Inventory(
            {}, f"it offers {cores} of {MGPU_CORE} and {memory} of {MGPU_MEMORY}, which is no number of cards", look
        )
    if cards > MOST_INDEXED:
        return Inventory({}, f"it has {cards} cards of {MGPU_CORE}, and at most {MOST_INDEXED} can be told apart", look)
    divided = {MGPU_CORE: (CardSize(memory // cards, _MGPU_PLACES),) * cards}
    if offered < cores:
        return Inventory(
            divided,
            f"it offers {offered} of its {cores} of {MGPU_CORE}: which of its cards do not work is unknown",
            look,
        )
    return Inventory(divided)


INVENTORIES: Final[Mapping[str, Callable[[Amounts, Amounts], Inventory]]] = {"MGPU": _mgpu}
"""By mode, what the node's capacity and what is allocatable say."""


def inventory(mode: str, capacity: Amounts, allocatable: Amounts) -> Inventory:
    """The divided cards of a node of this mode; amounts in units. Nodes that state no capacity are taken to have what
    is allocatable.
    """
    reader = INVENTORIES.get(mode)
    return reader(capacity, allocatable) if reader is not None else NOTHING
