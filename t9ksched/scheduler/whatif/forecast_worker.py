"""The process that finds when waiting groups start if nothing else comes: a present on stdin, moments on stdout."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.model.card_forms import read_request
from t9ksched.model.forecast import Room
from t9ksched.model.gang import Gang
from t9ksched.scheduler.whatif.process import bounded, found_plugins
from t9ksched.simulation.outlook import Start, outlook
from t9ksched.simulation.present import Occupant, Present, read, written

_TOGETHER: Final = 500
Interval = tuple[int, int]
"""From when to when, or between which lengths; nanoseconds."""
_MOST_PLACES: Final = 20_000
"""Nodes that are named in an answer, those of all groups together: about a megabyte."""


class Walk(msgspec.Struct):
    """What to do: walk from the present to `until`, nanoseconds since the epoch.

    Attributes:
        seconds: how long each walk may take.
        ends: between which moments groups that hold places are expected to end, by UID.
        lengths: between which lengths groups that wait are expected to run, by UID.
    """

    until: int
    seconds: float
    ends: dict[str, Interval]
    lengths: dict[str, Interval]
    present: msgspec.Raw


class Starts(msgspec.Struct):
    """When groups get their minimum, nanoseconds since the epoch, by UID: at the latest if each runs until its enforced
    end, and between which moments if each runs as long as it is expected to, or where nothing is expected, no longer
    than until its enforced end. Those that a walk did not reach are not among them. `rooms` are the places of learned
    starts, at the later moment, as in `Start`: of as many groups as there is room for in the answer, the next to start
    first.
    """

    enforced: dict[str, int]
    learned: dict[str, Interval] = {}
    rooms: dict[str, Room] = {}


def task(
    present: Present, until: int, seconds: float, ends: Mapping[str, Interval], lengths: Mapping[str, Interval]
) -> Iterator[bytes]:
    """The JSON of a walk in pieces that take about a millisecond each."""
    encode = msgspec.json.encode
    yield b'{"until":%d,"seconds":%s' % (until, encode(seconds))
    for name, known in ((b"ends", ends), (b"lengths", lengths)):
        yield b',"%s":{' % name
        comma = b""
        items = iter(known.items())
        while some := dict(islice(items, _TOGETHER)):
            yield comma + encode(some)[1:-1]
            comma = b","
        yield b"}"
    yield b',"present":'
    yield from written(present)
    yield b"}"


def starts(text: bytes) -> Starts:
    """What the task asks for.

    Raises:
        msgspec.ValidationError: the text is no task.
        ValueError: the policy needs a plugin that is not installed.
    """
    given = msgspec.json.decode(text, type=Walk, dec_hook=read_request)
    present = read(given.present, found_plugins)
    found = Starts({uid: start.at for uid, start in _walk(present, given).items()})
    missing = [gang.uid for gang in present.view.gangs if gang.uid not in found.enforced]
    if missing and (given.ends or given.lengths):
        early, late = _walk(_soonest(present, given), given), _walk(_latest(present, given), given)
        last = {}
        for uid in missing:
            if uid in early and uid in late:
                first, last[uid] = sorted((early[uid], late[uid]), key=lambda start: start.at)
                found.learned[uid] = (first.at, last[uid].at)
        found.rooms = _rooms(last)
    return found


def _rooms(starts: Mapping[str, Start]) -> dict[str, Room]:
    """Where these groups start, as many as may be told."""
    found, left = {}, _MOST_PLACES
    for uid, start in sorted(starts.items(), key=lambda item: (item[1].at, item[0])):
        left -= len(start.room)
        if left < 0:
            break
        found[uid] = start.room
    return found


def _walk(present: Present, given: Walk) -> dict[str, Start]:
    ends = time.monotonic() + given.seconds
    return outlook(present, given.until, lambda: time.monotonic() > ends).starts


def _soonest(present: Present, given: Walk) -> Present:
    """The present in which each group runs no longer than it is expected to at the least. One that is ended by a limit,
    and of which nothing is expected, may end at any time: it ends at once. Ends that are neither enforced nor expected
    do not come.
    """
    at_once = present.at + 1

    def end(one: Occupant) -> int:
        if (expected := given.ends.get(one.gang.uid)) is None:
            return at_once if one.ends else 0
        return max(at_once, min(one.ends or expected[0], expected[0]))

    def length(gang: Gang) -> int:
        if (expected := given.lengths.get(gang.uid)) is None:
            return 1 if gang.lasts else 0
        return min(gang.lasts or expected[0], expected[0])

    return _with(present, end, length)


def _latest(present: Present, given: Walk) -> Present:
    """The present in which each group runs as long as it is expected to at the most, or until its enforced end."""

    def sooner(enforced: int, expected: Interval | None) -> int:
        return min(enforced or expected[1], expected[1]) if expected is not None else enforced

    return _with(
        present,
        lambda one: sooner(one.ends, given.ends.get(one.gang.uid)),
        lambda gang: sooner(gang.lasts, given.lengths.get(gang.uid)),
    )


def _with(present: Present, end: Callable[[Occupant], int], length: Callable[[Gang], int]) -> Present:
    occupants = tuple(structs.replace(one, ends=end(one)) for one in present.occupants)
    gangs = tuple(structs.replace(gang, lasts=length(gang)) for gang in present.view.gangs)
    return replace(present, occupants=occupants, view=replace(present.view, gangs=gangs))


def main() -> None:
    """Do the task on stdin."""
    bounded()
    sys.stdout.buffer.write(msgspec.json.encode(starts(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
