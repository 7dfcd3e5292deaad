"""What a run of starts reads and writes: nodes, classes, kinds of gangs, queues with their lines, as numbers.

Queues, classes and kinds are known by their position in a table. Amounts are those of the trial and of the ledger.

What machine code reads is looked at here, where it is written: an array of another shape or type, or a position that
does not exist, is a ValueError, and so are numbers with which 64 bits would not do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask, Masks
from t9ksched.engine.kernel.checks import inside, machine
from t9ksched.engine.kernel.key_tables import KeyTables, KeyWriter
from t9ksched.engine.kernel.packing_tables import PackingPoints, PackingTables

NEVER: Final = int(np.iinfo(np.int64).min)
"""Key of a node on which no pod of a class fits."""
ABSENT: Final = int(np.iinfo(np.int64).min)
"""An account does not name the resource."""
BLOCK: Final = 32
"""Nodes of which the native kernel keeps the largest key, behind the keys of a class."""
STALE: Final = -1
"""The keys of a class are to be made anew."""
TURN: Final = -1
"""In place of a kind: the gang needs its turn."""
MOST_DEMAND: Final = 1 << 47
"""What a kind asks for once is less."""
MOST_PLACES: Final = 1 << 12
"""Places of one run; a gang has no more pods."""
_SPARE: Final = 4
"""So many times the places of a run, or the nodes, are kept as touched rows before all keys are made anew."""

_NODES_A_RUN: Final = 1_000_000


class Comparator(IntEnum):
    """What queues are compared by."""

    NOTHING = 0
    PRIORITY = 1
    SHARE = 2


class Stop(IntEnum):
    """Why a run of starts ended."""

    ALL_DONE = 0
    NEEDS_ITS_TURN = 1
    """The next gang of the best queue does not start for certain."""
    NOT_READ = 2
    """What the next gang of the best queue asks for is not in the tables yet."""
    PAUSED = 3
    """Enough for one step."""


class FitClass(NamedTuple):
    """A class of pods.

    Attributes:
        key: its keys, written by the kernel, with the largest of each block behind them.
        gain, bias, mask: as in `ClassFit`, shape (nodes,).
        needs: row of the resource and amount.
        cards: row of the card resource and how many cards; None where it asks for none.
        scarcest: row of the resource by which domains are compared.
        rooms: how many of its pods fit on each node, written by a kernel that keeps them; shape (nodes,).
    """

    key: Int64s
    gain: Int64s
    bias: Int64s | None
    mask: Mask
    needs: Sequence[tuple[int, int]]
    cards: tuple[int, int] | None
    scarcest: int
    rooms: Int64s


class DomainLevel(NamedTuple):
    """The domains of a node label.

    Attributes:
        rows: the nodes of the first domain, then of the second, and so on, each in order.
        bounds: where each domain begins in `rows`, and at last their end; shape (domains + 1,).
    """

    rows: Int64s
    bounds: Int64s


class GangKind(NamedTuple):
    """What gangs ask for once or several times.

    Attributes:
        parts: class and number of pods, in the order in which they are placed.
        demand: what its queue pays, by account.
        pods: in all.
        levels: its pods should be in one domain of the first of these levels that has one with room for all, in that
            with the least left of what is scarcest. Only a kind of one class has any.
        together: they must be.
    """

    parts: Sequence[tuple[int, int]]
    demand: Sequence[int]
    pods: int
    levels: Sequence[int]
    together: bool


@dataclass
class Queues:
    """Queues in the order of their names. Accounts are the resources that a quota, or a share, counts.

    Attributes:
        priorities, limited: shape (queues,).
        caps, held, measures: as in the ledger, shape (queues, accounts); `ABSENT` where not named.
        left: how many gangs are left of the line of each, the best gang last; shape (queues,).
        comparators: what queues are compared by, first asked first.
        needs_turns: no gang of the queue starts without its turn, shape (queues,).
        line_first: where the line of each begins in `kind_of`.
        known: from which gang of each line on `kind_of` is filled.
        kind_of, times_of: what gangs ask for, and how many times; `TURN` for a gang that needs its turn.
    """

    priorities: Int64s
    limited: Int64s
    caps: Int64s
    held: Int64s
    measures: Int64s
    left: Int64s
    comparators: tuple[Comparator, Comparator]

    def __post_init__(self) -> None:
        lines = self.left.copy()
        self.needs_turns: Int64s = np.zeros(len(lines), np.int64)
        self.line_first: Int64s = np.cumsum(lines) - lines
        self.known: Int64s = lines
        self.kind_of: Int64s = np.full(int(lines.sum()), TURN, np.int64)
        self.times_of: Int64s = np.ones(len(self.kind_of), np.int64)
        for array in (self.priorities, self.limited, self.left, self.line_first):
            machine(array, np.int64, len(lines))
        for array in (self.caps, self.held, self.measures):
            machine(array, np.int64, len(lines), self.accounts)

    @property
    def accounts(self) -> int:
        """How many there are."""
        return int(self.caps.shape[1])

    def shrink(self, left: Sequence[int]) -> None:
        """So many gangs are left of each line, none more than before."""
        if len(left) != len(self.left) or (np.asarray(left) > self.left).any() or min(left, default=0) < 0:
            raise ValueError("lines only become shorter")
        self.left[:] = left
        np.minimum(self.known, self.left, out=self.known)


class Run(NamedTuple):
    """What a run did.

    Attributes:
        stopped, at: why it ended, and at which queue.
        queues, kinds: the queue of each gang that started, and what it asked for.
        ends: how many of the places are those of the gang or of one before it.
        rows, pods, classes, idle: of each place its node, how many pods of which class it takes, and the cards that
            were idle before, 0 where the class asks for none.
    """

    stopped: Stop
    at: int
    queues: Sequence[int]
    kinds: Sequence[int]
    ends: Sequence[int]
    rows: Sequence[int]
    pods: Sequence[int]
    classes: Sequence[int]
    idle: Sequence[int]


@dataclass
class Tables:
    """All tables of a cycle.

    Attributes:
        free, base, idle: of the trial, written in place; shapes (resources, nodes), (nodes,), (card resources, nodes).
        fills: the score of a node never falls when a pod is placed on it.
        seen, seen_by_rooms: how many of the touched rows the keys, and the rooms, of each class know of, or `STALE`.
        touched: rows of which the room changed; the first `touched_count` count.
    """

    free: Int64s
    base: Int64s
    idle: Masks
    fills: bool
    queues: Queues
    most_places: int = MOST_PLACES
    classes: list[FitClass] = field(default_factory=list)
    levels: list[DomainLevel] = field(default_factory=list)
    kinds: list[GangKind] = field(default_factory=list)
    seen: Int64s = field(default_factory=lambda: np.full(16, STALE, np.int64))
    seen_by_rooms: Int64s = field(default_factory=lambda: np.full(16, STALE, np.int64))
    touched_count: int = 0
    packed: Any = None
    """What a kernel keeps with these tables."""

    def __post_init__(self) -> None:
        self._pods: list[int] = [kind.pods for kind in self.kinds]
        self.touched: Int64s = np.empty(_SPARE * max(self.nodes, self.most_places), np.int64)
        machine(self.free, np.int64, len(self.free), self.nodes)
        machine(self.base, np.int64, self.nodes)
        machine(self.idle, np.uint64, len(self.idle), self.nodes)
        if not 0 < self.most_places <= MOST_PLACES:
            raise ValueError(f"a run has 1 to {MOST_PLACES} places")

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.base)

    def add(
        self,
        gain: Int64s,
        bias: Int64s | None,
        mask: Mask,
        needs: Sequence[tuple[int, int]],
        cards: tuple[int, int] | None,
        scarcest: int,
    ) -> int:
        """A new class, as `FitClass` says; its position."""
        key = np.empty(self.nodes + -(-self.nodes // BLOCK), np.int64)
        for array in (gain,) if bias is None else (gain, bias):
            machine(array, np.int64, self.nodes)
        machine(mask, np.bool_, self.nodes)
        inside([*(at for at, _ in needs), scarcest], len(self.free))
        if any(amount <= 0 for _, amount in needs):
            raise ValueError("an amount is not positive")
        if cards is not None:
            inside([cards[0]], len(self.idle))
        rooms = np.empty(self.nodes, np.int64)
        self.classes.append(FitClass(key, gain, bias, mask, needs, cards, scarcest, rooms))
        if len(self.classes) > len(self.seen):
            self.seen = np.append(self.seen, np.full_like(self.seen, STALE))
            self.seen_by_rooms = np.append(self.seen_by_rooms, np.full_like(self.seen_by_rooms, STALE))
        return len(self.classes) - 1

    def add_level(self, rows: Int64s, bounds: Int64s) -> int:
        """A new level, as `DomainLevel` says; its position."""
        machine(rows, np.int64, len(rows))
        machine(bounds, np.int64, len(bounds))
        inside([int(rows.min()), int(rows.max())] if len(rows) else [], self.nodes)
        if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(rows) or (bounds[1:] <= bounds[:-1]).any():
            raise ValueError("every domain has nodes, and every node a domain")
        self.levels.append(DomainLevel(rows, bounds))
        return len(self.levels) - 1

    def add_kind(
        self,
        parts: Sequence[tuple[int, int]],
        demand: Sequence[int],
        levels: Sequence[int] = (),
        together: bool = False,
    ) -> int:
        """A new kind, as `GangKind` says; its position."""
        inside([number for number, _ in parts], len(self.classes))
        if min((pods for _, pods in parts), default=0) <= 0 or len(demand) != self.queues.accounts:
            raise ValueError("a kind has pods, and pays into every account")
        if not all(0 <= amount < MOST_DEMAND for amount in demand):
            raise ValueError("a demand is out of bounds")
        inside(levels, len(self.levels))
        if (levels or together) and len(parts) > 1:
            raise ValueError("pods of several classes are put together at their turns")
        self.kinds.append(GangKind(parts, demand, sum(pods for _, pods in parts), levels, together))
        self._pods.append(self.kinds[-1].pods)
        return len(self.kinds) - 1

    def note(self, queue: int, kinds: Sequence[int], times: Sequence[int]) -> None:
        """What the next gangs of a queue ask for of which that is not known, the best one last."""
        queues = self.queues
        end = int(queues.known[queue])
        pods, known, most = self._pods, len(self.kinds), self.most_places
        for kind, count in zip(kinds, times, strict=True):
            if kind == TURN:
                continue
            if not 0 <= kind < known:
                raise ValueError(f"kind {kind} is not among {known}")
            if not 0 < count * pods[kind] <= most:
                raise ValueError("a gang has too many pods for one run")
        if len(kinds) > end:
            raise ValueError("there are not so many gangs")
        at = int(queues.line_first[queue]) + end
        queues.kind_of[at - len(kinds) : at] = kinds
        queues.times_of[at - len(kinds) : at] = times
        queues.known[queue] = end - len(kinds)

    def touch(self, rows: Sequence[int]) -> None:
        """The room on these nodes is another one. Called before a run, with the rows that others changed."""
        inside(rows, self.nodes)
        # What one run takes, and gives back of the last gang, must find room behind them.
        if self.touched_count + len(rows) + 2 * self.most_places > len(self.touched):
            self.touched_count = 0
            self.seen[:] = self.seen_by_rooms[:] = STALE
            return
        self.touched[self.touched_count : self.touched_count + len(rows)] = rows
        self.touched_count += len(rows)


def most_starts(tables: Tables, most: int) -> int:
    """Starts of one run, at most so many: each may look at all nodes, and others wait for their turns meanwhile."""
    return max(1, min(most, _NODES_A_RUN // max(1, tables.nodes)))


class Kernel(Protocol):
    """What runs on tables.

    Attributes:
        a_start: units of work that one start takes.
    """

    a_start: int

    def run(self, tables: Tables) -> Run:
        """Let the next gang of the best queue start, then of the queue that is best then, and so on, as long as each
        starts for certain: room and quota are there for all its pods.
        """
        ...

    def packing(self, tables: PackingTables) -> PackingPoints | None:
        """What finds the points of packing on these tables, as long as they stand; None where numpy is to."""
        ...

    def keys(self, tables: KeyTables) -> KeyWriter | None:
        """What finds the keys of a class on these tables, as long as they stand; None where numpy is to."""
        ...
