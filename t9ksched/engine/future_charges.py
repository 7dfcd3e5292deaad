"""What accounts are charged at later moments: by gangs that run until their ends, and by starts that are planned.

A quota is looked ahead at as nodes are: at no moment do what runs and what is planned exceed it. What an account is
charged is added up once after each change that concerns it. Times are nanoseconds since the epoch.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.blocks import NEVER_ENDS, Block
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.ends import Ends
from t9ksched.engine.steps import Steps, steps_of

Limit = tuple[str, str, int, int]
"""Account, resource, quota, and what is held of it now."""
_Known = tuple[int, int, Steps, tuple[list[int], list[int]]]
"""The version of an account and what it held, what it is charged when, and the most until when."""


class FutureCharges:
    """The charges of a cycle.

    Args:
        accounts: those that a charge of each queue goes to, by queue.
        limits: the quotas that a queue's charges are held against, as they are now.
        now: the moment of the cycle.
    """

    def __init__(
        self, accounts: Mapping[str, Sequence[str]], limits: Callable[[str], Iterable[Limit]], now: int
    ) -> None:
        self._accounts = accounts
        self._limits = limits
        self._now = now
        self._queues: dict[str, set[str]] = {}
        """The queues whose charges go to an account."""
        for queue, names in accounts.items():
            for account in names:
                self._queues.setdefault(account, set()).add(queue)
        self._blocks: dict[str, Block] = {}
        self._begun: list[tuple[int, str, Mapping[str, int]]] = []
        self._paying: dict[str, tuple[int, str, Mapping[str, int]]] = {}
        self._planned = dict.fromkeys(self._queues, 0)
        """How many starts are planned that an account is to pay for."""
        self._versions = dict.fromkeys(self._queues, 0)
        self._ending: dict[tuple[str, str], tuple[Int64s, Int64s]] = {}
        """Moments and amounts of what ends give back of a resource to an account."""
        self._known: dict[tuple[str, str], _Known] = {}

    def expect(self, ends: Ends, moments: Int64s, worths: CardWorths | None = None) -> None:
        """What gives its room back, and when, one moment an end; `worths` tells what of it is cards, where quotas count
        them. Asked once, before all else.
        """
        self._worths = worths
        self._expected = ends
        self._moments = moments

    def gives_back(self, at: int, queue: str, demand: Mapping[str, int]) -> None:
        """What the queue pays for now it pays for until then."""
        self._begun.append((at, queue, demand))
        self._changed(queue)

    def pays(self, owner: str, at: int, queue: str, demand: Mapping[str, int]) -> None:
        """For what is held for a gang of that UID, or still to be found, the queue pays until then."""
        self.release(owner)
        self._paying[owner] = (at, queue, demand)
        self._changed(queue)

    def release(self, owner: str) -> bool:
        """What `pays` said of this gang is no longer so; whether it said something."""
        known = self._paying.pop(owner, None)
        if known is not None:
            self._changed(known[1])
        return known is not None

    def take(self, block: Block) -> None:
        """A start is planned; its owner has no other one."""
        self._blocks[block.owner] = block
        self._changed(block.queue, 1)

    def drop(self, block: Block) -> None:
        """The start is planned no longer."""
        del self._blocks[block.owner]
        self._changed(block.queue, -1)

    def _changed(self, queue: str, planned: int = 0) -> None:
        for account in self._accounts[queue]:
            self._versions[account] += 1
            self._planned[account] += planned

    def pays_until(self, queue: str, demand: Mapping[str, int]) -> int:
        """Until when accounts of the queue, if they can pay for the demand now, can do so at every moment from now on;
        0 where something is in the way at once.
        """
        if not any(self._planned[account] for account in self._accounts[queue]):
            return NEVER_ENDS
        found = NEVER_ENDS
        for account, resource, nominal, held in self._limits(queue):
            if needs := demand.get(resource, 0):
                moments, most = self._paid(account, resource, held)[3]
                last = bisect_right(most, nominal - needs) - 1
                if last < len(moments):
                    found = min(found, moments[last] if last >= 0 else 0)
        return found

    def left(self, queue: str) -> list[tuple[str, int]]:
        """How much of each resource accounts of the queue can pay for, besides, at every moment from now on."""
        planned = any(self._planned[account] for account in self._accounts[queue])
        return [
            (resource, nominal - (self._paid(account, resource, held)[3][1][-1] if planned else held))
            for account, resource, nominal, held in self._limits(queue)
        ]

    def payable(self, queue: str, demand: Mapping[str, int]) -> list[tuple[Int64s, Mask]]:
        """Moments from which on each of the accounts can pay for the demand or not."""
        found = []
        for account, resource, nominal, held in self._limits(queue):
            if (needs := demand.get(resource, 0)) > 0:
                at, paid = self._paid(account, resource, held)[2]
                # The demand may have more than 64 bits, the difference is compared all the same.
                found.append((at, paid <= nominal - needs))
        return found

    def affords(self, block: Block, *, laid: bool) -> bool:
        """Whether accounts can pay for a plan, which is among the charges (`laid`) or not, until it ends."""
        for account, resource, nominal, held in self._limits(block.queue):
            if needs := block.room.demand.get(resource):
                at, paid = self._paid(account, resource, held)[2]
                first = max(0, int(np.searchsorted(at, block.at, side="right")) - 1)
                if paid[first : np.searchsorted(at, block.until)].max() > nominal - (0 if laid else needs):
                    return False
        return True

    def _paid(self, account: str, resource: str, held: int) -> _Known:
        """What an account is charged of a resource; `held` is the charge of now."""
        known = self._known.get((account, resource))
        version = self._versions[account]
        if known is None or known[:2] != (version, held):
            steps = self._added_up(account, resource, held)
            most = np.maximum.accumulate(steps[1])
            grows = np.flatnonzero(np.diff(most)) + 1
            until = steps[0][grows].tolist(), [int(most[0]), *most[grows].tolist()]
            known = self._known[account, resource] = (version, held, steps, until)
        return known

    def _added_up(self, account: str, resource: str, held: int) -> Steps:
        queues = self._queues[account]
        ending = self._ending.get((account, resource))
        if ending is None:
            ends, amounts = self._expected.charged(queues, resource, self._worths)
            ending = self._ending[account, resource] = self._moments[ends], -amounts
        at, gained = [], []
        for moment, queue, demand in (*self._begun, *self._paying.values()):
            if queue in queues and (amount := demand.get(resource)):
                at.append(moment)
                gained.append(-amount)
        for block in self._blocks.values():
            if block.queue in queues and (amount := block.room.demand.get(resource)):
                at += [block.at, block.until]
                gained += [amount, -amount]
        moments = np.concatenate([ending[0], np.array(at, np.int64)])
        return steps_of(self._now, held, moments, np.concatenate([ending[1], np.array(gained, np.int64)]))
