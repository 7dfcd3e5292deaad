"""Which of two sets of victims is evicted: the policy's rule as one pure function.

A *victim* is what goes together: a whole gang, or one member above a gang's minimum. How well it is protected is its
*level*, compared part by part: the priority of its queue, whether a disruption budget guards it, the band of its
queue's dominant share, and the priority of its PodGroup. `price` says what a set costs; of two sets that both make
enough room, the one with the smaller price goes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from t9ksched.engine.ledger import SHARE_UNIT, dominant

SAME: Final = SHARE_UNIT // 20
"""Shares up to five points below the largest count as equal to it."""

Level = tuple[int, bool, int, int]
"""Queue priority, guarded, band of the queue's share, PodGroup priority; larger is better protected."""


class Victim(NamedTuple):
    """What goes together.

    Attributes:
        priority: of its queue; surplus of the preemptor's own queue that yields has -1.
        guarded: its eviction breaks a disruption budget.
        rank: priority of its PodGroup.
        created: of its PodGroup, nanoseconds since the epoch.
        pods: how many go.
        uses: what they are charged to the queue, in units by resource.
        name: tells it apart; of equals the smaller name goes.
    """

    queue: str
    priority: int
    guarded: bool
    rank: int
    created: int
    pods: int
    uses: tuple[tuple[str, int], ...]
    name: tuple[str, int]


class Contender(NamedTuple):
    """A queue with victims to choose from.

    Attributes:
        victims: how many, those of the set included.
        used: what the queue is charged with, without pods that were told to go, in units by resource.
        measures: what its share is a part of, in units by resource: its quota, or the nodes it may use.
        limited: `measures` is a quota, so that using what it has none of is an infinite share.
    """

    priority: int
    victims: int
    used: Mapping[str, int]
    measures: Mapping[str, int]
    limited: bool

    def share(self, gone: Mapping[str, int]) -> int:
        """The queue's dominant share without what is gone, in parts of `SHARE_UNIT`."""
        used = {name: self.used.get(name, 0) - gone.get(name, 0) for name in self.measures}
        return dominant(used, self.measures, self.limited)


Price = tuple[tuple[tuple[Level, int], ...], tuple[int, ...], tuple[tuple[str, int], ...]]
"""Pods by level, the best protected level first; age of the victims, the oldest first; names."""


def bands(shares: Mapping[str, int]) -> dict[str, int]:
    """The band of each queue of one priority, by dominant share in parts of `SHARE_UNIT`.

    Band 0 is the largest share and what lies at most five points below it; band 1 begins with the largest of the rest,
    and so on. Victims of a smaller band go first.

    | shares in percent | bands   |
    |-------------------|---------|
    | 50, 45, 44        | 0, 0, 1 |
    | 50, 44, 40        | 0, 1, 1 |
    | 50, 44, 38        | 0, 1, 2 |
    """
    found: dict[str, int] = {}
    band, first = -1, 0
    for name in sorted(shares, key=lambda name: (-shares[name], name)):
        if band < 0 or first - shares[name] > SAME:
            band, first = band + 1, shares[name]
        found[name] = band
    return found


def price(victims: Iterable[Victim], contenders: Mapping[str, Contender]) -> Price:
    """What a set of victims costs; prices compare as tuples, and the set with the smaller one goes.

    The set is walked as it would be chosen: the least protected first, each with the shares that are left by those
    before it. A queue without victims left to choose from is no longer looked at for the largest share. Then the sets
    are compared from their best protected level down: the set goes that has fewer pods there, none being fewest. Where
    all levels are equal, the set goes whose oldest victim is younger, then whose second oldest is, and so on.

    With queues of priority 0, shares that count equal, and PodGroup priorities in brackets, `N ×` for N pods:

    | goes                              | and not                           | because                            |
    |-----------------------------------|-----------------------------------|------------------------------------|
    | 4 × [0]                           | 1 × [90]                          | the PodGroup's priority decides    |
    | 1 × [90]                          | 1 × [90], 1 × [0]                 | one is the start of the other      |
    | 1 × [9], 7 × [0]                  | 2 × [9]                           | fewer of the best protected level  |
    | 2 × [5]                           | 3 × [5]                           | fewer pods at one level            |
    | 9 × [9] of a queue of priority 0  | 1 × [0] of a queue of priority 1  | the queue's priority decides first |
    | 4 × [9] of a queue at 80 %        | 1 × [0] of a queue at 50 %        | the larger share goes first        |
    """
    pods: dict[Level, int] = {}
    ages, names = [], []
    for one, level in walk(victims, contenders):
        pods[level] = pods.get(level, 0) + one.pods
        ages.append(-one.created)
        names.append(one.name)
    return tuple(sorted(pods.items(), reverse=True)), tuple(sorted(ages, reverse=True)), tuple(sorted(names))


def walk(victims: Iterable[Victim], contenders: Mapping[str, Contender]) -> Iterator[tuple[Victim, Level]]:
    """A set in the order in which its victims are chosen, each with its level then: the least protected is next."""
    gone: dict[str, dict[str, int]] = {name: {} for name in contenders}
    left = {name: one.victims for name, one in contenders.items()}
    asked = sorted(victims, key=lambda one: (one.priority, one.guarded, one.rank, -one.created, one.name))
    queues: dict[str, list[Victim]] = {}
    for at, one in enumerate(asked):
        queues.setdefault(one.queue, []).append(one)
        if at + 1 < len(asked) and asked[at + 1][1:3] == one[1:3]:
            continue
        rivals = [name for name, other in contenders.items() if other.priority == one.priority]
        for chosen, band in _walk(queues, rivals, contenders, gone, left):
            yield chosen, (chosen.priority, chosen.guarded, band, chosen.rank)
        queues = {}


def _walk(
    queues: Mapping[str, Sequence[Victim]],
    rivals: Sequence[str],
    contenders: Mapping[str, Contender],
    gone: dict[str, dict[str, int]],
    left: dict[str, int],
) -> Iterable[tuple[Victim, int]]:
    """Victims of one priority in the order in which they are chosen, each with the band of its queue then."""
    if len(rivals) < 2:
        for those in queues.values():
            yield from ((one, 0) for one in those)
        return
    at = dict.fromkeys(queues, 0)

    shares = {name: contenders[name].share(gone[name]) for name in rivals if left[name] > 0}
    while at:
        band = bands(shares)
        name = min(at, key=lambda name: (band[name], *_first(queues[name][at[name]])))
        one = queues[name][at[name]]
        yield one, band[name]
        for resource, amount in one.uses:
            gone[name][resource] = gone[name].get(resource, 0) + amount
        left[name] -= 1
        if left[name] > 0:
            shares[name] = contenders[name].share(gone[name])
        else:
            del shares[name]
        at[name] += 1
        if at[name] == len(queues[name]):
            del at[name]


def _first(one: Victim) -> tuple[int, int, tuple[str, int]]:
    """Of queues whose shares count equal: the smaller PodGroup priority, then the younger."""
    return one.rank, -one.created, one.name
