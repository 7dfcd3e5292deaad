"""Which gangs came and went between two views, found in slices.

Of a hundred thousand gangs that wait few come or go between two cycles: what both views have at their beginnings and
at their ends is compared at once.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang

_SOME: Final = 2048
"""So many gangs are looked at in one step."""
_A_GANG: Final = 20
"""Units of work to look at a gang."""


def came_and_went(before: Sequence[Gang], gangs: Sequence[Gang], meter: Meter) -> Work[tuple[list[Gang], list[Gang]]]:
    """The gangs that are in the second view and not in the first, and those that are in the first and not in the
    second; one that changed is among both.
    """
    if before is gangs:
        return [], []
    head = yield from _equal(zip(_parts(before), _parts(gangs), strict=False), meter)
    rest = min(len(before), len(gangs)) - head
    tail = yield from _equal(_from_the_end(before, gangs, rest), meter)
    old, new = before[head : len(before) - tail], gangs[head : len(gangs) - tail]
    went = yield from _without(old, new, meter)
    came = yield from _without(new, old, meter)
    return came, went


def _without(gangs: Sequence[Gang], others: Sequence[Gang], meter: Meter) -> Work[list[Gang]]:
    """The gangs that are not among the others."""
    known: set[int] = set()
    for part in _parts(others):
        known.update(map(id, part))
        meter.spent += _A_GANG * len(part)
        yield
    found: list[Gang] = []
    for part in _parts(gangs):
        found += [gang for gang in part if id(gang) not in known]
        meter.spent += _A_GANG * len(part)
        yield
    return found


def _parts(gangs: Sequence[Gang]) -> Iterator[Sequence[Gang]]:
    return (gangs[first : first + _SOME] for first in range(0, len(gangs), _SOME))


def _from_the_end(
    before: Sequence[Gang], gangs: Sequence[Gang], most: int
) -> Iterator[tuple[Sequence[Gang], Sequence[Gang]]]:
    """Parts of both from the end, of `most` gangs together, each with its last gang first."""
    for left in range(0, most, _SOME):
        size = min(_SOME, most - left)
        yield (
            before[len(before) - left - size : len(before) - left][::-1],
            gangs[len(gangs) - left - size : len(gangs) - left][::-1],
        )


def _equal(parts: Iterator[tuple[Sequence[Gang], Sequence[Gang]]], meter: Meter) -> Work[int]:
    """How many gangs are equal until the first that is not."""
    count = 0
    for one, other in parts:
        meter.spent += len(one)
        if one != other:
            for left, right in zip(one, other, strict=False):
                if left is not right and left != right:
                    break
                count += 1
            return count
        count += len(one)
        yield
    return count
