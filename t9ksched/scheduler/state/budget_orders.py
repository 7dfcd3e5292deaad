"""How many groups may go before the disruption budgets over them are used up, and which.

Groups by which the same budgets would lose as many pods each have one order, the first to go first. Those of them that
may go are the first ones of the order, as a budget that has too little left for one has too little for those behind it.
So what is kept of an order is how many that are, and a budget that allows another number costs the groups that may go
because of that, or no longer.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final

from t9ksched.engine.work import Work
from t9ksched.scheduler.state.budgets import BudgetKey, Needs, Rank

_A_SLICE: Final = 2000
"""So many groups are counted in one step."""

Place = tuple[Rank, str]
"""Where a group with this UID stands in its order."""


class Alike:
    """Groups by which the same budgets would lose as many pods each.

    Attributes:
        order: the groups, the first to go first.
        free: the first so many of them may go.
    """

    __slots__ = ("free", "needs", "order")

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.order: list[Place] = []
        self.free = 0

    def frees(self, place: Place) -> bool:
        """Whether the group that stands there may go."""
        return self.free > 0 and place <= self.order[self.free - 1]

    def add(self, place: Place) -> None:
        """A group comes; before one that may go it may go, too, until it is counted anew."""
        self.free += self.frees(place)
        insort(self.order, place)

    def remove(self, place: Place) -> None:
        """A group leaves the order."""
        self.free -= self.frees(place)
        del self.order[bisect_left(self.order, place)]


class BudgetOrders:
    """The orders of all groups by which some budget would lose pods."""

    def __init__(self) -> None:
        self._allowed: dict[BudgetKey, int] = {}
        self._alike: dict[Needs, Alike] = {}
        self._of: defaultdict[BudgetKey, dict[Alike, int]] = defaultdict(dict)
        """The orders of groups by which each budget would lose pods, with how many by a group."""
        self._moved: dict[BudgetKey, None] = {}
        """Budgets that allow another number, or would lose pods by other groups, since groups were counted."""

    def under(self, key: BudgetKey) -> Iterator[str]:
        """The groups by which a budget would lose pods, by UID."""
        return (uid for alike in self._of.get(key, ()) for _, uid in alike.order)

    def allow(self, key: BudgetKey, number: int) -> None:
        """A budget may lose so many pods."""
        if self._allowed.get(key, 0) != number:
            self._moved[key] = None
        if number:
            self._allowed[key] = number
        else:
            self._allowed.pop(key, None)

    def remove(self, alike: Alike, place: Place) -> None:
        """A group leaves its order."""
        alike.remove(place)
        for key, _ in alike.needs:
            self._moved[key] = None
        if not alike.order:
            del self._alike[alike.needs]
            for key, _ in alike.needs:
                del self._of[key][alike]
                if not self._of[key]:
                    del self._of[key]

    def add(self, needs: Needs, place: Place) -> Alike:
        """A group comes by which budgets would lose this; its order."""
        alike = self._alike.get(needs)
        if alike is None:
            alike = self._alike[needs] = Alike(needs)
            for key, count in needs:
                self._of[key][alike] = count
        alike.add(place)
        for key, _ in needs:
            self._moved[key] = None
        return alike

    def count(self, other: dict[str, None]) -> Work[None]:
        """Count again how many may go, where something changed; `other` gets the UIDs of those for which the answer is
        another one. It may be left at any step, and is done by the next call.
        """
        work = 0
        while self._moved:
            keys, together = self._together(next(iter(self._moved)))
            counts = [self._alone(together[0])] if len(together) == 1 else (yield from self._in_turn(together))
            for alike, count in zip(together, counts, strict=True):
                few, many = sorted((alike.free, count))
                other.update((uid, None) for _, uid in alike.order[few:many])
                alike.free = count
                work += 1 + many - few
                if work >= _A_SLICE:
                    work = 0
                    yield
            for key in keys:
                self._moved.pop(key, None)

    def _together(self, key: BudgetKey) -> tuple[list[BudgetKey], list[Alike]]:
        """A budget with those that would lose pods by the same groups, directly or through others, and the orders of
        those groups. Budgets that decide the same whoever goes, and did so before, do not count.
        """
        keys, found = {key: None}, dict[Alike, None]()
        ahead = [key]
        while ahead:
            for alike in self._of.get(ahead.pop(), ()):
                if alike not in found:
                    found[alike] = None
                    for one, _ in alike.needs:
                        if one not in keys and (one in self._moved or self._is_scarce(one)):
                            keys[one] = None
                            ahead.append(one)
        return list(keys), list(found)

    def _is_scarce(self, key: BudgetKey) -> bool:
        """Whether a budget may lose some pods, and not all by which groups under it may go."""
        allowed = self._allowed.get(key, 0)
        return bool(allowed) and allowed < sum(len(alike.order) * count for alike, count in self._of[key].items())

    def _alone(self, alike: Alike) -> int:
        """How many may go of groups that share their scarce budgets with no others."""
        return min(len(alike.order), *(self._allowed.get(key, 0) // count for key, count in alike.needs))

    def _in_turn(self, together: Sequence[Alike]) -> Work[list[int]]:
        """How many may go of each of several orders that share budgets: one group after the other, until too little
        is left for the next one of each order.
        """
        left = {key: self._allowed.get(key, 0) for alike in together for key, _ in alike.needs}
        counts = [0] * len(together)
        ahead = [(alike.order[0], nth) for nth, alike in enumerate(together)]
        heapify(ahead)
        work = 0
        while ahead:
            _, nth = ahead[0]
            alike = together[nth]
            if all(left[key] >= count for key, count in alike.needs):
                for key, count in alike.needs:
                    left[key] -= count
                counts[nth] += 1
                work += len(alike.needs)
                if counts[nth] < len(alike.order):
                    heapreplace(ahead, (alike.order[counts[nth]], nth))
                    if work >= _A_SLICE:
                        work = 0
                        yield
                    continue
            heappop(ahead)
        return counts
