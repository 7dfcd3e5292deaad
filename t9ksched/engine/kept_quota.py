"""Quota that is kept for gangs that have waited long, as room is (`starvation.py`).

Of each queue what is left of its quota is kept for the oldest gang that collects room: else small gangs of the queue
might take it for ever, while room waits in vain for a gang that its queue cannot pay for. Where starts are planned
nothing is kept: plans have the quota that is left. Quotas of cards by what they are worth are not kept, because what a
gang needs of these depends on where it goes.
"""

from collections.abc import Mapping, Sequence

from t9ksched.engine.ledger import Ledger, Shortfall
from t9ksched.model.quantity import CARDS

_Kept = Sequence[tuple[str, str, int]]
"""Account, resource and amount of what is kept."""


class KeptQuota:
    """What is kept in one cycle."""

    def __init__(self, ledger: Ledger, *, planning: bool) -> None:
        self._ledger = ledger
        self._planning = planning
        self._kept: dict[str, tuple[str, Mapping[str, int], _Kept]] = {}
        """The queue of a gang, what it asks for, and what is kept of that, by UID."""

    def counts(self, gang: str) -> bool:
        """Whether the queue of the gang has a quota of what the gang asks for, and it is kept for that gang."""
        known = self._kept.get(gang)
        return known is not None and any(known[1].get(one[1]) for one in self._ledger.limits(known[0]))

    def begin(self, gang: str, queue: str, demand: Mapping[str, int]) -> None:
        """The gang, which asks for that, is the one of its queue for which quota is kept from now on."""
        demand = _without_cards(demand)
        if not self._planning:
            self._kept[gang] = queue, demand, self._ledger.keep(queue, demand)

    def ever(self, queue: str, demand: Mapping[str, int]) -> bool:
        """Whether the queue could pay for that if it paid for nothing else."""
        return self._ledger.pays_ever(queue, _without_cards(demand))

    def open(self, gang: str) -> None:
        """It is the gang's turn: what is kept for it is left."""
        if (known := self._kept.get(gang)) is not None:
            self._ledger.release(known[2])
            self._kept[gang] = known[0], known[1], ()

    def close(self, gang: str) -> None:
        """It waits on: what is left now is kept for it."""
        if (known := self._kept.get(gang)) is not None:
            assert not known[2]
            self._kept[gang] = known[0], known[1], self._ledger.keep(known[0], known[1])

    def end(self, gang: str) -> None:
        """The gang, whose turn it is, has its places, or waits for something else."""
        self._kept.pop(gang, None)

    def shortfalls(self, gang: str, queue: str, demand: Mapping[str, int]) -> list[Shortfall]:
        """Quotas that the demand of this gang would exceed at its turn."""
        found = self._ledger.can_charge(queue, demand)
        if not found or gang not in self._kept:
            return found
        kept = {(account, resource): amount for account, resource, amount in self._kept[gang][2]}
        own = [(one, kept.get((one.queue, one.resource), 0)) for one in found]
        return [
            Shortfall(one.queue, one.resource, one.needs, one.has + more, one.nominal, one.kept - more)
            for one, more in own
            if one.needs > one.has + more
        ]


def _without_cards(demand: Mapping[str, int]) -> Mapping[str, int]:
    return {resource: amount for resource, amount in demand.items() if resource != CARDS}
