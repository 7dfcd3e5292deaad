"""What pods of a class are given of the cards of nodes: found once, as nodes have few patterns of idle cards."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from t9ksched.engine.cards import Share, deal, granted
from t9ksched.model.cards import NO_CARDS, CardGrant, ContainerGrant
from t9ksched.model.podclass import PodClass

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit

Written = tuple[tuple[ContainerGrant, ...], CardGrant]
"""The cards of a pod, by container and as a whole."""
_MOST_DEALT: Final = 1024


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

    def __init__(self, pod_class: PodClass, names: tuple[str, ...]) -> None:
        """`names` are the card resources of the class that nodes have."""
        self._class, self._names = pod_class, names

    def __missing__(self, asked: tuple[int, int]) -> Sequence[Written]:
        idle, pods = asked
        found: Sequence[Written] = [((), NO_CARDS)] * pods
        if self._names:
            shares, _ = deal(idle, self._class.card_counts[self._names[0]], pods)
            grants = [granted(self._names, share) for share in shares]
            found = [(grant.by_container(self._class.cards), grant) for grant in grants]
        if len(self) >= _MOST_DEALT:
            self.clear()
        self[asked] = found
        return found


@lru_cache(maxsize=128)
def dealt(pod_class: PodClass, names: tuple[str, ...]) -> Dealt:
    """The same object for the same class, from cycle to cycle."""
    return Dealt(pod_class, names)
