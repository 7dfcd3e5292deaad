"""Counts work by what is executed, not by the clock: the lines of Python that run between two stops."""

import sys
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Lines:
    """Counts the lines that are executed while it is on; a line that loops counts once for each round."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> "Lines":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self.count += 1
        return self._trace


def pieces(work: Generator[None, None, T]) -> tuple[list[int], T]:
    """The lines of each piece of work between two stops, and the result of all of it."""
    found: list[int] = []
    while True:
        counted = Lines()
        try:
            with counted:
                next(work)
        except StopIteration as end:
            result: T = end.value
            return [*found, counted.count], result
        found.append(counted.count)


class Looked(tuple[T, ...]):
    """A tuple of which each element that is gone through counts as lines, also in `sorted`, `set` and the like."""

    def __iter__(self) -> Iterator[T]:
        for one in super().__iter__():  # noqa: UP028
            yield one
