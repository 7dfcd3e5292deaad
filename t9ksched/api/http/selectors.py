"""Filters by labels, written as kubectl takes them: `team=ml,tier!=batch,gpu,!old,zone in (a,b)`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Query

from t9ksched.api.http.problems import invalid
from t9ksched.model.errors import FieldError

_KEY: Final = r"[A-Za-z0-9][-A-Za-z0-9_./]{0,316}"
_VALUE: Final = r"[-A-Za-z0-9_.]{0,63}"
_PART: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<gone>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


class Requirement(NamedTuple):
    """What the label `key` must be: one of `values` (None: anything), or with `negated` none of them, or not there."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def met(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it."""
        there = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return there is not self.negated


def parse(text: str) -> list[Requirement]:
    """The requirements that a selector lists.

    Raises:
        ValueError: it cannot be read.
    """
    found, at = [], 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part.end() == at:
            raise ValueError(text[at:])
        at = part.end()
        if part["absent"]:
            found.append(Requirement(part["gone"], None, True))
        elif part["word"]:
            values = frozenset(value.strip() for value in part["values"].split(","))
            found.append(Requirement(part["key"], values, part["word"] == "notin"))
        elif part["sign"]:
            found.append(Requirement(part["key"], frozenset({part["value"]}), part["sign"] == "!="))
        else:
            found.append(Requirement(part["key"], None, False))
    if not found:
        raise ValueError(text)
    return found


def met(requirements: Iterable[Requirement], labels: Mapping[str, str] | None) -> bool:
    """Whether labels meet all requirements."""
    return all(one.met(labels or {}) for one in requirements)


async def _labels(
    label: Annotated[
        list[str] | None,
        Query(description="By labels, as kubectl selects: `team=ml,tier!=batch,gpu,!old,zone in (a,b)`", max_length=20),
    ] = None,
) -> Sequence[Requirement]:
    """The requirements of a request.

    Raises:
        Problem: one cannot be read.
    """
    found: list[Requirement] = []
    for text in label or ():
        try:
            found += parse(text)
        except ValueError as error:
            rest = str(error)[:100]
            fault = f"cannot be read at {rest!r}: write it such as team=ml, team!=ml, team, !team or team in (ml,cv)"
            raise invalid([FieldError("query.label", fault)]) from None
    return found


Labels = Annotated[Sequence[Requirement], Depends(_labels)]
"""The parameter by which an endpoint gets the labels to filter by."""
