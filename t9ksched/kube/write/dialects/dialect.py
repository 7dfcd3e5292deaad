"""What a dialect of cards is: the annotations by which a node learns which cards a pod was given, and a protocol.

A dialect writes the annotations of a binding and reads them again, as evidence of what a pod holds. Where its node
needs more than the one request that binds, a lock before or an answer after, its `protocol` has those steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from t9ksched.model.cards import CardGrant
from t9ksched.model.podclass import PodClass

if TYPE_CHECKING:
    from t9ksched.kube.write.binding import Protocol


class CardDialect(ABC):
    """A dialect is a value without state: equal ones mean the same.

    Attributes:
        protocol: the steps of a binding; None for one request that carries everything.
    """

    protocol: "Protocol | None" = None

    @abstractmethod
    def keys(self, pod: PodClass) -> tuple[str, ...]:
        """The annotations that name the cards of such a pod."""

    @abstractmethod
    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        """The annotations of a pod that gets these cards. They stay as they are as long as it holds them."""

    def write_once(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        """Further annotations of its binding, which the node changes afterwards."""
        return {}

    @abstractmethod
    def read(self, pod: PodClass, annotations: Mapping[str, str]) -> CardGrant:
        """The cards that the annotations of such a pod name, with what it has of each where they say so; none at all
        when one of them is missing or wrong.
        """

    def agrees(self, key: str, said: str, written: str) -> bool:
        """Whether an annotation that `write` gave means the same as the one that is there."""
        return said == written

    def leaves(self, key: str, said: str, written: Mapping[str, str]) -> bool:
        """Whether an annotation that names cards, and is none of those that last, may say this of a pod for which a
        binding wrote these: the node changes it.
        """
        return False

    def unanswered(self, annotations: Mapping[str, str]) -> bool:
        """Whether the node is still to say whether it gave a bound pod its cards."""
        return False
