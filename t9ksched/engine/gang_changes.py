"""Which gangs came and went between two views, found in slices.

Of a hundred thousand gangs few come, go or change between two cycles, anywhere among the others, which keep their
order. What lies between them is compared part by part; only where more than a few changed in one place, what is left of
both is compared by identity. What is `Parted` shares its parts: of these only those are compared that are not shared.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from t9ksched.engine.parted import Parted
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Running

G = TypeVar("G", Gang, Running)

_SOME: Final = 2048
"""So many gangs are looked at in one step."""
_A_GANG: Final = 20
"""Units of work to look at a gang."""
_FEW: Final = 8
"""Up to so many in one place may have come, gone or changed for the next ones to be found at once."""
_PLACES: Final = 256
"""In so many places what changed is found so."""


class Difference(NamedTuple):
    """A place in which two views differ: so many gangs from a position of the first one on are others in the second."""

    old: int
    gone: int
    new: int
    come: int


def came_and_went(before: Sequence[G], gangs: Sequence[G], meter: Meter) -> Work[tuple[list[G], list[G]]]:
    """The gangs that are in the second view and not in the first, and those that are in the first and not in the
    second; one that changed is among both.
    """
    came: list[G] = []
    went: list[G] = []
    if before is gangs:
        return came, went
    if isinstance(before, Parted) and isinstance(gangs, Parted):
        before, gangs = _not_shared(before, gangs)
        meter.spent += _A_GANG * (len(before) + len(gangs))
    if len(before) + len(gangs) <= _FEW:
        known, there = set(map(id, before)), set(map(id, gangs))
        return [one for one in gangs if id(one) not in known], [one for one in before if id(one) not in there]
    places, rest = yield from differing(before, gangs, meter)
    for place in places:
        went += before[place.old : place.old + place.gone]
        came += gangs[place.new : place.new + place.come]
    left, more = before[rest.old :], gangs[rest.new :]
    if left or more:
        went += yield from _without(left, more, meter)
        came += yield from _without(more, left, meter)
    return came, went


def differing(before: Sequence[G], gangs: Sequence[G], meter: Meter) -> Work[tuple[list[Difference], Difference]]:
    """The places in which few gangs are others, in order, and what is left of both: it may be alike in part."""
    places: list[Difference] = []
    old = new = 0
    for _ in range(_PLACES):
        alike = yield from _equal(before, gangs, old, new, meter)
        old, new = old + alike, new + alike
        if old == len(before) or new == len(gangs):
            break
        if (gone := _resumes(before, gangs, old, new)) is None:
            break
        places.append(Difference(old, gone[0], new, gone[1]))
        old, new = old + gone[0], new + gone[1]
        meter.spent += _A_GANG * _FEW
    return places, Difference(old, len(before) - old, new, len(gangs) - new)


def _not_shared(before: Parted[G], gangs: Parted[G]) -> tuple[Sequence[G], Sequence[G]]:
    """The gangs of both in parts that are not those of the other: no gang stands twice in one of them."""
    then, now = ({id(part) for part in one.parts} for one in (before, gangs))
    old = chain.from_iterable(part for part in before.parts if id(part) not in now)
    new = chain.from_iterable(part for part in gangs.parts if id(part) not in then)
    return tuple(old), tuple(new)


def _resumes(before: Sequence[G], gangs: Sequence[G], old: int, new: int) -> tuple[int, int] | None:
    """How many of each are skipped, the fewest of both together, until the next are equal; None if that is not near.

    What is skipped of one must not be among what is skipped of the other: then only places changed.
    """
    most, more = min(_FEW, len(before) - old - 1), min(_FEW, len(gangs) - new - 1)
    for both in range(1, most + more + 1):
        for skipped in range(max(0, both - more), min(both, most) + 1):
            if before[old + skipped] is gangs[new + both - skipped]:
                return skipped, both - skipped
    return None


def _without(gangs: Sequence[G], others: Sequence[G], meter: Meter) -> Work[list[G]]:
    """The gangs that are not among the others."""
    known: set[int] = set()
    for part in _parts(others):
        known.update(map(id, part))
        meter.spent += _A_GANG * len(part)
        yield
    found: list[G] = []
    for part in _parts(gangs):
        found += [gang for gang in part if id(gang) not in known]
        meter.spent += _A_GANG * len(part)
        yield
    return found


def _parts(gangs: Sequence[G]) -> Iterator[Sequence[G]]:
    return (gangs[first : first + _SOME] for first in range(0, len(gangs), _SOME))


def _equal(before: Sequence[G], gangs: Sequence[G], old: int, new: int, meter: Meter) -> Work[int]:
    """How many are equal from these positions on, until the first that is not."""
    count, most = 0, min(len(before) - old, len(gangs) - new)
    while count < most:
        size = min(_SOME, most - count)
        first, second = old + count, new + count
        meter.spent += size
        if before[first : first + size] != gangs[second : second + size]:
            return count + _first_unlike(before, gangs, first, second, size)
        count += size
        yield
    return count


def _first_unlike(before: Sequence[G], gangs: Sequence[G], old: int, new: int, size: int) -> int:
    """The position of the first of so many that is unlike, of which one is."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if before[old + low : old + middle] == gangs[new + low : new + middle]:
            low = middle
        else:
            high = middle
    return low
