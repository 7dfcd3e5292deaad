"""The points of packing in machine code: `packing.c`, called through ctypes."""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.kernel.checks import address, machine
from t9ksched.engine.kernel.packing_tables import AskedPod, PackingTables

_SIZES: Final = "nodes width shapes sizes limited whole steps full half unit weight"
_COLUMNS: Final = (
    "cpu memory cards version valued value"
    " size size_of shape_cpu shape_memory shape_cards per_core per_mib weights step"
)
_SCRATCH: Final = "share fit share_after fit_after left kept"
_KEPT: Final = 256
"""As in `packing.c`."""


class _Packing(ctypes.Structure):
    """`Packing` of `packing.c`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (*_SIZES.split(), *_COLUMNS.split(), *_SCRATCH.split()))


class _Asked(ctypes.Structure):
    """`Asked` of `packing.c`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in AskedPod._fields)


class NativePacking:
    """See `PackingPoints`."""

    def __init__(self, points: Any, tables: PackingTables) -> None:
        self._points, self._nodes = points, len(tables.cpu)
        sizes, width = len(tables.size), tables.cards.shape[1]
        lengths = {"left": width, "kept": _KEPT}
        scratch = {name: np.zeros(lengths.get(name, sizes), np.int64) for name in _SCRATCH.split()}
        self._held = {**{name: getattr(tables, name) for name in _COLUMNS.split()}, **scratch}
        counts = len(tables.cpu), width, len(tables.size_of), sizes, tables.limited, tables.whole, len(tables.step)
        scores = tables.full, tables.half, tables.unit, tables.weight
        self._struct = _Packing(*counts, *scores, *map(address, self._held.values()))
        self._address = ctypes.byref(self._struct)

    def renewal(self, asked: AskedPod, mask: Mask, seen: Int64s, points: Int64s) -> Callable[[], None]:
        """See `PackingPoints`."""
        machine(mask, np.bool_, self._nodes)
        machine(seen, np.int64, self._nodes)
        machine(points, np.int64, self._nodes)
        arrays = mask, seen, points
        return partial(_call, (self._held, arrays), self._points, self._address, _Asked(*asked), *map(address, arrays))


def _call(_held: object, function: Any, *arguments: Any) -> None:
    """Call the function; what is held is alive as long as it may be."""
    function(*arguments)


def declare(library: ctypes.CDLL) -> Any:
    """The function of the library, with the types of its parameters."""
    function = library.points
    function.restype = None
    function.argtypes = (ctypes.POINTER(_Packing), ctypes.POINTER(_Asked), *(ctypes.c_void_p,) * 3)
    return function
