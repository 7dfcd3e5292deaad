"""Keys in machine code: `keys.c`, called through ctypes."""

import ctypes
from typing import Any, Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.kernel.checks import address, machine
from t9ksched.engine.kernel.key_tables import KeyTables

_FIELDS: Final = (
    "nodes needs cards count cores all_divide free base gain bias mask need_rows need_amounts"
    " cores_rows memory_rows places_rows wanted divide"
)


class _Keys(ctypes.Structure):
    """`Keys` of `keys.c`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in _FIELDS.split())


class NativeKeys:
    """See `KeyWriter`."""

    def __init__(self, function: Any, tables: KeyTables) -> None:
        self._function, self._nodes = function, len(tables.base)
        needs, parts = np.array(tables.needs, np.int64).reshape(-1, 2), tables.parts
        rows, amounts = np.ascontiguousarray(needs.T)
        columns: list[Any] = [tables.free, tables.base, tables.gain, tables.bias, tables.mask, rows, amounts]
        counts = [self._nodes, len(needs), 0, 0, 0, 0]
        if parts is not None:
            counts[2:] = len(parts.wanted), parts.count, parts.cores, parts.everywhere
            columns += [*parts.rows, parts.wanted, parts.divide]
        self._held = columns
        addresses = (0 if one is None else address(one) for one in columns)
        self._struct = _Keys(*counts, *addresses)
        self._address = ctypes.byref(self._struct)
        self._latest: tuple[Int64s | None, Int64s, int | None, int] | None = None
        """The latest points and keys, and where they are: mostly the same are asked for again."""

    def write(self, points: Int64s | None, rows: Indices | None, key: Int64s) -> None:
        """See `KeyWriter`."""
        if self._latest is None or self._latest[0] is not points or self._latest[1] is not key:
            machine(key, np.int64, self._nodes)
            if points is not None:
                machine(points, np.int64, self._nodes)
            self._latest = points, key, None if points is None else address(points), address(key)
        *_, at, into = self._latest
        count, where = self._nodes, None
        if rows is not None:
            count = len(rows)
            machine(rows, np.int64, count)
            where = address(rows)
        if not self._function(self._address, at, where, count, into):
            raise ValueError("a row does not exist")


def declare(library: ctypes.CDLL) -> Any:
    """The function of the library, with the types of its parameters."""
    function = library.keys
    function.restype = ctypes.c_int
    function.argtypes = (ctypes.POINTER(_Keys), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return function
