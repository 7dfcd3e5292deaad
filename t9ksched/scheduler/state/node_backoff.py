"""Nodes that rejected members of a job: the job avoids them for a while.

A kubelet may refuse a pod that is bound to it: the device plugin has no card left, or another pod was admitted first.
The pod is Failed then, and its controller makes another; without this record that one would be bound to the same node
again.
"""

import re
from typing import Final

import msgspec

from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

AVOID_NS: Final = 120 * 1_000_000_000
"""How long a job avoids a node that rejected one of its pods."""
NO_NODES: Final[frozenset[str]] = frozenset()
_REASONS: Final = re.compile(r"OutOf\w+|UnexpectedAdmissionError|NodeAffinity|NodePorts|TaintToleration|NodeShutdown")


def not_yet(why: str) -> str:
    """What is told of a pod that has a place and is not bound to it, because its node is busy."""
    return f"a place is found, and not taken yet: {why}"


class TurnedAway(msgspec.Struct, frozen=True):
    """A bound pod that its node did not admit."""

    gang: GangRecord
    pod: str
    node: str
    why: str


class NodeBackoff:
    """The nodes that each job avoids, and until when. Times are nanoseconds since the epoch."""

    def __init__(self) -> None:
        self.held_up: dict[str, str] = {}
        """Why pods that have a place are not bound to it yet, by UID: their node is busy with another's."""
        self._changed: dict[str, None] = {}
        self._new: list[TurnedAway] = []
        self.known: dict[str, dict[str, int]] = {}
        """Until when each job avoids which nodes; empty while none does."""

    def note(self, record: PodRecord, reason: str, message: str) -> None:
        """A pod has just failed: record it if its node rejected it."""
        if record.gang is not None and record.node and _REASONS.fullmatch(reason):
            why = f"{reason}: {message}" if message else reason
            self.avoid(TurnedAway(record.gang, record.name, record.node, why))

    def avoid(self, refused: TurnedAway) -> None:
        """A node did not take a pod, or did not say so."""
        self._new.append(refused)

    def take(self, now: int) -> list[TurnedAway]:
        """The rejections since the last call; from `now` on the nodes are avoided."""
        found, self._new = self._new, []
        for each in found:
            self._changed[job_of(each.gang)] = None
            self.known.setdefault(job_of(each.gang), {})[each.node] = now + AVOID_NS
        return found

    def take_changed(self) -> dict[str, None]:
        """The jobs that have another node to avoid since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def by(self, gang: GangRecord, now: int) -> frozenset[str]:
        """The nodes that this gang avoids now."""
        if not self.known:
            return NO_NODES
        return frozenset(node for node, until in self.known.get(job_of(gang), {}).items() if until > now)

    def forget(self, now: int) -> None:
        """Drop entries whose time is over."""
        left = {job: {node: until for node, until in nodes.items() if until > now} for job, nodes in self.known.items()}
        self.known = {job: nodes for job, nodes in left.items() if nodes}

    def next_end(self) -> int | None:
        """When the next node may be tried again; None when none is avoided."""
        return min((until for nodes in self.known.values() for until in nodes.values()), default=None)
