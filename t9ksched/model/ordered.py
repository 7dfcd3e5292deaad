"""A set that is walked in the order in which its members came, so that equal histories make equal decisions.

The order of a built-in set depends on addresses and on the process's seed of hashes.
"""

from collections.abc import Iterable, Iterator, MutableSet
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedSet(MutableSet[T], Generic[T]):
    """Members in the order in which they were first added."""

    __slots__ = ("_members",)

    def __init__(self, members: Iterable[T] = ()) -> None:
        self._members: dict[T, None] = dict.fromkeys(members)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[T]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._members)!r})"

    def add(self, member: T) -> None:
        """Put it last; a member that is there keeps its place."""
        self._members[member] = None

    def discard(self, member: T) -> None:
        """Take it out if it is there."""
        self._members.pop(member, None)

    def update(self, members: Iterable[T]) -> None:
        """Add all of them in their order."""
        for member in members:
            self._members[member] = None
