"""Who pays: quotas of queues and what is charged against them.

Quota is asked through `can_charge`, `charge`, `uncharge` and `share` only. A quota is a set of rows (queue, resource,
nominal); a charge goes to every account of `path(queue)`, which today is the queue alone and has room for parents.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from t9ksched.engine.view import QueueState

SHARE_UNIT: Final = 10**9
"""Dominant shares are counted in parts of this, so that they compare exactly."""
INFINITE_SHARE: Final = 1 << 62
"""Share of a queue that uses something of which its quota is zero."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A quota that would be exceeded, in units of the resource.

    Attributes:
        needs: asked for.
        has: what is left, negative when the queue uses more than its quota.
        nominal: the whole quota.
    """

    queue: str
    resource: str
    needs: int
    has: int
    nominal: int


class Ledger:
    """Charges of one cycle. `totals(queue)` gives allocatable by resource of the nodes a queue may use (OQ-48)."""

    def __init__(self, queues: Mapping[str, QueueState], totals: Callable[[str], Mapping[str, int]]) -> None:
        self._nominal = {name: dict(state.spec.quota) for name, state in queues.items()}
        self._used = {name: dict(state.used) for name, state in queues.items()}
        self._leaving: dict[str, dict[str, int]] = {name: {} for name in queues}
        self._totals = totals
        self._measures: dict[str, Mapping[str, int]] = {}
        """What shares are parts of, by queue."""

    def path(self, queue: str) -> tuple[str, ...]:
        """The accounts a charge of this queue goes to."""
        return (queue,)

    def can_charge(self, queue: str, demand: Mapping[str, int], *, staying: bool = False) -> list[Shortfall]:
        """Quotas that the demand would exceed, by resource; empty when it may be charged. Equality is fine.

        With `staying` those who were told to go do not count.
        """
        found = []
        for account in self.path(queue):
            used, leaving = self._used[account], self._leaving[account] if staying else {}
            for resource, nominal in self._nominal[account].items():
                needs = demand.get(resource, 0)
                has = nominal - used.get(resource, 0) + leaving.get(resource, 0)
                if needs > 0 and needs > has:
                    found.append(Shortfall(account, resource, needs, has, nominal))
        return found

    def most(self, queue: str, request: Mapping[str, int], wanted: int) -> int:
        """How many of `wanted` equal requests may be charged."""
        for account in self.path(queue):
            used = self._used[account]
            for resource, nominal in self._nominal[account].items():
                amount = request.get(resource, 0)
                if amount > 0:
                    wanted = min(wanted, max(0, nominal - used.get(resource, 0)) // amount)
        return wanted

    def charge(self, queue: str, demand: Mapping[str, int]) -> None:
        """Take the demand."""
        for account in self.path(queue):
            used = self._used[account]
            for resource, amount in demand.items():
                used[resource] = used.get(resource, 0) + amount

    def uncharge(self, queue: str, demand: Mapping[str, int]) -> None:
        """Give back what `charge` took."""
        for account in self.path(queue):
            used = self._used[account]
            for resource, amount in demand.items():
                used[resource] -= amount

    def leave(self, queue: str, requests: Iterable[tuple[str, int]]) -> None:
        """A pod of the queue is told to go: it stays charged until it is gone."""
        leaving = self._leaving[queue]
        for resource, amount in requests:
            leaving[resource] = leaving.get(resource, 0) + amount

    def used(self, queue: str, *, staying: bool = False) -> Mapping[str, int]:
        """What the queue is charged with; with `staying`, without those who were told to go."""
        used, leaving = self._used[queue], self._leaving[queue]
        if not staying or not leaving:
            return used
        return {name: amount - leaving.get(name, 0) for name, amount in used.items()}

    def share(self, queue: str, *, staying: bool = False) -> int:
        """Dominant share in parts of `SHARE_UNIT`: the largest of used/quota over the resources the quota names.

        With `staying` those who were told to go do not count.
        """
        return dominant(self.used(queue, staying=staying), self.measures(queue), self.limited(queue))

    def measures(self, queue: str) -> Mapping[str, int]:
        """What the queue's share is a part of: its quota, or what the nodes have that it may use."""
        found = self._measures.get(queue)
        if found is None:
            found = self._measures[queue] = self._nominal[queue] or self._totals(queue)
        return found

    def limited(self, queue: str) -> bool:
        """Whether the queue has a quota."""
        return bool(self._nominal[queue])


def dominant(used: Mapping[str, int], measures: Mapping[str, int], limited: bool) -> int:
    """The largest part that `used` is of `measures`, in parts of `SHARE_UNIT`.

    What there is none of counts as infinite where the measures are a quota, and not at all where they are nodes.
    """
    largest = 0
    for resource, nominal in measures.items():
        amount = used.get(resource, 0)
        if amount <= 0:
            continue
        if nominal > 0:
            part = amount * SHARE_UNIT // nominal
            if part > largest:
                largest = part
        elif limited:
            return INFINITE_SHARE
    return largest
