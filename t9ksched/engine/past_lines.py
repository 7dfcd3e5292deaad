"""The waiting gangs of each queue in their order, kept from cycle to cycle.

Of a hundred thousand gangs that wait few come or go between two cycles: these are found by comparing the two views, and
put into, or taken out of, the order that there was. A queue of which more changed is sorted anew. All of it is done in
slices.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Final

from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.order import gang_key
from t9ksched.engine.sorting import sorted_in_slices
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang

_SOME: Final = 2048
"""So many gangs are looked at in one step."""
_A_GANG: Final = 20
"""Units of work to look at a gang."""
_FEW: Final = 64
"""Up to so many gangs of a queue are put in, or taken out, one by one."""


class PastLines:
    """The lines of the latest cycle whose gangs were in the order of `gang_key`. No list is ever written to once it
    was handed out: a queue of which nothing changed has the same one again.
    """

    def __init__(self) -> None:
        self._gangs: Sequence[Gang] = ()
        self._lines: dict[str, list[Gang]] = {}

    def follow(self, gangs: Sequence[Gang], meter: Meter) -> Work[Mapping[str, list[Gang]]]:
        """These gangs by queue, best first."""
        before, lines = self._gangs, dict(self._lines)
        fresh, gone = yield from came_and_went(before, gangs, meter)
        went: dict[str, list[Gang]] = {}
        came: dict[str, list[Gang]] = {}
        for those, by_queue in ((gone, went), (fresh, came)):
            for first in range(0, len(those), _SOME):
                some = those[first : first + _SOME]
                for gang in some:
                    by_queue.setdefault(gang.queue, []).append(gang)
                meter.spent += _A_GANG * len(some)
                yield
        for name in sorted(went.keys() | came.keys()):
            line = yield from _changed(lines.get(name, []), went.get(name, []), came.get(name, []), meter)
            lines[name] = line
            if not line:
                del lines[name]
        self._gangs, self._lines = gangs, lines
        return lines


def _changed(line: list[Gang], went: Sequence[Gang], came: Sequence[Gang], meter: Meter) -> Work[list[Gang]]:
    """The line without those that went and with those that came."""
    if len(went) > _FEW or len(came) > _FEW:
        gone = {gang.uid for gang in went}
        kept = [gang for gang in line if gang.uid not in gone] if gone else line
        meter.spent += _A_GANG * len(kept)
        yield
        return (yield from sorted_in_slices([*kept, *came], gang_key, meter))
    found = line.copy()
    for gang in went:
        at = bisect_left(found, gang_key(gang), key=gang_key)
        assert found[at].uid == gang.uid
        del found[at]
    for gang in came:
        insort(found, gang, key=gang_key)
    meter.spent += _A_GANG * (len(went) + len(came))
    yield
    return found
