"""What is free of cards, cores and memory, in the units in which packing counts."""

from typing import TYPE_CHECKING, Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s

if TYPE_CHECKING:
    from t9ksched.engine.placement.trial import Trial

_AMOUNTS: Final = (("cpu", 0), ("memory", 20))
"""Resources besides cards, and how many binary places of them are left out: cpu is in millicores, memory in MiB."""
_MOST: Final = 1 << 29
"""More of cpu or memory is cut off, so that products stay inside 64 bits."""


class FreeCards:
    """What is free on the nodes.

    Attributes:
        cpu, memory: millicores and MiB, shape (nodes,).
        cards: thousandths of each card, shape (nodes, cards).
    """

    def __init__(self, trial: "Trial", free: Int64s, *, empty: bool = False) -> None:
        """As these columns of amounts have it. With `empty` no card that is given whole is held."""
        self._trial = trial
        self._whole = bool(trial.nodes.static.cards.indexed.any())
        parts = self._parts(free, slice(None), empty=empty)
        self.cards: Int64s = np.zeros((len(trial.nodes), sum(map(len, parts))), np.int64)
        self._write(parts, slice(None))
        self.cpu, self.memory = (self._amounts(name, free, shift) for name, shift in _AMOUNTS)

    def _parts(self, free: Int64s, rows: "slice | Indices", *, empty: bool = False) -> list[Int64s]:
        """What is free of each card, by resource: each of shape (cards, nodes), always as many cards."""
        static = self._trial.nodes.static
        parts = [of.part_free(free, rows) for of in static.divided.values()]
        if self._whole:
            parts += self._trial.cards.thousandths(rows, static.cards, empty=empty)
        return parts

    def _write(self, parts: list[Int64s], rows: "slice | Indices") -> None:
        at = 0
        for part in parts:
            self.cards[rows, at : at + len(part)] = part.T
            at += len(part)

    def _amounts(self, name: str, free: Int64s, shift: int) -> Int64s:
        at = self._trial.resource_rows.get(name)
        return (
            np.zeros(free.shape[1], np.int64)
            if at is None
            else np.minimum(np.maximum(free[at], 0), _MOST << shift) >> shift
        )

    def renew(self, rows: Indices) -> None:
        """Take in what is free on these nodes now."""
        trial = self._trial
        free = trial.free
        if len(rows) == 1:  # what most placements change
            self._renew_one(int(rows[0]))
            return
        for (name, shift), column in zip(_AMOUNTS, (self.cpu, self.memory), strict=True):
            if (at := trial.resource_rows.get(name)) is None:
                continue
            column[rows] = np.minimum(np.maximum(free[at, rows], 0), _MOST << shift) >> shift
        self._write(self._parts(free, rows), rows)

    def _renew_one(self, row: int) -> None:
        trial = self._trial
        free, static, at = trial.free[:, row], trial.nodes.static, 0
        for (name, shift), column in zip(_AMOUNTS, (self.cpu, self.memory), strict=True):
            if (resource := trial.resource_rows.get(name)) is not None:
                column[row] = min(max(int(free[resource]), 0), _MOST << shift) >> shift
        for of in static.divided.values():
            part = of.part_free_on(free, row)
            self.cards[row, at : at + len(part)] = part
            at += len(part)
        if self._whole:
            for whole in trial.cards.thousandths(slice(row, row + 1), static.cards):
                self.cards[row, at : at + len(whole)] = whole[:, 0]
                at += len(whole)

    def unlike(self, other: "FreeCards") -> Indices:
        """The nodes that have something else free."""
        differ = (self.cpu != other.cpu) | (self.memory != other.memory) | (self.cards != other.cards).any(axis=1)
        return np.flatnonzero(differ)
