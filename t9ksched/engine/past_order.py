"""What is remembered of strict queues across cycles: whether gangs that ask for the same would take what one ahead of
them waits for. It lasts as long as queues are the same, and nodes but for whether they take work, whatever is free.
"""

from collections.abc import Container, Mapping
from typing import Final

from t9ksched.engine.node_changes import changed_nodes
from t9ksched.engine.nodes import Static
from t9ksched.engine.wait_kinds import Ident, Signature
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec

NO_NODE: Final = -1
_FEW: Final = 256
"""So many more signatures than gangs that wait are kept."""
_MOST_AHEAD: Final = 16
"""Of so many gangs ahead it is kept whether others may pass them: as these start, others are ahead."""


class Asks:
    """What gangs ask for that have a signature in common: the class of their pods, the resources of which their queue
    pays anything, and a node that could take a pod both of them and of a gang ahead, by what that asks for: its row,
    `NO_NODE` where there is none.
    """

    __slots__ = ("meets", "pays", "pod_class")

    def __init__(self, pod_class: PodClass, demand: Mapping[str, int]) -> None:
        self.pod_class = pod_class
        self.pays = frozenset(resource for resource, amount in demand.items() if amount)
        self.meets: dict[Ident, int] = {}

    def note(self, ahead: Ident, row: int) -> None:
        """A node that could take a pod of each is known of one more gang ahead."""
        if len(self.meets) >= _MOST_AHEAD:
            self.meets.clear()
        self.meets[ahead] = row

    def turn(self, rows: Container[int], *, worse: bool) -> None:
        """These nodes take work now, or take none; with `worse` none of them takes what it did not take before."""
        self.meets = {ahead: row for ahead, row in self.meets.items() if (row not in rows if row != NO_NODE else worse)}


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
        if queues != self._queues or len(self._asks) > _FEW + 2 * gangs or not self._follow(static):
            self._asks.clear()
        self._static, self._queues = static, queues

    def _follow(self, static: Static) -> bool:
        """Follow nodes that take work now, or take none; whether nothing else of the nodes changed."""
        old = self._static
        if static is old:
            return True
        changed = changed_nodes(old, static) if old is not None else None
        if old is None or changed is None or changed.labels:
            return False
        worse = all(_is_worse(old.facts[row], now) for row, now in changed.turned.items())
        for asks in self._asks.values():
            asks.turn(changed.turned, worse=worse)
        return True

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


def _is_worse(was: NodeFacts, now: NodeFacts) -> bool:
    """Whether a node takes no pod that it did not take before, by what says whether it takes work."""
    if now.ready > was.ready or now.unschedulable < was.unschedulable or now.deleting < was.deleting:
        return False
    return set(was.taints) <= set(now.taints)
