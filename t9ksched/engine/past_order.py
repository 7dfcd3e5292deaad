"""What is remembered of strict queues across cycles: whether gangs that ask for the same would take what one ahead of
them waits for. It lasts as long as nodes and queues are the same, whatever is free.
"""

from collections.abc import Mapping
from typing import Final

from t9ksched.engine.nodes import Static
from t9ksched.engine.wait_kinds import Ident, Signature
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec

_FEW: Final = 256
"""So many more signatures than gangs that wait are kept."""
_MOST_AHEAD: Final = 16
"""Of so many gangs ahead it is kept whether others may pass them: as these start, others are ahead."""


class Asks:
    """What gangs ask for that have a signature in common: the class of their pods, the resources of which their queue
    pays anything, and whether a node could take a pod both of them and of a gang ahead, by what that asks for.
    """

    __slots__ = ("meets", "pays", "pod_class")

    def __init__(self, pod_class: PodClass, demand: Mapping[str, int]) -> None:
        self.pod_class = pod_class
        self.pays = frozenset(resource for resource, amount in demand.items() if amount)
        self.meets: dict[Ident, bool] = {}

    def note(self, ahead: Ident, *, meets: bool) -> None:
        """Whether a node could take a pod of each is known of one more gang ahead."""
        if len(self.meets) >= _MOST_AHEAD:
            self.meets.clear()
        self.meets[ahead] = meets


class PastOrder:
    """What is remembered."""

    def __init__(self) -> None:
        self.number = 0
        """How many cycles have begun."""
        self._static: Static | None = None
        self._queues: Mapping[str, QueueSpec] = {}
        self._asks: dict[Signature, Asks] = {}

    def begin(self, static: Static, queues: Mapping[str, QueueSpec], gangs: int) -> None:
        """A cycle begins on these nodes, with these queues; so many gangs wait."""
        self.number += 1
        if static is not self._static or queues != self._queues or len(self._asks) > _FEW + 2 * gangs:
            self._static, self._queues = static, queues
            self._asks.clear()

    def of(self, signature: Signature, pod_class: PodClass) -> Asks | None:
        """What gangs with this signature ask for; None if none was met."""
        found = self._asks.get(signature)
        return found if found is not None and found.pod_class is pod_class else None

    def learn(self, signature: Signature, pod_class: PodClass, demand: Mapping[str, int]) -> Asks:
        """Gangs with this signature ask for that."""
        known = self.of(signature, pod_class)
        if known is None:
            known = self._asks[signature] = Asks(pod_class, demand)
        return known
