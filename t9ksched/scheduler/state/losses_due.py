"""Which gangs that lost members are looked at again: those of which something changed that decides what is kept for
them. After the loss of a zone thousands lack members for minutes, and few of them change from cycle to cycle.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.reservation import Reservation
from t9ksched.scheduler.state.change_feed import Cursor, Topic
from t9ksched.scheduler.state.records import GangRecord

_NEVER: Final = 1 << 63
"""After all moments."""


class Look(NamedTuple):
    """What a look at a gang depended on: UIDs of jobs and owners, its own among them; names of nodes; since when, and
    before which moment, a look says the same; what the gang itself was.
    """

    uids: frozenset[str]
    nodes: frozenset[str]
    since: int
    before: int
    gang: tuple[object, ...]


class LossesDue:
    """The gangs with losses by what decides about them. `gangs` are to be looked at."""

    def __init__(self, nodes: NodeTable, holding: Topic[GangRecord]) -> None:
        """`holding` tells of gangs that changed."""
        self._nodes = nodes
        self._holding = holding
        self._cursor: Cursor[GangRecord] | None = None
        """Read while there are losses."""
        self.gangs: dict[GangRecord, None] = {}
        self._seen: dict[GangRecord, Look] = {}
        self._by_uid: defaultdict[str, dict[GangRecord, None]] = defaultdict(dict)
        self._by_node: defaultdict[str, dict[GangRecord, None]] = defaultdict(dict)
        self._moments: list[tuple[int, int, GangRecord]] = []
        """When gangs are looked at again though nothing changes, as a heap; one that was seen anew has another."""
        self._pushed = 0
        self._permitted: dict[GangRecord, bool] = {}
        self._elapsed: dict[GangRecord, int] = {}
        """Since when a look says what it said: before that, once the clock was set back, it says otherwise."""
        self._common: tuple[object, ...] = ()
        self.promised: frozenset[str] = frozenset()
        self.refused: Counter[str] = Counter()
        """How many places are reserved for members whose binding was refused, by UID of the gang."""
        self._refused: dict[str, Reservation] = {}

    def begin(
        self, now: int, common: tuple[object, ...], promised: Collection[str], refused: Mapping[str, Reservation]
    ) -> None:
        """Find what changed until `now`. All gangs depend on what is `common`, by identity."""
        if self._cursor is None:
            self._cursor = self._holding.follow()
        if not self._common or any(one is not was for one, was in zip(common, self._common, strict=True)):
            self._common = common
            self.gangs |= dict.fromkeys(self._seen)
        if promised != self.promised:
            self.note_all(sorted(self.promised.symmetric_difference(promised)))
            self.promised = frozenset(promised)
        if refused != self._refused:
            before, self._refused = self.refused, dict(refused)
            self.refused = Counter(one.owner for one in refused.values())
            self.note_all(uid for uid in before | self.refused if before[uid] != self.refused[uid])
        self.gangs |= dict.fromkeys(gang for gang, since in self._elapsed.items() if now < since)
        while self._moments and self._moments[0][0] <= now:
            moment, _, gang = heappop(self._moments)
            if (seen := self._seen.get(gang)) is not None and seen.before == moment:
                self.gangs[gang] = None
        # The last gate says of its own accord, and of a few, that they may not use their queue.
        self.gangs |= {gang: None for gang, permitted in self._permitted.items() if (not gang.unpermitted) != permitted}
        self.take()

    def take(self) -> None:
        """Find which gangs and nodes changed."""
        if self._cursor is not None:
            seen = self._seen
            changed = (gang for gang in self._cursor.take() if gang in seen)
            self.gangs |= {gang: None for gang in changed if _state(gang) != seen[gang].gang}
        if touched := self._nodes.touched:
            for name in touched:
                if (there := self._by_node.get(name)) is not None:
                    self.gangs |= there
            touched.clear()

    def note(self, uid: str) -> bool:
        """Something changed of a job, an owner or a gang of that UID; whether gangs with losses depend on it."""
        there = self._by_uid.get(uid)
        if there is None:
            return False
        self.gangs |= there
        return True

    def note_all(self, uids: Iterable[str]) -> None:
        """The same of several."""
        for uid in uids:
            self.note(uid)

    def of(self, uid: str) -> Collection[GangRecord]:
        """The gangs with losses that depend on that job, owner or gang."""
        return self._by_uid.get(uid, ())

    def came(self, gang: GangRecord) -> None:
        """The gang lost its first members, and is to be looked at."""
        self._seen.setdefault(gang, _NOT_YET)
        self.gangs[gang] = None

    def looked(self, gang: GangRecord, uids: Iterable[str], nodes: Iterable[str], now: int, moments: list[int]) -> None:
        """A look at a gang depended on these, and says otherwise from some of those moments on."""
        before = min((moment for moment in moments if moment > now), default=_NEVER)
        since = max((moment for moment in moments if moment <= now), default=0)
        was, seen = self._seen[gang], Look(frozenset(uids), frozenset(nodes), since, before, _state(gang))
        self._seen[gang], self._permitted[gang] = seen, not gang.unpermitted
        _move(gang, self._by_uid, was.uids, seen.uids)
        _move(gang, self._by_node, was.nodes, seen.nodes)
        if before != was.before and before != _NEVER:
            self._pushed += 1
            heappush(self._moments, (before, self._pushed, gang))
        if since:
            self._elapsed[gang] = since
        else:
            self._elapsed.pop(gang, None)

    def forget(self, gang: GangRecord) -> None:
        """Nothing is kept for the gang any more."""
        self.gangs.pop(gang, None)
        self._elapsed.pop(gang, None)
        self._permitted.pop(gang, None)
        if (was := self._seen.pop(gang, None)) is not None:
            _move(gang, self._by_uid, was.uids, frozenset())
            _move(gang, self._by_node, was.nodes, frozenset())

    def rest(self) -> None:
        """There are no losses: nothing is followed."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
        self._moments.clear()
        self._nodes.touched.clear()


_NOT_YET: Final = Look(frozenset(), frozenset(), 0, _NEVER, ())


def _state(gang: GangRecord) -> tuple[object, ...]:
    """What of a gang decides about its losses, and of which the feed tells: looks themselves change it, too."""
    return gang.changes, gang.queue, gang.acceptance, gang.control


def _move(
    gang: GangRecord,
    index: defaultdict[str, dict[GangRecord, None]],
    before: frozenset[str],
    after: frozenset[str],
) -> None:
    """List a gang where it belongs now."""
    if before == after:
        return
    for key in before - after:
        del index[key][gang]
        if not index[key]:
            del index[key]
    for key in after - before:
        index[key][gang] = None
