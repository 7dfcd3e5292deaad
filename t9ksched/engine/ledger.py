"""Quotas of queues and what is charged against them.

Quota is asked through `can_charge`, `charge`, `uncharge` and `share` only. Accounts are a tree: a charge of a queue
goes to its account and to all above. Each account counts in two columns. *Held* is all that is charged to it or below
it; caps limit it. *Borrowed* is what is held beyond what accounts own: of a charge only that part goes up by which it
exceeds what a level owns. Shares are parts of what is borrowed, compared between siblings. Today every queue is an
account of its own and owns nothing, so that both columns are the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from t9ksched.engine.view import QueueState

SHARE_UNIT: Final = 10**9
"""Dominant shares are counted in parts of this, so that they compare exactly."""
INFINITE_SHARE: Final = 1 << 62
"""Share of a queue that uses something of which its quota is zero."""


class Shortfall(msgspec.Struct, frozen=True):
    """A quota that would be exceeded, in units of the resource.

    Attributes:
        needs: asked for.
        has: what is left, negative when the queue uses more than its quota.
        nominal: the whole quota.
        kept: what is not left because it is kept for gangs that have waited long.
    """

    queue: str
    resource: str
    needs: int
    has: int
    nominal: int
    kept: int = 0


class Level(msgspec.Struct, frozen=True):
    """Where an account stands in the tree: the name of the one above it, and what it owns, in units by resource."""

    parent: str | None = None
    owned: Mapping[str, int] = msgspec.field(default_factory=dict)


class _Account:
    """One account.

    Attributes:
        cap: the most it may hold, by resource; what it does not name has no cap.
        owned: what it holds of its own before it borrows.
        held: all that is charged.
        carried: what may be borrowed: all that a queue holds, or what the accounts below have borrowed.
        leaving: of `held`, what pods hold that were told to go.
        kept: what is charged to nobody, and kept for gangs that have waited long.
    """

    __slots__ = ("cap", "carried", "held", "kept", "leaving", "name", "owned", "parent")

    def __init__(self, name: str, state: QueueState | None, owned: Mapping[str, int]) -> None:
        self.name = name
        self.cap = dict(state.spec.quota) if state else {}
        self.owned = owned
        self.parent: _Account | None = None
        self.held: dict[str, int] = {}
        self.carried = self.held
        self.leaving: dict[str, int] = {}
        self.kept: dict[str, int] = {}

    def taken(self, resource: str) -> int:
        """What is held of it, or kept."""
        return self.held.get(resource, 0) + self.kept.get(resource, 0)

    def borrowed(self, resource: str) -> int:
        """What it carries beyond what it owns."""
        return max(0, self.carried.get(resource, 0) - self.owned.get(resource, 0))


class Ledger:
    """Charges of one cycle.

    Args:
        queues: their caps, and what they use.
        totals: allocatable by resource of the nodes that an account may use.
        tree: where accounts stand; an account that it does not name stands alone and owns nothing. Names that are no
            queue are accounts above queues, without a cap of their own.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueState],
        totals: Callable[[str], Mapping[str, int]],
        tree: Mapping[str, Level] | None = None,
    ) -> None:
        self.version = 0
        """Another one after each change of what is charged."""
        tree = tree or {}
        flat = Level()
        names = dict.fromkeys((*queues, *tree))
        self._accounts = {name: _Account(name, queues.get(name), tree.get(name, flat).owned) for name in names}
        for name, level in tree.items():
            if level.parent is not None:
                above = self._accounts[name].parent = self._accounts[level.parent]
                above.carried = {}
        self._totals = totals
        self._measures: dict[str, Mapping[str, int]] = {}
        """What shares are parts of, by account."""
        for name, state in queues.items():
            self.charge(name, state.used)

    @property
    def flat(self) -> bool:
        """Whether every account stands alone and owns nothing."""
        return all(account.parent is None and not account.owned for account in self._accounts.values())

    def path(self, queue: str) -> Iterator[str]:
        """The accounts that a charge of this queue goes to, its own first."""
        return (account.name for account in self._path(queue))

    def _path(self, queue: str) -> "Iterator[_Account]":
        account: _Account | None = self._accounts[queue]
        while account is not None:
            yield account
            account = account.parent

    def can_charge(
        self, queue: str, demand: Mapping[str, int], *, staying: bool = False, refill: bool = False
    ) -> list[Shortfall]:
        """Quotas that the demand would exceed, by resource; empty when it may be charged. Equality is fine.

        With `staying`, pods that were told to go do not count; with `refill` what is kept for others does not.
        """
        found = []
        for account in self._path(queue):
            held, leaving, kept = account.held, account.leaving if staying else {}, {} if refill else account.kept
            for resource, nominal in account.cap.items():
                needs, no_others = demand.get(resource, 0), kept.get(resource, 0)
                has = nominal - held.get(resource, 0) + leaving.get(resource, 0) - no_others
                if needs > 0 and needs > has:
                    found.append(Shortfall(account.name, resource, needs, has, nominal, no_others))
        return found

    def limits(self, queue: str) -> Iterator[tuple[str, str, int, int]]:
        """The caps that a charge of this queue is held against: account, resource, cap, and what is held or kept."""
        for account in self._path(queue):
            for resource, nominal in account.cap.items():
                yield account.name, resource, nominal, account.taken(resource)

    def most(self, queue: str, request: Mapping[str, int], wanted: int) -> int:
        """How many of `wanted` equal requests may be charged."""
        for account in self._path(queue):
            for resource, nominal in account.cap.items():
                amount = request.get(resource, 0)
                if amount > 0:
                    wanted = min(wanted, max(0, nominal - account.taken(resource)) // amount)
        return wanted

    def charge(self, queue: str, demand: Mapping[str, int]) -> None:
        """Take the demand."""
        self.version += 1
        account: _Account | None = self._accounts[queue]
        carried = demand
        while account is not None:
            held, below = account.held, {}
            if account.parent is not None:
                below = {resource: account.borrowed(resource) for resource in carried}
            for resource, amount in demand.items():
                held[resource] = held.get(resource, 0) + amount
            if account.carried is not held:
                for resource, amount in carried.items():
                    account.carried[resource] = account.carried.get(resource, 0) + amount
            carried = {resource: account.borrowed(resource) - before for resource, before in below.items()}
            account = account.parent

    def uncharge(self, queue: str, demand: Mapping[str, int]) -> None:
        """Give back what `charge` took."""
        self.charge(queue, {resource: -amount for resource, amount in demand.items()})

    def pays_ever(self, queue: str, demand: Mapping[str, int]) -> bool:
        """Whether the demand may be charged while nothing else is."""
        return all(
            demand.get(resource, 0) <= nominal
            for account in self._path(queue)
            for resource, nominal in account.cap.items()
        )

    def keep(self, queue: str, demand: Mapping[str, int]) -> Sequence[tuple[str, str, int]]:
        """Keep what is left of quotas that the demand is held against, as far as it needs that: nobody is charged for
        it, and it may be charged no more. Returns account, resource and amount of each; see `release`.
        """
        found = []
        for account in self._path(queue):
            for resource, nominal in account.cap.items():
                amount = min(demand.get(resource, 0), nominal - account.taken(resource))
                if amount > 0:
                    found.append((account.name, resource, amount))
        for name, resource, amount in found:
            kept = self._accounts[name].kept
            kept[resource] = kept.get(resource, 0) + amount
        self.version += bool(found)
        return found

    def release(self, kept: Iterable[tuple[str, str, int]]) -> None:
        """What `keep` returned is kept no longer."""
        for name, resource, amount in kept:
            self._accounts[name].kept[resource] -= amount
            self.version += 1

    def kept(self, queue: str) -> Iterator[tuple[str, str, int]]:
        """What is kept of quotas that a charge of this queue is held against: account, resource and amount."""
        for account in self._path(queue):
            for resource, amount in account.kept.items():
                yield account.name, resource, amount

    def leave(self, queue: str, requests: Iterable[tuple[str, int]]) -> None:
        """A pod of the queue is told to go: it stays charged until it is gone."""
        amounts = tuple(requests)
        for account in self._path(queue):
            for resource, amount in amounts:
                account.leaving[resource] = account.leaving.get(resource, 0) + amount

    def used(self, queue: str, *, staying: bool = False) -> Mapping[str, int]:
        """What the queue is charged with; with `staying`, without the pods that were told to go."""
        account = self._accounts[queue]
        if not staying or not account.leaving:
            return account.held
        return {name: amount - account.leaving.get(name, 0) for name, amount in account.held.items()}

    def share(self, queue: str) -> int:
        """Dominant share of what an account has borrowed, in parts of `SHARE_UNIT`: the largest of borrowed/quota.

        Only resources that the quota names count; without one, all of the nodes that it may use.
        """
        account = self._accounts[queue]
        borrowed: Mapping[str, int] = account.carried
        if account.owned:
            borrowed = {resource: account.borrowed(resource) for resource in account.carried}
        return dominant(borrowed, self.measures(queue), self.limited(queue))

    def shares(self, queue: str) -> tuple[int, ...]:
        """Shares of the accounts from the root down to the queue: what siblings are compared by, level by level."""
        return tuple(reversed([self.share(name) for name in self.path(queue)]))

    def measures(self, queue: str) -> Mapping[str, int]:
        """What an account's share is a part of: its quota, or what the nodes have that it may use."""
        found = self._measures.get(queue)
        if found is None:
            found = self._measures[queue] = self._accounts[queue].cap or self._totals(queue)
        return found

    def limited(self, queue: str) -> bool:
        """Whether the queue has a quota."""
        return bool(self._accounts[queue].cap)


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
