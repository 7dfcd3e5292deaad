"""What gangs ask for, with gangs that ask alike sharing one answer.

An `Ask` is a queue with numbers of pods by class. Room and quota only shrink while a cycle places gangs, so an ask that
failed keeps its answer for the rest of the cycle: 100,000 waiting gangs that are alike cost one attempt.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.placement.pack import Group, hardness
from t9ksched.engine.placement.trial import ClassFit, Trial
from t9ksched.engine.view import QueueState
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason

_SOME: Final = 64
"""After so many members others may have their turn."""


def chosen(gang: Gang) -> tuple[Sequence[Member], list[Member], bool]:
    """The waiting members that make up what is missing of the minimum, those above it, and whether they suffice.

    Members of a role that is below its minimum come first, then the others in their order.
    """
    waiting = gang.waiting
    if gang.min_member == gang.total == len(waiting) and not gang.roles and not gang.placed:
        return waiting, [], True
    placed = sum(count for _, count in gang.placed) if gang.placed else 0
    missing = max(0, gang.min_member - placed)
    if not gang.roles:
        if gang.total < gang.min_member or len(waiting) < missing:
            return waiting, [], False
        return waiting[:missing], list(waiting[missing:]), True
    there = dict(gang.placed)
    short = {role: max(0, minimum - there.get(role, 0)) for role, minimum in gang.roles}
    if gang.total < gang.min_member:
        return waiting, [], False
    picked: list[bool] = []
    for member in waiting:
        wanted = short.get(member.role, 0) > 0
        if wanted:
            short[member.role] -= 1
        picked.append(wanted)
    if any(short.values()):
        return waiting, [], False
    left = missing - sum(picked)
    for at in range(len(picked)):
        if left > 0 and not picked[at]:
            picked[at] = True
            left -= 1
    if left > 0:
        return waiting, [], False
    members = [member for member, is_picked in zip(waiting, picked, strict=True) if is_picked]
    rest = [member for member, is_picked in zip(waiting, picked, strict=True) if not is_picked]
    return members, rest, True


def alike(members: Sequence[Member]) -> bool:
    """Whether all are of one class."""
    first = members[0].pod_class
    for member in members:  # noqa: SIM110 - asked of every gang: `all` takes twice as long
        if member.pod_class is not first:
            return False
    return True


class Ask:
    """Pods by class for one queue.

    Attributes:
        groups: classes with numbers of pods, hardest first.
        demand: sum of requests in units by resource.
        key: its queue's nodes, and its classes with their numbers.
        ruled: where its pods may go depends on where pods stand.
        seen: where its pods stand may be what others wait for.
        over_quota, no_room, behind: the answer it got in this cycle; None or empty while it got none.
        no_victims: preemption could not help it in this cycle, as candidates only get fewer.
    """

    __slots__ = ("behind", "demand", "groups", "key", "no_room", "no_victims", "over_quota", "ruled", "seen")

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups
        self.key = (groups[0][0].selector, *((column.pod_class, pods) for column, pods in groups))
        self.ruled = any(column.ruled for column, _ in groups)
        self.seen = any(column.seen for column, _ in groups)
        self.demand: dict[str, int] = {}
        for column, pods in groups:
            for resource, amount in column.pod_class.requests:
                self.demand[resource] = self.demand.get(resource, 0) + amount * pods
        self.over_quota: tuple[Reason, ...] | None = None
        self.no_room: tuple[Reason, ...] = ()
        self.behind: tuple[Reason, ...] | None = None
        self.no_victims = False

    def competes(self, ahead: "Ask") -> bool:
        """Whether this would take what an earlier ask of its queue waits for: quota it lacks, or room on its nodes."""
        if ahead.over_quota is not None:
            return any(self.demand.get(resource) for resource in ahead.over_quota[0].needs)
        mine = np.logical_or.reduce([column.able() for column, _ in self.groups])
        theirs = np.logical_or.reduce([column.able() for column, _ in ahead.groups])
        return bool(np.any(mine & theirs))


class Asks:
    """All asks of one cycle."""

    def __init__(self, trial: Trial, queues: Mapping[str, QueueState]) -> None:
        self._trial = trial
        self._queues = queues
        self._columns: dict[tuple[str, int], ClassFit] = {}
        self._classes: list[PodClass] = []
        self._known: dict[tuple[object, ...], Ask] = {}
        self.full: set[ClassFit] = set()
        """Classes of which not one more pod fits."""

    def column(self, queue: str, pod_class: PodClass) -> ClassFit:
        """The column of a class in a queue; looked up by identity, as comparing classes costs more than a placement."""
        key = (queue, id(pod_class))
        found = self._columns.get(key)
        if found is None:
            found = self._trial.column(self._queues[queue].spec.node_selector, pod_class)
            self._columns[key] = found
            self._classes.append(pod_class)  # alive as long as its id is a key
        return found

    def by_class(self, queue: str, members: Sequence[Member]) -> list[tuple[ClassFit, list[Member]]]:
        """Members by class, in the order in which classes first appear."""
        if alike(members):
            return [(self.column(queue, members[0].pod_class), list(members))]
        groups: dict[int, tuple[ClassFit, list[Member]]] = {}
        for member in members:
            column = self.column(queue, member.pod_class)
            groups.setdefault(id(column), (column, []))[1].append(member)
        return list(groups.values())

    def get(self, queue: str, members: Sequence[Member], topology: tuple[object, ...] = ()) -> Work[Ask]:
        """What these members ask for; `topology` tells apart those that want to be together."""
        if alike(members):
            signature: tuple[object, ...] = (queue, topology, (id(members[0].pod_class), len(members)))
        else:
            counts = Counter(id(member.pod_class) for member in members)
            signature = (queue, topology, *counts.items())
        found = self._known.get(signature)
        if found is None:
            columns: dict[ClassFit, int] = {}
            for nth, member in enumerate(members, start=1):
                column = self.column(queue, member.pod_class)
                columns[column] = columns.get(column, 0) + 1
                if not nth % _SOME:
                    yield
            groups = list(columns.items())
            if len(groups) > 1:
                hard = {}
                for column, _ in groups:
                    hard[column] = hardness(column)
                    yield
                groups.sort(key=lambda group: hard[group[0]])
            canonical = (queue, topology, "ask", *((id(column), pods) for column, pods in groups))
            found = self._known.get(canonical)
            if found is None:
                found = self._known[canonical] = Ask(groups)
            self._known[signature] = found
        return found

    def forget_rooms(self) -> None:
        """Room has become free: what failed for want of room may be asked again."""
        for ask in self._known.values():
            ask.no_room = ()
        self.full.clear()
