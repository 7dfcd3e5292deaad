"""The running groups and their pods as columns: what preemption chooses from.

A *unit* is what goes together: the members a gang cannot do without are one unit, each member above its minimum is one
of its own. The units of a gang go in their order, highest index first and the indispensable ones last, so that whatever
is taken from a gang leaves it whole or takes it whole.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask, distinct
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.nodes import LARGEST, Static
from t9ksched.engine.sorting import sorted_in_slices
from t9ksched.engine.victims.group_column import GroupColumn
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.quantity import CARDS

_SLICE: Final = 4096
"""So many groups or pods are taken in at a time."""
_NEAR: Final = 65_536
_FEW: Final = 256
"""The same where each of them costs more."""
_OF_GROUPS: Final = [attrgetter(name) for name in ("priority", "started", "evictions", "guarded", "created", "grace")]
_UID: Final = attrgetter("uid")
_QUEUE: Final = attrgetter("queue")
_NODE: Final = attrgetter("node")
_CLASS: Final = attrgetter("pod_class")
_LEAVING: Final = attrgetter("leaving")
_ASKED: Final = attrgetter("asked")
PodRoom = tuple[str, int, Int64s]
"""UID of a pod's gang, row of its node, and what the pod gives back, shape (resources,)."""


class Going(NamedTuple):
    """Pods that go: the room they leave, shape (resources, nodes), and their queues."""

    room: Int64s
    queues: frozenset[str]


def surplus(group: Running) -> list[int]:
    """Positions of the members that the group can do without, in the order in which they go.

    Highest index first; the minimum and the minima of roles stay, and so does the first member, whatever the minimum.
    Room that is kept for a lost member does not run and makes up no minimum. It goes with the whole gang only; as long
    as the gang keeps room that its minimum does not need, it gives up no member.
    """
    running = [at for at, pod in enumerate(group.pods) if not pod.kept]
    staying = [at for at in running if not group.pods[at].leaving]
    spare = len(staying) + sum(count for _, count in group.succeeded) - group.min_member
    if spare <= 0 or len(staying) < 2:
        return []
    roles = Counter(dict(group.succeeded))
    roles.update(group.pods[at].role for at in staying)
    minima = dict(group.roles)
    if len(running) < len(group.pods):
        # More run than the minimum, so that what is kept is needed for a role or not at all.
        kept = Counter(pod.role for pod in group.pods if pod.kept)
        if any(roles[role] + count > minima.get(role, 0) for role, count in kept.items()):
            return []
    found: list[int] = []
    for at in reversed(staying):
        if len(found) == spare or at == running[0]:
            break
        role = group.pods[at].role
        if roles[role] > minima.get(role, 0):
            roles[role] -= 1
            found.append(at)
    return found


class VictimTable:
    """Running groups on the frozen nodes of one cycle.

    Attributes:
        groups: in order of uids.
        sizes: how many pods each of them has.
        above: by UID, the positions of members that a group can do without, of groups that have any.
        group_of, unit_of, row: one a pod, group after group. A pod on a node that is not there frees nothing.
        staying: pods that were not told to leave yet.
        freed: what each pod gives back, shape (resources, pods). A card that takes no new work is not given back.
        unit_group, unit_size, is_surplus: one a unit; units of a group stand together, in the order in which they go.
        first_unit, first_pod: one a group.
        queue_of, queues: of groups, by position in `queues`.
        kind, classes: of pods, by position in `classes`; `pays` is what the queue of one is charged, by that position.
        created: of groups; `youth` is by that, the younger has the larger.
        grace: of groups, how long their pods take to end at most, in nanoseconds.
        ranking: of groups, by priority: equal for equal ones, larger for larger ones.
    """

    def __init__(self, running: Sequence[Running], static: Static, worths: CardWorths | None = None) -> None:
        self.source = running
        self.worths = worths
        self.static = static
        self.groups = GroupColumn([])
        self.sizes: Int64s = np.zeros(0, np.int64)
        self.above: dict[str, list[int]] = {}
        self.partly: Indices | None = None
        """Nodes with cards that take no new work; None before it is known."""
        self._at_most: dict[tuple[frozenset[str], frozenset[str]], Going] = {}

    @classmethod
    def of(
        cls, running: Sequence[Running], static: Static, meter: Meter, worths: CardWorths | None = None
    ) -> Work["VictimTable"]:
        """The columns of all running groups, made in slices; `worths` tells what of them is cards, where quotas count
        cards.
        """
        made = cls(running, static, worths)
        yield from made.fill(meter)
        return made

    def fill(self, meter: Meter) -> Work[None]:
        """Make all columns."""
        groups = yield from sorted_in_slices(self.source, _UID, meter)
        self.groups = GroupColumn(groups)
        sizes: list[int] = []
        pods: list[RunningPod] = []
        for at in range(0, len(groups), _SLICE):
            some = [group.pods for group in groups[at : at + _SLICE]]
            sizes += map(len, some)
            pods += chain.from_iterable(some)
            meter.spent += 10 * len(some)
            yield
        self.sizes = np.array(sizes, np.int64)
        yield from self._groups(groups, meter)
        yield from self._places(pods, meter)
        for nth, at in enumerate(np.flatnonzero(self.sizes > 1).tolist()):
            if found := surplus(groups[at]):
                self.above[groups[at].uid] = found
            meter.spent += 500 + 50 * sizes[at]
            if not nth % _FEW:
                yield
        yield from self.order(meter)

    def order(self, meter: Meter) -> Work[None]:
        """Find what follows from where groups and pods stand among each other."""
        groups = len(self.groups)
        self.first_pod: Int64s = np.cumsum(self.sizes) - self.sizes
        self.group_of: Indices = np.repeat(np.arange(groups), self.sizes)
        self.ranking: Int64s = dense_ranks(self.priority)
        meter.spent += 20 * groups
        yield
        self.youth: Int64s = np.empty(groups, np.int64)
        # Of groups of one age the later one in the order of UIDs comes first.
        self.youth[groups - 1 - np.argsort(self.created[::-1], kind="stable")] = np.arange(groups)
        meter.spent += 20 * groups
        yield
        yield from self._units(meter)

    def pod(self, at: int) -> RunningPod:
        """The pod of that position."""
        group = int(self.group_of[at])
        return self.groups[group].pods[at - int(self.first_pod[group])]

    def old_enough(self, queues: Collection[str], after: int, now: int) -> int | None:
        """When the next group of these queues has had its places for so long, in nanoseconds; None where all have."""
        moments = self.started + after
        young = moments[np.isin(self.queues, list(queues))[self.queue_of] & (moments > now)]
        return int(young.min()) if len(young) else None

    def demands(self, pods: Indices) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """What these pods use, by queue and class."""
        of = self.queue_of[self.group_of[pods]] * len(self.classes) + self.kind[pods]
        counts = np.bincount(of)
        for at in np.flatnonzero(counts).tolist():
            queue, kind = divmod(at, len(self.classes))
            count = int(counts[at])
            yield self.queues[queue], [(name, amount * count) for name, amount in self.pays[kind]]

    def rooms(self, pods: Mask, rows: Indices) -> Iterator[PodRoom]:
        """The room of those of these pods that are on the nodes of these rows."""
        here = np.zeros(len(self.static.names), np.bool_)
        here[rows] = True
        for at in np.flatnonzero(pods & here[self.row]).tolist():
            yield self.groups[int(self.group_of[at])].uid, int(self.row[at]), self.freed[:, at]

    def gangs(self, pods: Mask) -> frozenset[str]:
        """The gangs of these pods, by UID."""
        return frozenset(self.groups[at].uid for at in distinct(self.group_of[pods]).tolist())

    def going(self, whole: Collection[str], surplus: Collection[str]) -> "Going":
        """What goes at most when all gangs of the queues `whole` and the members above the minima of gangs of others
        go, and all that leaves has left. Kept.
        """
        key = frozenset(whole), frozenset(surplus)
        found = self._at_most.get(key)
        if found is None:
            whole_, surplus_ = (np.isin(self.queues, list(names))[self.queue_of] for names in key)
            of = self.group_of
            goes = ~self.staying | whole_[of] | (surplus_[of] & self.is_surplus[self.unit_of])
            room = np.zeros((len(self.freed), len(self.static.names)), np.int64)
            np.add.at(room.T, self.row[goes], self.freed[:, goes].T)
            queues = distinct(self.queue_of[of[goes]]).tolist()
            found = self._at_most[key] = Going(room, frozenset(self.queues[at] for at in queues))
        return found

    def charged(self, units: Indices) -> dict[str, dict[str, int]]:
        """What the queues are charged for the pods of these units that stay, in units by resource."""
        found: dict[str, dict[str, int]] = {}
        for queue, requests in self.demands(self.pods_of(units)):
            _add(found.setdefault(queue, {}), requests, 1)
        return found

    def uses(self, units: Indices) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
        """What the queue is charged for each of these units."""
        pods = iter(self.kind[self.pods_of(units)].tolist())
        for unit, size in zip(units.tolist(), self.unit_size[units].tolist(), strict=True):
            if size == 1:
                yield unit, self.pays[next(pods)]
                continue
            uses: dict[str, int] = {}
            for kind, count in Counter(islice(pods, size)).items():
                _add(uses, self.pays[kind], count)
            yield unit, tuple(sorted(uses.items()))

    def pods_of(self, units: Indices) -> Indices:
        """The pods of these units that stay, unit after unit."""
        sizes = self.unit_size[units]
        before = np.cumsum(sizes) - sizes
        first = np.repeat(self._unit_starts[units] - before, sizes)
        found: Indices = self._by_unit[first + np.arange(len(first))]
        return found

    def _groups(self, groups: list[Running], meter: Meter) -> Work[None]:
        names: dict[str, int] = {}
        self.queue_of: Indices = np.zeros(len(groups), np.intp)
        columns = np.zeros((6, len(groups)), np.int64)
        self.priority, self.started, self.evictions, guarded, self.created, self.grace = columns
        for at in range(0, len(groups), _SLICE):
            some = groups[at : at + _SLICE]
            theirs = list(map(_QUEUE, some))
            for name in dict.fromkeys(theirs):
                names.setdefault(name, len(names))
            self.queue_of[at : at + _SLICE] = np.fromiter(map(names.__getitem__, theirs), np.intp, len(some))
            for column, get in zip(columns, _OF_GROUPS, strict=True):
                column[at : at + _SLICE] = np.fromiter(map(get, some), np.int64, len(some))
            meter.spent += 30 * len(some)
            yield
        self.queues = list(names)
        self.guarded: Mask = guarded > 0

    def _units(self, meter: Meter) -> Work[None]:
        groups, starts = self.groups, self.first_pod
        counts = np.ones(len(groups), np.intp)
        above: list[tuple[int, list[int]]] = []
        for nth, (uid, found) in enumerate(self.above.items()):
            at = groups.place(uid)
            above.append((at, found))
            counts[at] += len(found)
            meter.spent += 500
            if not nth % _FEW:
                yield
        ends = np.cumsum(counts)
        self.first_unit: Indices = ends - counts
        self.unit_group: Indices = np.repeat(np.arange(len(groups)), counts)
        self.is_surplus: Mask = np.ones(len(self.unit_group), np.bool_)
        self.is_surplus[ends - 1] = False
        self.unit_of: Indices = (ends - 1)[self.group_of]
        yield
        for nth, (at, found) in enumerate(above):
            self.unit_of[starts[at] + np.array(found)] = self.first_unit[at] + np.arange(len(found))
            meter.spent += 500 + 10 * len(found)
            if not nth % _FEW:
                yield
        staying = np.flatnonzero(self.staying)
        of = self.unit_of[staying]
        self.unit_size: Int64s = np.bincount(of, minlength=len(self.unit_group))
        self._by_unit: Indices = staying[np.argsort(of, kind="stable")] if above else staying
        self._unit_starts: Int64s = np.cumsum(self.unit_size) - self.unit_size
        self.simple = not above
        """Every group is one unit."""
        meter.spent += 10 * len(of)

    def _places(self, pods: list[RunningPod], meter: Meter) -> Work[None]:
        static = self.static
        index = static.index
        row, of = np.zeros((2, len(pods)), np.intp)
        leaving, asked = np.zeros((2, len(pods)), np.bool_)
        for at in range(0, len(pods), _SLICE):
            some = pods[at : at + _SLICE]
            row[at : at + _SLICE] = np.fromiter(map(index.get, map(_NODE, some), repeat(-1)), np.intp, len(some))
            of[at : at + _SLICE] = np.fromiter(map(id, map(_CLASS, some)), np.intp, len(some))
            leaving[at : at + _SLICE] = np.fromiter(map(_LEAVING, some), np.bool_, len(some))
            asked[at : at + _SLICE] = np.fromiter(map(_ASKED, some), np.bool_, len(some))
            meter.spent += 40 * len(some)
            yield
        self.staying: Mask = ~leaving
        self.asked: Mask = leaving & asked
        resources = {name: at for at, name in enumerate(static.resources)}
        _, firsts, kind = np.unique(of, return_index=True, return_inverse=True)
        meter.spent += 50 * len(pods)
        yield
        self.kind: Indices = kind
        self.classes = [pods[at].pod_class for at in firsts.tolist()]
        self.pays = [tuple(sorted(pod_class.requests)) for pod_class in self.classes]
        if self.worths is not None:
            self.pays = [
                tuple(sorted((*requests, (CARDS, self.worths.least(of)))))
                for of, requests in zip(self.classes, self.pays, strict=True)
            ]
        vectors = np.zeros((len(resources), len(firsts)), np.int64)
        for nth, pod_class in enumerate(self.classes):
            for name, amount in pod_class.requests:
                if name in resources:
                    vectors[resources[name], nth] = min(amount, LARGEST)
        self.freed: Int64s = vectors[:, kind]
        if static.divided:
            for at, pod in enumerate(pods):
                for name, amount in pod.cards.counters:
                    if name in resources:
                        self.freed[resources[name], at] += amount
                if not at % _SLICE:
                    meter.spent += 10 * _SLICE
                    yield
        self.freed[:, row < 0] = 0
        self.row: Indices = np.maximum(row, 0)
        meter.spent += 10 * len(pods) + 100 * len(firsts) + self.freed.size
        yield
        for at in np.flatnonzero(np.isin(row, (yield from self._withdrawn(meter)))).tolist():
            held = static.cards.indexed_part(row[at], pods[at].cards)
            usable = static.cards.usable_part(row[at], held)
            for name in held.resources:
                self.freed[resources[name], at] = usable.count(name)
            meter.spent += 200
            if not at % 64:
                yield

    def _withdrawn(self, meter: Meter) -> Work[Indices]:
        """The nodes with cards that take no new work."""
        if self.partly is None:
            found: list[int] = []
            for at in range(0, len(self.static.facts), _SLICE):
                those = self.static.facts[at : at + _SLICE]
                found += [nth for nth, facts in enumerate(those, start=at) if facts.cards.withdrawn]
                meter.spent += 50 * len(those)
                yield
            self.partly = np.array(found, np.intp)
        return self.partly


def dense_ranks(values: Int64s) -> Int64s:
    """The position of each among the distinct values in order, without sorting where they are near each other."""
    if not len(values):
        return values
    least, most = int(values.min()), int(values.max())
    if most - least > _NEAR:
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    there = np.zeros(most - least + 1, np.int64)
    there[values - least] = 1
    found: Int64s = (np.cumsum(there) - 1)[values - least]
    return found


def _add(uses: dict[str, int], requests: Sequence[tuple[str, int]], count: int) -> None:
    for name, amount in requests:
        uses[name] = uses.get(name, 0) + amount * count
