"""Finds cards for the containers of one pod, each of which needs parts of certain sizes.

Containers may have parts of one card; the cards of one container are different ones. Main containers and sidecars hold
theirs at one time, an init container before (`model.card_peak`), so that of one and the same card they take no more
than the larger part. The search is exact up to a bound: large parts first, each where the pod takes least more, then on
the fullest card that suffices, and back where the rest does not fit. Of what it finds that counts of which a pod takes
least in all: cores, then memory. Cards that are alike are tried once.
"""

from collections.abc import Sequence
from typing import Final

from t9ksched.engine.arrays import Int64s
from t9ksched.model.card_peak import moments
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardRequest, SharedCards

_MOST_VISITS: Final = 4096
"""So many cards are tried for a pod: then it counts as not fitting."""
_MOST_BETTER: Final = 64
"""So many more are tried for an arrangement that takes less than the first."""
_MOST_USAGES: Final = 1 << 14
Amounts = tuple[int, int, int]
"""Of one card: thousandths of its cores, MiB, places."""


class Slots:
    """What the containers of a pod need of the cards of one resource.

    Attributes:
        counts: cards of each request.
        cores: thousandths of each of these.
        order: the requests in the order in which they get cards.
    """

    def __init__(self, requests: Sequence[CardRequest]) -> None:
        self.counts = tuple(one.count for one in requests)
        self.cores = tuple(
            one.cores if isinstance(one, SharedCards) and one.cores < CORES else CORES for one in requests
        )
        self._moments = moments(requests)
        sizes = [
            (-self.cores[at], *((-one.memory, -one.memory_percent) if isinstance(one, SharedCards) else ()))
            for at, one in enumerate(requests)
        ]
        self.order = sorted(range(len(requests)), key=lambda at: (sizes[at], at))
        self._usages: dict[tuple[int, tuple[int, ...]], Amounts] = {}

    def usage(self, on: int, memory: tuple[int, ...]) -> Amounts:
        """What these requests, a mask, take of a card at their peak; `memory` is what each takes of it, in MiB."""
        key = on, memory
        found = self._usages.get(key)
        if found is None:
            if len(self._usages) >= _MOST_USAGES:
                self._usages.clear()
            cores = mebibytes = places = 0
            for moment in self._moments:
                there = [at for at in moment if on >> at & 1]
                cores = max(cores, sum(self.cores[at] for at in there))
                mebibytes = max(mebibytes, sum(memory[at] for at in there))
                places = max(places, len(there))
            found = self._usages[key] = cores, mebibytes, places
        return found

    def least(self, memory: Sequence[int]) -> tuple[int, int]:
        """The cores and the MiB that a pod takes in all at the least, whichever cards it gets; `memory` is the least
        that each request takes of one.
        """
        return self._least(self.cores), self._least(memory)

    def _least(self, each: Sequence[int]) -> int:
        at_once = max(sum(self.counts[at] * each[at] for at in moment) for moment in self._moments)
        # The cards of a request are different ones.
        by_card = (
            max(need for need, count in zip(each, self.counts, strict=True) if count > nth)
            for nth in range(max(self.counts))
        )
        return max(at_once, sum(by_card))

    def fits(self, left: Amounts, on: int, memory: tuple[int, ...]) -> bool:
        """Whether a card with so much left has room for these requests; one that reserves no cores runs where some are
        left.
        """
        cores, mebibytes, places = self.usage(on, memory)
        idle = any(on >> at & 1 and not need for at, need in enumerate(self.cores))
        return left[0] - cores >= idle and left[1] >= mebibytes and left[2] >= places


class SlotSearch:
    """One search among some cards of a node.

    Args:
        left: of each card of the node; `wanted` the memory that each request takes of it.
        among: the cards that may be used, by position.
        spread: take the emptiest card in place of the fullest that suffices.
    """

    def __init__(
        self,
        slots: Slots,
        left: Sequence[Amounts],
        wanted: Sequence[tuple[int, ...]],
        among: Sequence[int],
        *,
        spread: bool = False,
    ) -> None:
        self._slots = slots
        self._left = left
        self._wanted = wanted
        self._among = among
        self._sign = -1 if spread else 1
        self._on = [0] * len(left)
        self._visits = 0
        self._most = _MOST_VISITS
        self._best: tuple[tuple[int, int], list[int]] | None = None

    def found(self) -> list[int] | None:
        """Which requests get each card, as masks; None where they do not all find theirs."""
        self._place(0)
        return self._best[1] if self._best is not None else None

    def _taken(self) -> tuple[int, int]:
        """What the requests that have cards take in all: cores and MiB."""
        those = [self._slots.usage(on, wanted) for on, wanted in zip(self._on, self._wanted, strict=True) if on]
        return sum(cores for cores, *_ in those), sum(memory for _, memory, _ in those)

    def _complete(self) -> bool:
        """All requests have cards. Returns whether it goes no better."""
        taken = self._taken()
        if self._best is None or taken < self._best[0]:
            self._best = taken, self._on.copy()
            least = [min(self._wanted[at][request] for at in self._among) for request in range(len(self._slots.counts))]
            if taken <= self._slots.least(least):
                return True
        if self._most == _MOST_VISITS:  # the first one
            self._most = min(self._most, self._visits + _MOST_BETTER)
        return False

    def _place(self, nth: int) -> bool:
        if nth == len(self._slots.order):
            return self._complete()
        if self._best is not None and self._taken() >= self._best[0]:
            return False
        request = self._slots.order[nth]
        bit, on = 1 << request, self._on
        able = [at for at in self._among if self._slots.fits(self._left[at], on[at] | bit, self._wanted[at])]
        if len(able) < self._slots.counts[request]:
            return False
        return self._choose(nth, sorted(able, key=lambda at: self._rank(at, request)), 0, self._slots.counts[request])

    def _choose(self, nth: int, able: Sequence[int], first: int, missing: int) -> bool:
        if not missing:
            return self._place(nth + 1)
        bit, on = 1 << self._slots.order[nth], self._on
        tried: set[tuple[Amounts, tuple[int, ...], int]] = set()
        for position in range(first, len(able) - missing + 1):
            at = able[position]
            alike = self._left[at], self._wanted[at], on[at]
            if alike in tried:
                continue
            tried.add(alike)
            self._visits += 1
            if self._visits > self._most:
                return False
            on[at] |= bit
            if self._choose(nth, able, position + 1, missing - 1):
                return True
            on[at] &= ~bit
        return False

    def _rank(self, at: int, request: int) -> tuple[int, int, int, int, int]:
        """Cards of which the pod has as much anyway at other moments come first; then the fullest."""
        slots, on, wanted = self._slots, self._on[at], self._wanted[at]
        has, then = slots.usage(on, wanted), slots.usage(on | 1 << request, wanted)
        cores, memory, _ = self._left[at]
        return (
            then[0] - has[0] - slots.cores[request],
            then[1] - has[1] - wanted[request],
            self._sign * (cores - has[0]),
            self._sign * (memory - has[1]),
            at,
        )


def taken(left: Int64s, of: tuple[slice, slice, slice], at: int, amounts: Amounts, sign: int) -> None:
    """Take so much of a card (sign 1), or give it back (-1); `left` is the column of its node, a view."""
    for rows, amount in zip(of, amounts, strict=True):
        left[rows][at] -= sign * amount
