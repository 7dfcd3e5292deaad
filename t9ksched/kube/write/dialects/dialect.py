"""What a dialect of cards is: the annotations by which a node learns which cards a pod was given, and a protocol.

A dialect writes the annotations of a binding and reads them again, as evidence of what a pod holds. Where its node
needs more than the one request that binds, a lock before or an answer after, its `protocol` has those steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from t9ksched.model.cards import CardGrant, CardRequest

if TYPE_CHECKING:
    from t9ksched.kube.write.binding import Protocol


class CardDialect(ABC):
    """A dialect has no state: one object serves all nodes that understand it.

    Attributes:
        protocol: the steps of a binding; None for one request that carries everything.
    """

    protocol: ClassVar["Protocol | None"] = None

    @abstractmethod
    def keys(self, requests: tuple[CardRequest, ...]) -> tuple[str, ...]:
        """The annotations that name the cards of a pod with these requests, in the order of the requests."""

    @abstractmethod
    def write(self, cards: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        """The annotations for containers that get cards with these indices."""

    @abstractmethod
    def read(self, requests: tuple[CardRequest, ...], annotations: Mapping[str, str]) -> CardGrant:
        """The cards that the annotations of a pod name; none at all when one of them is missing or wrong."""
