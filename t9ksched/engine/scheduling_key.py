"""What gangs ask for, as a key; gangs with the same key get the same answer in a cycle.

Room and quota only shrink while a cycle places gangs, so a key that failed keeps its answer for the rest of the cycle
(`failure_memory.py`): 100,000 waiting gangs that are alike cost one attempt.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from t9ksched.engine.members import alike, kinds
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group, hardness
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.view import QueueState
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.podclass import PodClass

_MOST_PLAIN: Final = 1_000
_SOME: Final = 64
"""After so many classes others may have their turn."""


class SchedulingKey:
    """Numbers of pods by class, for one queue; one object a cycle for all gangs that ask for the same.

    Attributes:
        queue, together: its queue, and what its pods want to be together in.
        groups: classes with numbers of pods, hardest first.
        demand: what its queue pays for, in units by resource.
        plain: its pods are of one class, and nothing but room decides whether a node may take one more of them.
        ruled: where its pods may go depends on where pods stand.
        seen: where its pods stand may be what others wait for.
        profile: what room administrators reserved from its gangs and for them; empty while nothing is reserved.
    """

    __slots__ = ("_lasting", "demand", "groups", "plain", "profile", "queue", "ruled", "seen", "together")

    def __init__(
        self, queue: str, groups: list[Group], together: tuple[object, ...], profile: tuple[object, ...] = ()
    ) -> None:
        self.queue = queue
        self.together = together
        self.groups = groups
        self.profile = profile
        self._lasting: tuple[object, ...] = ()
        first, pods = groups[0]
        self.ruled, self.seen = first.ruled, first.seen
        if len(groups) == 1:
            self.plain = pods <= _MOST_PLAIN and not (first.ruled or first.shuts or first.part_needs)
            self.plain = self.plain and not first.pod_class.rules
            self.demand = {resource: amount * pods for resource, amount in first.demand}
            return
        self.plain = False
        self.demand = {}
        for column, pods in groups:
            self.ruled |= column.ruled
            self.seen |= column.seen
            for resource, amount in column.demand:
                self.demand[resource] = self.demand.get(resource, 0) + amount * pods

    @property
    def bounded(self) -> bool:
        """Whether its pods are for nodes where they have no more of cards than their queue can pay for."""
        choices = (column.pod_class.choice for column, _ in self.groups)
        return any(choice is not None and choice.most_cards for choice in choices)

    @property
    def lasting(self) -> tuple[object, ...]:
        """The same in every cycle: the nodes of the queue, and the classes with their numbers."""
        if not self._lasting:
            groups = self.groups
            self._lasting = (groups[0][0].selector, *((column.pod_class, pods) for column, pods in groups))
        return self._lasting

    @property
    def ident(self) -> tuple[object, ...]:
        """What tells it from other keys, the same in every cycle."""
        return self.queue, self.together, self.profile, self.lasting


def fewest_cards(groups: Iterable[Group]) -> int:
    """What of cards their queue would pay if each pod was where that is least; 0 where no quota counts cards."""
    return sum(column.card_levels[0] * pods for column, pods in groups if column.card_levels)


class SchedulingKeys:
    """All keys of one cycle."""

    def __init__(
        self,
        trial: Trial,
        queues: Mapping[str, QueueState],
        profile: Callable[[Gang], tuple[object, ...]] | None = None,
    ) -> None:
        """`profile` tells apart gangs from which different room is reserved."""
        self._profile = profile
        self._trial = trial
        self._queues = queues
        self._columns: dict[tuple[str, int], ClassFit] = {}
        self._classes: list[PodClass] = []
        self._known: dict[tuple[object, ...], SchedulingKey] = {}

    def column(self, queue: str, pod_class: PodClass) -> ClassFit:
        """The column of a class in a queue; looked up by identity, as comparing classes costs more than a placement."""
        key = (queue, id(pod_class))
        found = self._columns.get(key)
        if found is None:
            found = self._trial.column(self._queues[queue].spec.node_selector, pod_class)
            self._columns[key] = found
            self._classes.append(pod_class)  # alive as long as its id is a key
        return found

    def knows(self, queue: str, pod_class: PodClass) -> bool:
        """Whether the column of a class in a queue has been asked for."""
        return (queue, id(pod_class)) in self._columns

    def by_class(self, queue: str, members: Sequence[Member]) -> list[tuple[ClassFit, list[Member]]]:
        """Members by class, in the order in which classes first appear."""
        if alike(members):
            return [(self.column(queue, members[0].pod_class), list(members))]
        groups: dict[int, tuple[ClassFit, list[Member]]] = {}
        for member in members:
            column = self.column(queue, member.pod_class)
            groups.setdefault(id(column), (column, []))[1].append(member)
        return list(groups.values())

    def of(self, gang: Gang, members: Sequence[Member]) -> Work[SchedulingKey]:
        """The key of these members of a gang, whose minimum they are."""
        together = () if gang.topology == "None" else (gang.topology, gang.levels, gang.nodes)
        profile = self._profile(gang) if self._profile is not None else ()
        return (yield from self.get(gang.queue, members, together, profile))

    def get(
        self,
        queue: str,
        members: Sequence[Member],
        topology: tuple[object, ...] = (),
        profile: tuple[object, ...] = (),
    ) -> Work[SchedulingKey]:
        """The key of these members; `topology` tells apart those that want to be together."""
        one = alike(members)
        if one:
            signature: tuple[object, ...] = (queue, topology, profile, (id(members[0].pod_class), len(members)))
        else:
            counts: dict[int, int] = {}
            each: dict[int, PodClass] = {}
            for pod_class, _, count in (yield from kinds(members, self._trial.meter)):
                counts[id(pod_class)] = counts.get(id(pod_class), 0) + count
                each[id(pod_class)] = pod_class
            signature = (queue, topology, profile, *counts.items())
        found = self._known.get(signature)
        if found is None:
            columns: dict[ClassFit, int] = {}
            if one:
                columns[self.column(queue, members[0].pod_class)] = len(members)
            else:
                for nth, (ident, pods) in enumerate(counts.items(), start=1):
                    column = self.column(queue, each[ident])
                    columns[column] = columns.get(column, 0) + pods
                    if not nth % _SOME:
                        yield
            for nth, column in enumerate(columns, start=1):
                yield from column.prepare()
                if not nth % _SOME:
                    yield
            groups = list(columns.items())
            if len(groups) > 1:
                hard = {}
                for column, _ in groups:
                    hard[column] = hardness(column)
                    yield
                groups.sort(key=lambda group: hard[group[0]])
            canonical = (queue, topology, profile, "key", *((id(column), pods) for column, pods in groups))
            found = self._known.get(canonical)
            if found is None:
                found = self._known[canonical] = SchedulingKey(queue, groups, topology, profile)
            self._known[signature] = found
        return found
