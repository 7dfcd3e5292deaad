"""A snapshot: the present of a live cluster in a file, and what policies would make of what waits there.

The file has the present and how long groups that wait are expected to run, by UID. They run as long as expected, others
as long as they may. What runs at that moment and has no end runs on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.plugins import Factory
from t9ksched.model.duration import FARTHEST, LONGEST_SECONDS
from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.resources import is_accelerator
from t9ksched.simulation.figures import Figures, figures
from t9ksched.simulation.job import Job, Run, nanoseconds, seconds
from t9ksched.simulation.outlook import Outlook, outlook
from t9ksched.simulation.policies import Contender
from t9ksched.simulation.present import Occupant, Present, read, written

VERSION: Final = 1
_AHEAD: Final = 10 * 365 * 86_400.0
"""How far is looked, in seconds; what has not started by then never does."""

_LONGEST: Final = 4_000_000_000 * 1_000_000_000
"""Nanoseconds of a length: longer than any limit, and short enough to be added to a moment."""


class Snapshot(msgspec.Struct, frozen=True):
    """The present, and the seconds that groups which wait are expected to run, by UID."""

    present: Present
    expected: Mapping[str, float] = msgspec.field(default_factory=dict)


class Played(msgspec.Struct, frozen=True):
    """What a policy would make of a snapshot. Times are seconds since the snapshot; what came before is negative.

    Attributes:
        runs: groups that waited and started, in the order of their creation.
        held: groups that ran already, until they end or until the last of the others has.
        never: how many start at no time.
        endless: how many start, and nobody knows for how long.
        preemptions: groups that were evicted, once for each group that they were evicted for.
    """

    runs: tuple[Run, ...]
    held: tuple[Run, ...]
    never: int
    endless: int
    preemptions: int


class _Form(msgspec.Struct):
    snapshot: int
    expected: dict[str, float]
    present: msgspec.Raw


def write(snapshot: Snapshot) -> Iterator[bytes]:
    """The JSON of a snapshot, in pieces."""
    yield b'{"snapshot":%d,"expected":%s,"present":' % (VERSION, msgspec.json.encode(dict(snapshot.expected)))
    yield from written(snapshot.present)
    yield b"}"


def load(text: bytes, installed: Callable[[], Mapping[str, Factory]]) -> Snapshot:
    """A snapshot from what `write` gave; `installed` gives the factories of installed plugins.

    Raises:
        Invalid: it is none, or of another version, or a plugin is not installed here.
    """
    try:
        form = msgspec.json.decode(text, type=_Form)
        if form.snapshot != VERSION:
            raise Invalid.at("snapshot", f"its version is {form.snapshot}: this is for version {VERSION}")
        found = Snapshot(read(form.present, installed), form.expected)
        if faults := list(_faults(found)):
            raise Invalid(faults)
        return found
    except Invalid:
        raise
    except msgspec.DecodeError as error:
        raise Invalid.at("jobs", f"it is no snapshot: {error}") from error
    except (KeyError, IndexError) as error:
        raise Invalid.at("jobs", f"it is no snapshot: it names {error}, which it does not have") from error
    except ValueError as error:
        raise Invalid.at("jobs", str(error)) from error


def _faults(snapshot: Snapshot) -> Iterator[FieldError]:
    """What could not be walked from: moments and lengths beyond the calendar, and what is there twice."""
    present = snapshot.present
    for uid, length in snapshot.expected.items():
        if not 0 < length <= LONGEST_SECONDS:
            text = f"{length!r} is out of range: use seconds, more than 0 and at most {LONGEST_SECONDS}"
            yield FieldError(child("expected", uid), text)
    times = [("present.at", present.at, FARTHEST), ("present.resumes", present.resumes, FARTHEST)]
    times += [(child("present.later", uid), at, FARTHEST) for uid, at in present.later.items()]
    for nth, one in enumerate(present.occupants):
        path = f"present.occupants[{nth}].occupant"
        times += [(f"{path}.started", one.started, FARTHEST), (f"{path}.ends", one.ends, FARTHEST + _LONGEST)]
        times.append((f"{path}.grace", one.grace, _LONGEST))
    for nth, gang in enumerate(present.view.gangs):
        path = f"present.view.gangs[{nth}].gang"
        times += [(f"{path}.created", gang.created, FARTHEST), (f"{path}.lasts", gang.lasts, _LONGEST)]
    for path, time, most in times:
        if not 0 <= time <= most:
            yield FieldError(path, f"{time} is out of range: use nanoseconds from 0 to {most}")
    for path, uids in (
        ("present.view.gangs", [gang.uid for gang in present.view.gangs]),
        ("present.occupants", [one.gang.uid for one in present.occupants]),
        ("present.occupants[].pods", [pod.uid for one in present.occupants for pod in one.pods]),
    ):
        if twice := next((uid for uid, count in Counter(uids).items() if count > 1), None):
            yield FieldError(path, f"{twice} is in it twice")


def play(snapshot: Snapshot, contender: Contender | None) -> Played:
    """Walk from the snapshot until all that starts has started; None is its own policy.

    Raises:
        Invalid: the policy chooses anew which jobs run: it is for traces alone.
    """
    present = _expecting(snapshot)
    if contender is not None:
        present = _under(present, contender)
    gangs = sorted((gang for gang in present.view.gangs if not gang.placed), key=lambda gang: (gang.created, gang.uid))
    found = outlook(present, present.at + nanoseconds(_AHEAD))
    runs, endless = [], 0
    for gang in gangs:
        start = found.starts.get(gang.uid)
        if start is not None and gang.lasts:
            runs.append(Run(_job(gang, present.at), seconds(start.at - present.at)))
        elif start is not None:
            endless += 1
    last = max((run.ended for run in runs), default=0.0)
    return Played(
        tuple(runs),
        tuple(_held(one, present.at, last, found) for one in present.occupants),
        never=len(gangs) - len(runs) - endless,
        endless=endless,
        preemptions=sum(len(victims) for victims in found.victims.values()),
    )


def sums(played: Played, capacity: int, counted: slice) -> Figures:
    """The figures of the groups at these positions; in use is counted from the snapshot on, `capacity` is in cards.

    Raises:
        ValueError: none is counted.
    """
    found = figures(played.runs, capacity, counted)
    last = max(run.ended for run in played.runs[counted])
    held = sum(run.ran(0.0, last) * run.job.cards for run in (*played.runs, *played.held))
    return replace(found, utilisation=held / (capacity * last) if capacity else 0.0, preemptions=played.preemptions)


def capacity(present: Present) -> int:
    """The accelerators of its nodes, of all resources."""
    static = present.view.nodes.static
    rows = [at for at, name in enumerate(static.resources) if is_accelerator(name)]
    return int(static.allocatable[rows].sum())


def _expecting(snapshot: Snapshot) -> Present:
    """The present, in which groups may run for as long as they are expected to."""
    present, expected = snapshot.present, snapshot.expected
    gangs = tuple(
        gang if gang.uid not in expected else structs.replace(gang, lasts=nanoseconds(expected[gang.uid]))
        for gang in present.view.gangs
    )
    return replace(present, view=replace(present.view, gangs=gangs))


def _under(present: Present, contender: Contender) -> Present:
    """The present under a named policy, which replaces the order of jobs and of each queue, and the planning."""
    if contender.remaining is not None:
        raise Invalid.at("policy", "srtf and srsf choose anew which jobs run: they are for traces, not for snapshots")
    view = present.view
    if contender.named:
        queues = {
            name: replace(state, spec=replace(state.spec, ordering=contender.ordering, starvation=None))
            for name, state in view.queues.items()
        }
        view = replace(view, queues=queues)
    if not contender.by_priority:
        view = replace(view, gangs=tuple(structs.replace(gang, priority=0) for gang in view.gangs))
    view = replace(view, reservations=tuple(one for one in view.reservations if not one.kind.planned))
    policy = contender.policy_for({gang.uid: _job(gang, present.at) for gang in view.gangs})
    return replace(present, view=view, policy=policy)


def _job(gang: Gang, at: int) -> Job:
    """The group as a job of a trace that begins at that moment."""
    return Job(
        name=gang.name,
        submitted=seconds(gang.created - at),
        runs=seconds(gang.lasts) if gang.lasts else _AHEAD,
        cards=_cards(member.pod_class for member in gang.waiting),
        user=gang.user,
        priority=gang.priority,
    )


def _held(one: Occupant, at: int, last: float, found: Outlook) -> Run:
    """A group that runs at the moment of the snapshot, until it ends, is evicted, or all others have ended."""
    ends = [last]
    if one.ends:
        ends.append(seconds(one.ends - at))
    if one.gang.uid in found.lost:
        ends.append(seconds(found.lost[one.gang.uid] - at))
    cards = _cards(pod.pod_class for pod in one.pods)
    return Run(Job(one.gang.name, 0.0, max(0.0, min(ends)), cards), 0.0)


def _cards(classes: Iterable[PodClass]) -> int:
    """How many accelerators these pods ask for together."""
    return sum(amount for of in classes for name, amount in of.requests if is_accelerator(name))
