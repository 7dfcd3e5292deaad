"""A long sequence in parts, so that two of them share what did not change.

Of ten thousands of running groups few change between two cycles. `Parts` keeps such values by key and hands all of them
out as a `Parted`, which never changes: the next one has the same parts but for those in which something did. Making it,
and comparing it with the one before, costs what changed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import eq, is_
from typing import Final, Generic, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_A_PART: Final = 128
"""So many values make a part: it is made anew when one of them changes, and all parts are counted."""
_SMALL: Final = _A_PART // 4
"""A part of no more is joined with one beside it."""


class Parted(Sequence[T_co]):
    """All values, part after part; equal to any sequence of equal values."""

    __slots__ = ("_ends", "parts")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, parts: tuple[tuple[T_co, ...], ...] = ()) -> None:
        self.parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(self.parts)

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, at: int | slice) -> T_co | tuple[T_co, ...]:
        if not isinstance(at, slice):
            if not -len(self) <= at < len(self):
                raise IndexError(at)
            at %= len(self)
            part = bisect_right(self._ends, at)
            return self.parts[part][at - self._ends[part]]
        first, last, step = at.indices(len(self))
        if step != 1:
            return tuple(self[one] for one in range(first, last, step))
        if first >= last:
            return ()
        begin, end = bisect_right(self._ends, first), bisect_right(self._ends, last - 1) + 1
        before = self._ends[begin - 1] if begin else 0
        return tuple(chain.from_iterable(self.parts[begin:end]))[first - before : last - before]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        if not isinstance(other, Parted):
            return all(map(eq, self, other))
        if self._ends == other._ends:
            return self.parts == other.parts
        shared = map(is_, self.parts, other.parts)
        alike = next((at for at, same in enumerate(shared) if not same), 0)
        return all(map(eq, chain.from_iterable(self.parts[alike:]), chain.from_iterable(other.parts[alike:])))

    def __repr__(self) -> str:
        return f"Parted({tuple(self)!r})"


class _Part(Generic[T]):
    """Some values by key, and as they were handed out last; None if one changed since."""

    __slots__ = ("told", "values")

    def __init__(self) -> None:
        self.values: dict[str, T] = {}
        self.told: tuple[T, ...] | None = None


class Parts(Generic[T]):
    """Values by key, in the order in which the keys came."""

    def __init__(self) -> None:
        self._parts: list[_Part[T]] = []
        self._of: dict[str, _Part[T]] = {}
        self._changed: dict[_Part[T], None] = {}
        self._told: Parted[T] = Parted()

    def __len__(self) -> int:
        return len(self._of)

    def __setitem__(self, key: str, value: T) -> None:
        part = self._of.get(key)
        if part is None:
            if not self._parts or len(self._parts[-1].values) >= _A_PART:
                self._parts.append(_Part())
            part = self._of[key] = self._parts[-1]
        elif part.values[key] is value:
            return
        part.values[key] = value
        self._changed[part] = None

    def discard(self, key: str) -> None:
        """Leave out the value of a key, if there is one."""
        part = self._of.pop(key, None)
        if part is not None:
            del part.values[key]
            self._changed[part] = None

    def told(self) -> Parted[T]:
        """All values; the same object as before if they are equal."""
        changed, self._changed = self._changed, {}
        other = False
        for part in changed:
            values = tuple(part.values.values())
            if part.told is None or part.told != values:
                part.told, other = values, True
        if other:
            for part in changed:
                if len(part.values) <= _SMALL:
                    self._join(part)
            found = Parted(tuple(part.told for part in self._parts if part.told is not None))
            if found != self._told:
                self._told = found
        return self._told

    def _join(self, part: _Part[T]) -> None:
        """Make one of a small part and one beside it, where both are not too many, so that parts stay few."""
        if part not in self._parts:
            return  # joined with another one that changed
        at = self._parts.index(part)
        for left in (at - 1, at):
            if left < 0 or left + 1 >= len(self._parts):
                continue
            one, other = self._parts[left : left + 2]
            if len(one.values) + len(other.values) <= _A_PART:
                one.values.update(other.values)
                self._of.update(dict.fromkeys(other.values, one))
                one.told = tuple(one.values.values())
                del self._parts[left + 1]
                return
        if not part.values:
            del self._parts[at]
