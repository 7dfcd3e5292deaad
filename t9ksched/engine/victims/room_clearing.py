"""Which pods leave reserved room: whole gangs, or members that their gangs can do without.

No gang waits for this room in a cycle, so nothing is placed here: either all pods of a node go, or so many of them that
what is lacking comes free. Of the latter those of queues with the smaller priority go first, then gangs of which no
disruption budget speaks, the smaller priority of the gang, members above a minimum, and the younger gang.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from t9ksched.model.gang import Running, RunningPod


class Leaving(msgspec.Struct, frozen=True):
    """Pods of one gang that go; `whole` if nothing of it stays."""

    gang: Running
    pods: tuple[RunningPod, ...]
    whole: bool


def clear_rooms(
    lacks: Mapping[str, Mapping[str, int] | None], gangs: Sequence[Running], priorities: Mapping[str, int]
) -> list[Leaving]:
    """The pods that go, gang by gang in order of their UIDs.

    Args:
        lacks: by node what is to come free there, in units by resource, beside what comes free anyhow; None for all.
        gangs: those that may be evicted; the others stay, even if too little comes free without them.
        priorities: of queues, by name; of a queue that is not there 0.
    """
    clearing = _Clearing(lacks)
    whole_nodes = {node for node, lack in lacks.items() if lack is None}
    for gang in gangs:
        clearing.take(gang, [at for at, pod in enumerate(gang.pods) if pod.node in whole_nodes])
    must = {uid: frozenset(taken) for uid, taken in clearing.taken.items()}
    order = sorted(_candidates(gangs, lacks, priorities), key=lambda one: one[0])
    for _, gang, at in order:
        if clearing.helps(gang.pods[at]):
            clearing.take(gang, [at])
    clearing.spare(must, [gang for _, gang, _ in reversed(order)])
    return clearing.result(gangs)


def _candidates(
    gangs: Sequence[Running], lacks: Mapping[str, Mapping[str, int] | None], priorities: Mapping[str, int]
) -> Iterable[tuple[tuple[object, ...], Running, int]]:
    """Pods on nodes of which a part is to come free, with their place in the order."""
    for gang in gangs:
        for at, pod in enumerate(gang.pods):
            if lacks.get(pod.node):
                needed = not _spares(gang, {at})
                rank = (
                    priorities.get(gang.queue, 0),
                    gang.guarded,
                    gang.priority,
                    needed,
                    -gang.created,
                    gang.uid,
                    -at,
                )
                yield rank, gang, at


class _Clearing:
    """What goes so far, as positions in the pods of each gang, by UID."""

    def __init__(self, lacks: Mapping[str, Mapping[str, int] | None]) -> None:
        self.taken: dict[str, set[int]] = {}
        self._lacks = {node: dict(lack) for node, lack in lacks.items() if lack}

    def helps(self, pod: RunningPod) -> bool:
        """Whether the pod holds something that is still lacking on its node."""
        lack = self._lacks.get(pod.node, {})
        return any(amount > 0 and lack.get(resource, 0) > 0 for resource, amount in pod.pod_class.requests)

    def take(self, gang: Running, positions: Iterable[int]) -> None:
        """These pods go, and with them the whole gang if it cannot do without them."""
        before = self.taken.get(gang.uid, set())
        chosen = before | {at for at in positions if _stays(gang.pods[at])}
        if chosen == before:
            return
        if not _spares(gang, chosen):
            chosen = {at for at, pod in enumerate(gang.pods) if _stays(pod)}
        self.taken[gang.uid] = chosen
        self._free(gang, chosen - before, -1)

    def spare(self, must: Mapping[str, frozenset[int]], order: Iterable[Running]) -> None:
        """Gangs whose pods are not needed, because others that went after them freed enough, stay."""
        for gang in order:
            more = self.taken.get(gang.uid, set()) - must.get(gang.uid, frozenset())
            if not more:
                continue
            self._free(gang, more, 1)
            if all(amount <= 0 for pod in map(gang.pods.__getitem__, more) for amount in self._of(pod.node)):
                self.taken[gang.uid] = set(must.get(gang.uid, frozenset()))
            else:
                self._free(gang, more, -1)

    def result(self, gangs: Iterable[Running]) -> list[Leaving]:
        """What goes, gang by gang."""
        found = []
        for gang in sorted(gangs, key=lambda gang: gang.uid):
            if taken := self.taken.get(gang.uid):
                pods = tuple(gang.pods[at] for at in sorted(taken))
                found.append(Leaving(gang, pods, len(pods) == sum(map(_stays, gang.pods))))
        return found

    def _of(self, node: str) -> Iterable[int]:
        return self._lacks.get(node, {}).values()

    def _free(self, gang: Running, positions: Iterable[int], sign: int) -> None:
        for pod in map(gang.pods.__getitem__, positions):
            lack = self._lacks.get(pod.node)
            for resource, amount in pod.pod_class.requests if lack is not None else ():
                if lack is not None and resource in lack:
                    lack[resource] += sign * amount


def _stays(pod: RunningPod) -> bool:
    """Whether it runs, and was not told to leave."""
    return not (pod.leaving or pod.kept)


def _spares(gang: Running, going: set[int]) -> bool:
    """Whether the gang goes on without these pods: with its minimum, the minima of its roles and its first member."""
    staying = [at for at, pod in enumerate(gang.pods) if _stays(pod) and at not in going]
    first = next((at for at, pod in enumerate(gang.pods) if not pod.kept), None)
    if not staying or first in going or any(pod.kept for pod in gang.pods):
        return False
    roles = Counter(dict(gang.succeeded))
    roles.update(gang.pods[at].role for at in staying)
    return roles.total() >= gang.min_member and all(roles[role] >= least for role, least in gang.roles)
