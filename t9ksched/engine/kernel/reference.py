"""A run of starts in Python and numpy: the meaning of the native kernel, and what runs without it."""

import heapq
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.kernel.key_tables import KeyTables
from t9ksched.engine.kernel.packing_tables import PackingTables
from t9ksched.engine.kernel.tables import (
    ABSENT,
    NEVER,
    STALE,
    TURN,
    Comparator,
    FitClass,
    Run,
    Stop,
    Tables,
    most_starts,
)
from t9ksched.engine.ledger import INFINITE_SHARE, SHARE_UNIT
from t9ksched.engine.nodes import LARGEST

_FEW: Final = 6
"""Up to so many keys are brought up to date one by one, more at once."""
_MOST_STARTS: Final = 128
_Place = tuple[int, int, int, int]
"""Row, pods, class and the idle cards before."""


class Reference:
    """The kernel without a compiler."""

    a_start = 1_500

    def run(self, tables: Tables) -> Run:
        """See `Kernel`."""
        return _OneRun(tables).run(most_starts(tables, _MOST_STARTS))

    def packing(self, tables: PackingTables) -> None:
        """See `Kernel`: numpy does it in `placement/packing.py`."""

    def keys(self, tables: KeyTables) -> None:
        """See `Kernel`: numpy does it in `placement/class_fit.py`."""


class _OneRun:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._places: list[_Place] = []

    def run(self, most: int) -> Run:
        tables, queues = self._tables, self._tables.queues
        started: list[int] = []
        kinds: list[int] = []
        ends: list[int] = []
        heap = [(self._rank(queue), queue) for queue in np.flatnonzero(queues.left).tolist()]
        heapq.heapify(heap)
        stopped, at = Stop.ALL_DONE, 0
        while heap:
            at = heap[0][1]
            asked = self._next(at)
            if asked is None:
                stopped = Stop.NOT_READ
                break
            number, times = asked
            if number == TURN or not self._may_charge(at, number, times):
                stopped = Stop.NEEDS_ITS_TURN
                break
            # A pod has one place at most.
            more = tables.kinds[number].pods * times
            if len(started) == most or (started and len(self._places) + more > tables.most_places):
                stopped = Stop.PAUSED
                break
            if not self._place_all(number, times):
                stopped = Stop.NEEDS_ITS_TURN
                break
            queues.held[at] += np.array(tables.kinds[number].demand, np.int64) * times
            started.append(at)
            kinds.append(number)
            ends.append(len(self._places))
            queues.left[at] -= 1
            if queues.left[at]:
                heapq.heapreplace(heap, (self._rank(at), at))
            else:
                heapq.heappop(heap)
        rows, counts, classes, idle = ([place[of] for place in self._places] for of in range(4))
        return Run(stopped, at, started, kinds, ends, rows, counts, classes, idle)

    def _next(self, queue: int) -> tuple[int, int] | None:
        """What the next gang of the queue asks for and how many times; None where that is not known."""
        queues = self._tables.queues
        if queues.needs_turns[queue]:
            return TURN, 0
        nth = int(queues.left[queue]) - 1
        at = int(queues.line_first[queue]) + nth
        return (int(queues.kind_of[at]), int(queues.times_of[at])) if nth >= queues.known[queue] else None

    # ---- quotas and the order of queues

    def _may_charge(self, queue: int, number: int, times: int) -> bool:
        queues, demand = self._tables.queues, self._tables.kinds[number].demand
        return all(
            cap == ABSENT or needs <= 0 or needs * times <= cap - held
            for cap, held, needs in zip(queues.caps[queue].tolist(), queues.held[queue].tolist(), demand, strict=True)
        )

    def _rank(self, queue: int) -> list[int]:
        """What the queue is compared by, smaller first; equal ones go by name, as their positions do."""
        found = []
        for comparator in self._tables.queues.comparators:
            match comparator:
                case Comparator.PRIORITY:
                    found.append(-int(self._tables.queues.priorities[queue]))
                case Comparator.SHARE:
                    found.append(self._share(queue))
        return found

    def _share(self, queue: int) -> int:
        queues, largest = self._tables.queues, 0
        for measure, held in zip(queues.measures[queue].tolist(), queues.held[queue].tolist(), strict=True):
            if measure == ABSENT or held <= 0:
                continue
            if measure > 0:
                largest = max(largest, held * SHARE_UNIT // measure)
            elif queues.limited[queue]:
                return INFINITE_SHARE
        return largest

    # ---- placing

    def _place_all(self, number: int, times: int) -> bool:
        """Place every pod of a gang, or none."""
        before, kind = len(self._places), self._tables.kinds[number]
        for level in kind.levels:
            ((part, pods),) = kind.parts
            if (rows := self._domain(level, part, pods * times)) is not None:
                return self._place(part, pods * times, rows)
        if kind.together:
            return False
        for part, pods in kind.parts:
            if not self._place(part, pods * times):
                while len(self._places) > before:
                    self._undo(*self._places.pop())
                return False
        return True

    def _domain(self, level: int, number: int, pods: int) -> Int64s | None:
        """The nodes of the domain of a level that has room for all of the pods, and the least left of what they need
        most; None without one.
        """
        tables, of = self._tables, self._tables.classes[number]
        rows, bounds = tables.levels[level]
        if not len(rows):
            return None
        fits = np.add.reduceat(np.minimum(self._rooms(of), pods)[rows], bounds[:-1]) >= pods
        left = np.add.reduceat(np.maximum(tables.free[of.scarcest], 0)[rows], bounds[:-1])
        domain = int(np.where(fits, left, np.iinfo(np.int64).max).argmin())
        return rows[bounds[domain] : bounds[domain + 1]] if fits[domain] else None

    def _place(self, number: int, pods: int, among: Int64s | None = None) -> bool:
        """Place so many pods as `pack` does, the best node first; whether each has a place. With `among` on these nodes
        alone.
        """
        tables = self._tables
        of, key = tables.classes[number], self._fresh_key(number)
        here = key if among is None else key[among]
        while pods:
            at = int(here.argmax())
            row = at if among is None else int(among[at])
            if here[at] == NEVER:
                return False
            room = self._room(of, row)
            count = min(room, pods) if tables.fills else 1
            self._take(number, row, count)
            pods -= count
            key[row] = here[at] = self._score(of, row) if count < room else NEVER
            tables.seen[number] = tables.touched_count
        return True

    def _fresh_key(self, number: int) -> Int64s:
        tables, of = self._tables, self._tables.classes[number]
        key = of.key[: tables.nodes]
        seen = int(tables.seen[number])
        fresh = tables.touched_count - seen
        if seen == STALE or fresh * 4 > tables.nodes:
            key[:] = self._sweep(of, slice(None))
        elif fresh > _FEW:
            rows = tables.touched[seen : tables.touched_count]
            key[rows] = self._sweep(of, rows)
        else:
            for row in tables.touched[seen : tables.touched_count].tolist():
                key[row] = self._score(of, row) if self._room(of, row) > 0 else NEVER
        tables.seen[number] = tables.touched_count
        return key

    def _sweep(self, of: FitClass, rows: slice | Int64s) -> Int64s:
        """The keys of these nodes."""
        tables = self._tables
        fits = of.mask[rows]
        for at, amount in of.needs:
            fits = fits & (tables.free[at][rows] >= amount)
        score = tables.base[rows] + of.gain[rows]
        if of.bias is not None:
            score += of.bias[rows]
        return np.where(fits, score, NEVER)

    def _score(self, of: FitClass, row: int) -> int:
        score = self._tables.base.item(row) + of.gain.item(row)
        return score if of.bias is None else score + of.bias.item(row)

    def _room(self, of: FitClass, row: int) -> int:
        if not of.mask[row]:
            return 0
        free = self._tables.free
        return max(0, min((free.item(at, row) // amount for at, amount in of.needs), default=LARGEST))

    def _rooms(self, of: FitClass) -> Int64s:
        """How many pods fit on each node."""
        rooms = np.full(self._tables.nodes, LARGEST, np.int64)
        for at, amount in of.needs:
            np.minimum(rooms, self._tables.free[at] // amount, out=rooms)
        return np.where(of.mask, np.maximum(rooms, 0), 0)

    def _take(self, number: int, row: int, pods: int) -> None:
        tables = self._tables
        cards = tables.classes[number].cards
        before = 0
        if cards is not None:
            at, each = cards
            left = before = tables.idle.item(at, row)
            for _ in range(each * pods):
                left &= left - 1
                if not left:
                    break
            tables.idle[at, row] = left
        self._places.append((row, pods, number, before))
        self._move(number, row, pods)

    def _undo(self, row: int, pods: int, number: int, idle: int) -> None:
        cards = self._tables.classes[number].cards
        if cards is not None:
            self._tables.idle[cards[0], row] = idle
        self._move(number, row, -pods)

    def _move(self, number: int, row: int, pods: int) -> None:
        tables, of = self._tables, self._tables.classes[number]
        for at, amount in of.needs:
            tables.free[at, row] -= amount * pods
        tables.base[row] += of.gain[row] * pods
        tables.touched[tables.touched_count] = row
        tables.touched_count += 1
