"""What pods of a class are given of the cards of nodes: found once, as nodes have few patterns of idle cards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from t9ksched.engine.cards import Share, deal
from t9ksched.model.cards import NO_CARDS, CardGrant, ContainerGrant

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit

Written = tuple[tuple[ContainerGrant, ...], CardGrant]
"""The cards of a pod, by container and as a whole."""


class Given(dict[Share, Written]):
    """What a pod with a share is given, on nodes that divide the same cards; found when it is asked for."""

    def __init__(self, column: "ClassFit", row: int) -> None:
        """The node of this row is one of them."""
        self._column, self._row = column, row

    def __missing__(self, share: Share) -> Written:
        grant = self._column.grant(self._row, share)
        found = self[share] = grant.by_container(self._column.pod_class.cards), grant
        return found


class Dealt(dict[tuple[int, int], Sequence[Written]]):
    """What pods on a node that divides no cards are given, by the cards that are idle there and the number of pods;
    found when it is asked for. The class has cards of one resource at most.
    """

    def __init__(self, column: "ClassFit") -> None:
        self._column = column

    def __missing__(self, asked: tuple[int, int]) -> Sequence[Written]:
        idle, pods = asked
        found: Sequence[Written] = [((), NO_CARDS)] * pods
        if self._column.card_needs:
            written, ((_, each),) = self._column.written_on(0), self._column.card_needs
            found = [written[share] for share in deal(idle, each, pods)[0]]
        self[asked] = found
        return found
