"""The order in which queues and gangs are served.

Queues: larger priority, then smaller dominant share, then name; asked again after each commitment, because a share has
grown. Gangs of a queue: those being refilled, then larger priority, then the older, then uid. Plugins compare at the
place where they are listed. Before the others of queues with one priority go gangs with planned starts.
"""

import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from t9ksched.engine.plugins import Plugins
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang
from t9ksched.model.queue import QueueSpec


def gang_key(gang: Gang) -> tuple[bool, int, int, str, str]:
    """Sorts gangs of one queue. A gang that is being refilled goes before anything new of its queue.

    The API counts creation in whole seconds; within one the name decides, then the UID.
    """
    return (not gang.refilling, -gang.priority, gang.created, gang.name, gang.uid)


def age_key(gang: Gang) -> tuple[bool, int, str, str]:
    """Sorts gangs by who came first, whatever their priority; one that is being refilled goes before all."""
    refilled, _, created, name, uid = gang_key(gang)
    return (refilled, created, name, uid)


def sort_gangs(gangs: list[Gang], policy: Policy, plugins: Plugins, now: int) -> None:
    """Sort gangs of one queue by the policy, the best one last."""
    ranks = [
        [-gang.priority for gang in gangs] if name == "basic" else plugins.gang_ranks(name, gangs, now)
        for name in policy.gang_order
    ]

    def key(at: int) -> tuple[object, ...]:
        refilled, _, *rest = gang_key(gangs[at])
        return (refilled, *(one[at] for one in ranks), *rest)

    gangs[:] = [gangs[at] for at in sorted(range(len(gangs)), key=key, reverse=True)]


class Firm:
    """Gangs with planned starts, which have their turns before all that wait in queues of the same priority: those that
    are planned earlier first, whatever their own priority and the shares of their queues.

    Where plans are made anew, because something else took their room, they keep their order, but that none is moved
    later for a gang that came after its own (`put_off`), and no gang without a plan takes room before them. Gangs that
    are being refilled go first here, too. Queues with `ordering: Strict` keep their own order, and no gang of them is
    taken.

    Args:
        planned: when each gang with a planned start is to start, by UID; nanoseconds since the epoch.
    """

    def __init__(self, lines: Mapping[str, "Line"], specs: Mapping[str, QueueSpec], planned: Mapping[str, int]) -> None:
        self._next: dict[int, list[Gang]] = {}
        """By priority of the queue, the next one last."""
        if not planned:
            return
        for name, line in lines.items():
            if specs[name].ordering != "Strict":
                taken = line.take(lambda gang: gang.uid in planned or gang.refilling)
                self._next.setdefault(specs[name].priority, []).extend(taken)
        for gangs in self._next.values():
            gangs.sort(key=lambda gang: _firm_key(gang, planned), reverse=True)

    def pop(self, rank: int) -> Gang | None:
        """The next one of queues with this priority; None when there is none."""
        gangs = self._next.get(rank)
        return gangs.pop() if gangs else None

    def put_off(self, rank: int, gang: Gang) -> None:
        """The plan of this gang is made anew after those of gangs that came before it: from now on all have their turns
        in the order in which they came.
        """
        self._next[rank] = sorted((*self._next[rank], gang), key=age_key, reverse=True)


def _firm_key(gang: Gang, planned: Mapping[str, int]) -> tuple[object, ...]:
    refilled, priority, *age = gang_key(gang)
    at = planned.get(gang.uid)
    return (refilled, *((priority,) if at is None else (at,)), *age)


class Line:
    """Gangs of one queue, best first.

    Attributes:
        left: those that are left, the best one last.
        source: the list that the line was made of, best first, as long as all of it is left; None otherwise.
    """

    def __init__(self, gangs: list[Gang], sort: Callable[[list[Gang]], None] | None = None) -> None:
        """The gangs are in order, or `sort` brings them, with the best one last, when the queue is first served."""
        self.left = gangs if sort is not None else gangs[::-1]
        self.source = gangs if sort is None else None
        self._sort = sort

    def __len__(self) -> int:
        return len(self.left)

    def take(self, chosen: Callable[[Gang], bool]) -> list[Gang]:
        """Take these gangs out of the line."""
        found = [gang for gang in self.left if chosen(gang)]
        if found:
            self.left[:] = [gang for gang in self.left if not chosen(gang)]
            self.source = None
        return found

    def best(self) -> Gang:
        """The best gang, which stays in the line."""
        if self._sort is not None:
            self._sort(self.left)
            self._sort = None
        return self.left[-1]

    def pop(self) -> Gang:
        """The best gang, taken out of the line."""
        self.best()
        self.source = None
        return self.left.pop()

    def begin(self) -> None:
        """Gangs are taken off the end of `left` from now on."""
        self.source = None

    def clear(self) -> None:
        """Take all gangs out of the line."""
        self.left.clear()
        self.source = None


Comparator = Callable[[str], int]
"""What a queue, given by name, is compared by; smaller first."""


class QueuesByRank:
    """The queues that still have gangs to judge, best first. `plugins` are comparators by name.

    Only the queue that was just served changes its share, so it alone is entered again. `faults` is asked for how many
    plugins have failed: with another one off, all queues are compared anew.
    """

    def __init__(
        self,
        names: Iterable[str],
        specs: Mapping[str, QueueSpec],
        share: Comparator,
        policy: Policy,
        plugins: Mapping[str, Comparator] | None = None,
        faults: Callable[[], int] = lambda: 0,
    ) -> None:
        known = {"basic": lambda name: -specs[name].priority, "resource": share, **(plugins or {})}
        self._comparators: Sequence[Comparator] = [known[name] for name in policy.queue_order]
        self._faults = faults
        self._seen = -1
        self._heap: list[tuple[tuple[int, ...], str]] = [((), name) for name in names]
        self._enter()

    def key(self, name: str) -> tuple[int, ...]:
        """What queues are compared by, smaller first; equal keys are decided by name."""
        return tuple([compare(name) for compare in self._comparators])

    def _enter(self) -> None:
        while self._seen != self._faults():
            self._seen = self._faults()
            self._heap = [(self.key(name), name) for _, name in self._heap]
        heapq.heapify(self._heap)

    def best(self) -> str | None:
        """The queue to serve, None when there is none."""
        return self._heap[0][1] if self._heap else None

    def reorder(self) -> None:
        """The share of any queue may have grown."""
        self._heap = [(self.key(name), name) for _, name in self._heap]
        self._enter()

    def retain(self, names: Container[str]) -> None:
        """Only these queues still have gangs; the share of any may have grown."""
        self._heap = [entry for entry in self._heap if entry[1] in names]
        self.reorder()

    def served(self, more: bool, grown: bool) -> None:
        """The best queue was served: with more gangs it stays, at the place its share gives it if that has grown."""
        if more and (not grown or len(self._heap) == 1):
            return
        if more:
            name = self._heap[0][1]
            heapq.heapreplace(self._heap, (self.key(name), name))
            if self._seen != self._faults():
                self._enter()
        else:
            heapq.heappop(self._heap)
