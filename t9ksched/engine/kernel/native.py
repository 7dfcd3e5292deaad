"""The native kernel: the C files of this folder, compiled when the package was installed, called through ctypes.

A library that was made of other files than those beside it is not used. Nothing depends on whether there is one, but
how long a cycle takes. A call holds no lock of the interpreter, and touches nothing but its tables, which looked at all
that it reads.
"""

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.kernel import native_keys, native_packing
from t9ksched.engine.kernel.key_tables import KeyTables
from t9ksched.engine.kernel.native_keys import NativeKeys
from t9ksched.engine.kernel.native_packing import NativePacking
from t9ksched.engine.kernel.packing_tables import PackingTables
from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import Kernel, Run, Stop, Tables, most_starts

SWITCH: Final = "T9KSCHED_NATIVE"
"""A variable of the environment; with 0 the library is left alone. It is no setting of a service: it holds for every
process that plans.
"""
LIBRARY: Final = Path(__file__).with_name("_kernel.so")
FOLDER: Final = Path(__file__).parent
"""Where its sources are."""
_NUMBERS = "nodes accounts queues fills first_comparator second_comparator"
_NODES = "free base idle"
_CLASSES = "keys gains biases masks needs_first need_rows need_amounts card_rows card_counts scarcest rooms"
_SEEN = "seen seen_by_rooms touched"
_LEVELS = "level_domains level_rows level_bounds"
_KINDS = "parts_first part_classes part_pods demands kind_pods levels_first kind_levels together"
_QUEUES = "priorities caps held measures limited needs_turns line_first left known kind_of times_of heap order"
_FOUND = "start_queues start_kinds start_ends place_rows place_pods place_classes place_idle"
_MOST_STARTS: Final = 1024
_COUNTS = "most_starts most_places starts places stopped stopped_at"


class _Struct(ctypes.Structure):
    """`Tables` of `kernel.c`: numbers, and addresses of arrays."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for names in (_NUMBERS, _NODES, _CLASSES, _SEEN, "touched_count", _LEVELS, _KINDS, _QUEUES, _FOUND, _COUNTS)
        for name in names.split()
    )


class Native:
    """The kernel in machine code."""

    a_start = 0

    def __init__(self, library: ctypes.CDLL) -> None:
        self._run = library.run
        self._run.restype = None
        self._run.argtypes = (ctypes.POINTER(_Struct),)
        self._points, self._keys = native_packing.declare(library), native_keys.declare(library)

    def packing(self, tables: PackingTables) -> NativePacking:
        """See `Kernel`."""
        return NativePacking(self._points, tables)

    def keys(self, tables: KeyTables) -> NativeKeys:
        """See `Kernel`."""
        return NativeKeys(self._keys, tables)

    def run(self, tables: Tables) -> Run:
        """See `Kernel`."""
        packed = _packed(tables)
        struct = packed.struct
        struct.touched_count = tables.touched_count
        struct.most_starts = most_starts(tables, _MOST_STARTS)
        self._run(ctypes.byref(struct))
        tables.touched_count = struct.touched_count
        starts, places = struct.starts, struct.places
        queues, kinds, ends, rows, pods, classes, idle = packed.found.values()
        return Run(
            Stop(struct.stopped),
            struct.stopped_at,
            queues[:starts].tolist(),
            kinds[:starts].tolist(),
            ends[:starts].tolist(),
            rows[:places].tolist(),
            pods[:places].tolist(),
            classes[:places].tolist(),
            idle[:places].view(np.uint64).tolist(),
        )


class _Growing:
    """An array of whole numbers that grows at its end."""

    def __init__(self, *values: int) -> None:
        self.array: Int64s = np.zeros(64, np.int64)
        self.size = 0
        self.extend(values)

    def extend(self, values: Sequence[int]) -> None:
        """Add these."""
        size = self.size + len(values)
        if size > len(self.array):
            self.array = np.append(self.array, np.zeros(size, np.int64))
        self.array[self.size : size] = values
        self.size = size


class _Packed:
    """The arrays that the kernel is given the addresses of: those of the tables, and its own."""

    def __init__(self, tables: Tables) -> None:
        self.struct = _Struct()
        self._held: dict[str, Any] = {}
        self._grown = {name: _Growing() for name in f"{_CLASSES} {_LEVELS} {_KINDS}".split()}
        for name in ("needs_first", "parts_first", "levels_first"):
            self._grown[name].extend((0,))
        self._known = (0, 0, 0)
        queues, count = tables.queues, len(tables.queues.left)
        struct = self.struct
        struct.nodes, struct.accounts, struct.queues = tables.nodes, queues.accounts, count
        struct.fills, struct.most_places = tables.fills, tables.most_places
        struct.first_comparator, struct.second_comparator = queues.comparators
        self.found = {name: np.zeros(tables.most_places, np.int64) for name in _FOUND.split()}
        self._point(free=tables.free, base=tables.base, idle=tables.idle, touched=tables.touched)
        self._point(heap=np.zeros(count, np.int64), order=np.zeros((count, 2), np.int64), **self.found)
        self._point(**{name: getattr(queues, name) for name in _QUEUES.split()[:-2]})

    def _point(self, **arrays: Any) -> None:
        """Give the kernel these arrays, which are kept alive."""
        for name, array in arrays.items():
            self._held[name] = array
            setattr(self.struct, name, array.ctypes.data)

    def follow(self, tables: Tables) -> None:
        """There may be more classes and kinds than before."""
        known = (len(tables.classes), len(tables.levels), len(tables.kinds))
        if known == self._known:
            return
        first_class, first_level, first_kind = self._known
        classes, levels, kinds = tables.classes[first_class:], tables.levels[first_level:], tables.kinds[first_kind:]
        grown = self._grown
        sizes = accumulate((len(of.needs) for of in classes), initial=grown["need_rows"].size)
        added: dict[str, Sequence[int]] = {
            "keys": [of.key.ctypes.data for of in classes],
            "gains": [of.gain.ctypes.data for of in classes],
            "biases": [0 if of.bias is None else of.bias.ctypes.data for of in classes],
            "masks": [of.mask.ctypes.data for of in classes],
            "needs_first": list(sizes)[1:],
            "need_rows": [at for of in classes for at, _ in of.needs],
            "need_amounts": [amount for of in classes for _, amount in of.needs],
            "card_rows": [-1 if of.cards is None else of.cards[0] for of in classes],
            "card_counts": [0 if of.cards is None else of.cards[1] for of in classes],
            "scarcest": [of.scarcest for of in classes],
            "rooms": [of.rooms.ctypes.data for of in classes],
            "level_domains": [len(level.bounds) - 1 for level in levels],
            "level_rows": [level.rows.ctypes.data for level in levels],
            "level_bounds": [level.bounds.ctypes.data for level in levels],
        }
        sizes = accumulate((len(kind.parts) for kind in kinds), initial=grown["part_classes"].size)
        added |= {
            "parts_first": list(sizes)[1:],
            "part_classes": [number for kind in kinds for number, _ in kind.parts],
            "part_pods": [pods for kind in kinds for _, pods in kind.parts],
            "demands": [amount for kind in kinds for amount in kind.demand],
            "kind_pods": [kind.pods for kind in kinds],
            "kind_levels": [level for kind in kinds for level in kind.levels],
            "together": [kind.together for kind in kinds],
        }
        sizes = accumulate((len(kind.levels) for kind in kinds), initial=grown["kind_levels"].size)
        added["levels_first"] = list(sizes)[1:]
        for name, values in added.items():
            grown[name].extend(values)
        self._known = known
        self._point(seen=tables.seen, seen_by_rooms=tables.seen_by_rooms)
        self._point(**{name: grown.array for name, grown in self._grown.items()})


def _packed(tables: Tables) -> _Packed:
    if tables.packed is None:
        tables.packed = _Packed(tables)
    packed: _Packed = tables.packed
    packed.follow(tables)
    return packed


class Chosen(NamedTuple):
    """The kernel of this process, and why it is not the native one; empty where it is."""

    kernel: Kernel
    missing: str


@cache
def native() -> Native | str:
    """The native kernel, or why there is none."""
    if not LIBRARY.exists():
        return "it is not compiled"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.source.restype = ctypes.c_char_p
        made_of: bytes = library.source()
    except (OSError, AttributeError) as error:
        return f"it cannot be loaded: {error}"
    if made_of.decode() != sha256(b"".join(each.read_bytes() for each in sorted(FOLDER.glob("*.c")))).hexdigest():
        return "it was compiled of other sources"
    return Native(library)


@cache
def chosen() -> Chosen:
    """What plans of this process run on."""
    found = f"{SWITCH}=0" if os.environ.get(SWITCH) == "0" else native()
    return Chosen(Reference(), found) if isinstance(found, str) else Chosen(found, "")
