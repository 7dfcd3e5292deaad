"""Who holds places, as columns: what preemption chooses from.

A *unit* is what goes together: the members a gang cannot do without are one unit, each member above its minimum is one
of its own. The units of a gang go in their order, highest index first and the indispensable ones last, so that whatever
is taken from a gang leaves it whole or takes it whole.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.nodes import LARGEST, Int64s, Static
from t9ksched.model.gang import Running, RunningPod

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]


def surplus(group: Running) -> list[int]:
    """Positions of the members that the group can do without, in the order in which they go.

    Highest index first; the minimum and the minima of roles stay, and so does the first member, whatever the minimum.
    """
    staying = [at for at, pod in enumerate(group.pods) if not pod.leaving]
    spare = len(staying) + sum(count for _, count in group.succeeded) - group.min_member
    if spare <= 0 or len(staying) < 2:
        return []
    roles = Counter(dict(group.succeeded))
    roles.update(group.pods[at].role for at in staying)
    minima = dict(group.roles)
    found: list[int] = []
    for at in reversed(staying):
        if len(found) == spare or at == 0:
            break
        role = group.pods[at].role
        if roles[role] > minima.get(role, 0):
            roles[role] -= 1
            found.append(at)
    return found


class Tenants:
    """Running groups on the nodes of one picture.

    Attributes:
        groups: in order of uids.
        pods, group_of, unit_of, row: one a pod. A pod on a node that is not there frees nothing.
        staying: pods that nobody has asked to leave yet.
        freed: what each pod gives back, shape (resources, pods). A card that takes no new work is not given back.
        unit_group, unit_size, is_surplus: one a unit; units of a group stand together, in the order in which they go.
        first_unit: one a group.
        queue_of, queues: of groups, by position in `queues`.
        kind, classes: of pods, by position in `classes`.
        youth: of groups, by age; the younger has the larger.
    """

    def __init__(self, running: Sequence[Running], static: Static) -> None:
        self.source = running
        self.static = static
        groups = self.groups = sorted(running, key=attrgetter("uid"))
        sizes = [len(group.pods) for group in groups]
        pods: list[RunningPod] = [pod for group in groups for pod in group.pods]
        self.pods = pods
        self.group_of: Indices = np.repeat(np.arange(len(groups)), sizes)
        self.staying: Flags = np.array([not pod.leaving for pod in pods], np.bool_)
        self.asked: Flags = np.array([pod.leaving and pod.asked for pod in pods], np.bool_)
        self._groups(groups)
        self._units(groups, sizes)
        self._places(pods)

    def demands(self, pods: Indices) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """What these pods use, by queue and class."""
        of = self.queue_of[self.group_of[pods]] * len(self.classes) + self.kind[pods]
        counts = np.bincount(of)
        for at in np.flatnonzero(counts).tolist():
            queue, kind = divmod(at, len(self.classes))
            count = int(counts[at])
            yield self.queues[queue], [(name, amount * count) for name, amount in self.classes[kind].requests]

    def charged(self, units: Flags) -> dict[str, dict[str, int]]:
        """What the queues are charged for the pods of these units that stay, in units by resource."""
        found: dict[str, dict[str, int]] = {}
        for queue, requests in self.demands(np.flatnonzero(units[self.unit_of] & self.staying)):
            _add(found.setdefault(queue, {}), requests, 1)
        return found

    def uses(self, units: Indices) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
        """What the queue is charged for each of these units."""
        chosen = np.zeros(len(self.unit_size), np.bool_)
        chosen[units] = True
        found: dict[int, dict[str, int]] = {unit: {} for unit in units.tolist()}
        for pod in np.flatnonzero(chosen[self.unit_of] & self.staying).tolist():
            _add(found[int(self.unit_of[pod])], self.pods[pod].pod_class.requests, 1)
        for unit, uses in found.items():
            yield unit, tuple(sorted(uses.items()))

    def _groups(self, groups: list[Running]) -> None:
        names: dict[str, int] = {}
        of = [names.setdefault(group.queue, len(names)) for group in groups]
        self.queues = list(names)
        self.queue_of: Indices = np.array(of, np.intp)
        self.priority: Int64s = np.array([group.priority for group in groups], np.int64)
        self.started: Int64s = np.array([group.started for group in groups], np.int64)
        self.evictions: Int64s = np.array([group.evictions for group in groups], np.int64)
        self.guarded: Flags = np.array([group.guarded for group in groups], np.bool_)
        created = np.array([group.created for group in groups], np.int64)
        self.youth: Int64s = np.empty(len(groups), np.int64)
        self.youth[np.lexsort((-np.arange(len(groups)), created))] = np.arange(len(groups))

    def _units(self, groups: list[Running], sizes: list[int]) -> None:
        starts = np.cumsum(sizes) - sizes if sizes else np.zeros(0, np.intp)
        above = {at: found for at, group in enumerate(groups) if sizes[at] > 1 and len(found := surplus(group)) > 0}
        counts = np.ones(len(groups), np.intp)
        for at, found in above.items():
            counts[at] += len(found)
        ends = np.cumsum(counts)
        self.first_unit: Indices = ends - counts
        self.unit_group: Indices = np.repeat(np.arange(len(groups)), counts)
        self.is_surplus: Flags = np.ones(len(self.unit_group), np.bool_)
        self.is_surplus[ends - 1] = False
        self.unit_of: Indices = (ends - 1)[self.group_of]
        for at, found in above.items():
            for nth, position in enumerate(found):
                self.unit_of[starts[at] + position] = self.first_unit[at] + nth
        self.unit_size: Int64s = np.bincount(self.unit_of[self.staying], minlength=len(self.unit_group))
        self.simple = not above
        """Every group is one unit."""

    def _places(self, pods: list[RunningPod]) -> None:
        static = self.static
        index = static.index
        row = np.array([index.get(pod.node, -1) for pod in pods], np.intp)
        known: dict[int, int] = {}
        kinds = self.kind = np.array([known.setdefault(id(pod.pod_class), len(known)) for pod in pods], np.intp)
        resources = {name: at for at, name in enumerate(static.resources)}
        vectors = np.zeros((len(resources), len(known)), np.int64)
        firsts = np.full(len(known), len(pods), np.intp)
        np.minimum.at(firsts, kinds, np.arange(len(pods)))
        self.classes = [pods[at].pod_class for at in firsts.tolist()]
        for kind, pod_class in enumerate(self.classes):
            for name, amount in pod_class.requests:
                if name in resources:
                    vectors[resources[name], kind] = min(amount, LARGEST)
        self.freed: Int64s = vectors[:, kinds]
        self.freed[:, row < 0] = 0
        self.row: Indices = np.maximum(row, 0)
        partly = {at for at, facts in enumerate(static.facts) if any(facts.unusable.values())}
        if partly:
            cards = {name: at for at, name in enumerate(static.card_resources)}
            usable = {name: static.usable[at] for name, at in cards.items()}
            for at in np.flatnonzero(np.isin(row, list(partly))).tolist():
                for name, mask in pods[at].cards:
                    if name in usable and static.indexed[cards[name], row[at]]:
                        self.freed[resources[name], at] = (mask & int(usable[name][row[at]])).bit_count()


def _add(uses: dict[str, int], requests: Sequence[tuple[str, int]], count: int) -> None:
    for name, amount in requests:
        uses[name] = uses.get(name, 0) + amount * count
