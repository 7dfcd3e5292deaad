"""The keys of a class: the score of each node for one more of its pods, or that none fits.

They are found in machine code where the kernel has it (`engine/kernel`), else by numpy.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.kernel.key_tables import KeyTables, KeyWriter
from t9ksched.engine.kernel.native import chosen as kernel

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit

NEVER: Final = np.iinfo(np.int64).min
"""Key of a node on which no pod of the class fits."""


class ClassKeys:
    """Writes the keys of one class."""

    def __init__(self, column: "ClassFit") -> None:
        self._column = column
        self._known = False
        self._native: KeyWriter | None = None

    def drop(self) -> None:
        """Give back what it keeps."""
        self._known, self._native = False, None

    def write(self, key: Int64s, rows: Indices | None) -> None:
        """Write the keys of these nodes, None for all; `key` has shape (nodes,). The class has its gains."""
        column, trial = self._column, self._column.trial
        if not column.known:
            return
        trial.meter.spent += (len(key) if rows is None else len(rows)) * (2 + len(column.needs))
        points = None if trial.packing is None else trial.packing.points(column)
        if (native := self._in_machine_code()) is not None:
            native.write(points, rows, key)
        else:
            self._by_numpy(key, points, rows)
        if column.ports:
            for row in (np.flatnonzero(key != NEVER) if rows is None else rows[key[rows] != NEVER]).tolist():
                if column.ports_taken(row):
                    key[row] = NEVER
        if column.volumes is not None:
            here = slice(None) if rows is None else rows
            key[here] = np.where(column.volumes.closed(trial.free, rows), NEVER, key[here])

    def _in_machine_code(self) -> KeyWriter | None:
        """What finds them in machine code; None where numpy does."""
        if not self._known:
            column, trial = self._column, self._column.trial
            parts = [need.columns for need in column.divided]
            if not parts or (len(parts) == 1 and parts[0] is not None):
                tables = KeyTables(
                    trial.free,
                    trial.base,
                    column.gains(),
                    column.bias,
                    column.mask,
                    column.needs,
                    parts[0] if parts else None,
                )
                self._native = kernel().kernel.keys(tables)
            self._known = True
        return self._native

    def _by_numpy(self, key: Int64s, points: Int64s | None, rows: Indices | None) -> None:
        column, trial = self._column, self._column.trial
        here: slice | Indices = slice(None) if rows is None else rows
        fits = column.mask[here].copy()
        for at, amount in column.needs:
            fits &= trial.free[at][here] >= amount
        for parts in column.divided:
            fits &= parts.fits(trial.free, rows)
        score = trial.base[here] + column.gains()[here]
        if (bias := column.bias) is not None:
            score += bias[here]
        if points is not None:
            score += points[here]
        score[~fits] = NEVER
        key[here] = score
