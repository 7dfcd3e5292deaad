"""Limits on YAML, and faults with their place."""

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """What one text may hold, over all its documents.

    Attributes:
        depth: levels of mappings and lists inside each other.
        values: scalars, mappings and lists; what aliases and merge keys repeat counts each time, keys do not.
        scalar: characters of one text.
    """

    depth: int = 64
    values: int = 200_000
    scalar: int = 1024 * 1024


DEFAULT: Final = Limits()


class YamlFault(ValueError):
    """A text that is not read. The message is one sentence without a place.

    Attributes:
        line, column: where, from 1; 0 if it is not known.
        path: the field where it is, such as `spec.template`; empty for the whole document.
    """

    def __init__(self, problem: str, line: int = 0, column: int = 0, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
        self.path = path

    @property
    def where(self) -> str:
        """`line 3, column 5`; empty if it is not known."""
        return f"line {self.line}, column {self.column}" if self.line else ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.problem, f"({self.where})" if self.where else "") if part)
