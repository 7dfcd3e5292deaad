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
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.kernel import native_keys, native_packing
from t9ksched.engine.kernel.checks import address
from t9ksched.engine.kernel.key_tables import KeyTables
from t9ksched.engine.kernel.native_keys import NativeKeys
from t9ksched.engine.kernel.native_packing import NativePacking
from t9ksched.engine.kernel.packing_tables import PackingTables
from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import FitClass, GangKind, Kernel, Run, Stop, Tables, most_starts

SWITCH: Final = "T9KSCHED_NATIVE"
"""A variable of the environment; with 0 the library is left alone. It is no setting of a service: it holds for every
process that plans.
"""
LIBRARY: Final = Path(__file__).with_name("_kernel.so")
FOLDER: Final = Path(__file__).parent
"""Where its sources are."""
_NUMBERS = "nodes accounts queues fills first_comparator second_comparator"
_NODES = "free base idle"
_CLASSES = "classes needs"
_SEEN = "seen seen_by_rooms touched"
_KINDS = "levels kinds parts kind_levels demands"
_QUEUES = "priorities caps held measures limited needs_turns line_first left known kind_of times_of heap order"
_FOUND = "start_queues start_kinds start_ends place_rows place_pods place_classes place_idle"
_MOST_STARTS: Final = 1024
_COUNTS = "most_starts most_places starts places stopped stopped_at"


class _Struct(ctypes.Structure):
    """`Tables` of `kernel.c`: numbers, and addresses of arrays."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for names in (_NUMBERS, _NODES, _CLASSES, _SEEN, "touched_count", _KINDS, _QUEUES, _FOUND, _COUNTS)
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
        queues, kinds, ends, rows, pods, classes, idle = packed.found
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
    """Rows of whole numbers, one behind the other in an array that grows at its end."""

    def __init__(self) -> None:
        self.array: Int64s = np.zeros(64, np.int64)
        self.size = 0

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
        self._grown = {name: _Growing() for name in f"{_CLASSES} {_KINDS}".split()}
        self._known = (0, 0, 0)
        queues, count = tables.queues, len(tables.queues.left)
        struct = self.struct
        struct.nodes, struct.accounts, struct.queues = tables.nodes, queues.accounts, count
        struct.fills, struct.most_places = tables.fills, tables.most_places
        struct.first_comparator, struct.second_comparator = queues.comparators
        names = _FOUND.split()
        self.found: Int64s = np.empty((len(names), tables.most_places), np.int64)
        self._point(free=tables.free, base=tables.base, idle=tables.idle, touched=tables.touched)
        self._point(heap=np.zeros(count, np.int64), order=np.zeros((count, 2), np.int64))
        self._point(**dict(zip(names, self.found, strict=True)))
        self._point(**{name: getattr(queues, name) for name in _QUEUES.split()[:-2]})

    def _point(self, **arrays: Any) -> None:
        """Give the kernel these arrays, which are kept alive."""
        for name, array in arrays.items():
            self._held[name] = array
            setattr(self.struct, name, address(array))

    def follow(self, tables: Tables) -> None:
        """There may be more classes and kinds than before."""
        known = (len(tables.classes), len(tables.levels), len(tables.kinds))
        if known == self._known:
            return
        first_class, first_level, first_kind = self._known
        self._known = known
        self._add_classes(tables.classes[first_class:])
        levels = [(len(one.bounds) - 1, address(one.rows), address(one.bounds)) for one in tables.levels[first_level:]]
        self._grown["levels"].extend(list(chain.from_iterable(levels)))
        self._add_kinds(tables.kinds[first_kind:])
        self._point(seen=tables.seen, seen_by_rooms=tables.seen_by_rooms)
        self._point(**{name: grown.array for name, grown in self._grown.items()})

    def _add_classes(self, classes: Sequence[FitClass]) -> None:
        needs: list[int] = []
        fields: list[int] = []
        before = self._grown["needs"].size // 2
        for of in classes:
            first = before + len(needs) // 2
            needs.extend(chain.from_iterable(of.needs))
            card_row, cards = of.cards or (-1, 0)
            bias = 0 if of.bias is None else address(of.bias)
            fields += (address(of.key), address(of.gain), bias, address(of.rooms), address(of.mask))
            fields += (first, first + len(of.needs), card_row, cards, of.scarcest)
        self._grown["needs"].extend(needs)
        self._grown["classes"].extend(fields)

    def _add_kinds(self, kinds: Sequence[GangKind]) -> None:
        parts: list[int] = []
        levels: list[int] = []
        fields: list[int] = []
        parts_before, levels_before = self._grown["parts"].size // 2, self._grown["kind_levels"].size
        for kind in kinds:
            first_part, first_level = parts_before + len(parts) // 2, levels_before + len(levels)
            parts.extend(chain.from_iterable(kind.parts))
            levels += kind.levels
            fields += (first_part, first_part + len(kind.parts), kind.pods)
            fields += (first_level, first_level + len(kind.levels), kind.together)
        self._grown["parts"].extend(parts)
        self._grown["kind_levels"].extend(levels)
        self._grown["kinds"].extend(fields)
        self._grown["demands"].extend([amount for kind in kinds for amount in kind.demand])


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
