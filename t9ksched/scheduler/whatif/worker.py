"""The process that walks on virtual time: a task on stdin, what it found on stdout. It has no other input: no database,
no cluster, no settings, no secret.

Like all workers it gives way to other processes, and its memory and time are limited (`process.py`).
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from t9ksched.model.card_forms import read_request
from t9ksched.model.node import NodeFacts
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.whatif.process import bounded, found_plugins
from t9ksched.simulation.present import PolicyForm, Present, read, written
from t9ksched.simulation.whatif import Change, Effect, Found, what_if

T = TypeVar("T")
_TOGETHER: Final = 100


class ChangeForm(msgspec.Struct):
    """A change on paper, without what is submitted."""

    queues: dict[str, QueueSpec] = {}
    gone: tuple[str, ...] = ()
    added: tuple[NodeFacts, ...] = ()
    policy: PolicyForm | None = None
    later: dict[str, int] = {}
    turns: dict[str, tuple[str, int]] = {}


class Task(msgspec.Struct):
    """What to do.

    Attributes:
        newcomers: so many groups at the end of the view's are what is submitted.
        until: how far to walk, nanoseconds since the epoch.
        seconds: how long each of the two walks may take.
    """

    newcomers: int
    until: int
    seconds: float
    change: ChangeForm
    present: msgspec.Raw


class Told(msgspec.Struct):
    """What was found, by UID; of groups and pods that are submitted alone, but for `others`.

    Attributes:
        error: why nothing was found; empty if something was.
        starts: when groups get their minimum, nanoseconds since the epoch, and `planned` on which nodes.
        pods: when and where pods get their places.
    """

    error: str = ""
    until: int = 0
    complete: bool = True
    starts: dict[str, int] = {}
    planned: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, tuple[Reason, ...]] = {}
    victims: dict[str, dict[str, int]] = {}
    pods: dict[str, tuple[int, str]] = {}
    others: tuple[Effect, ...] = ()


def task(present: Present, newcomers: int, change: Change, until: int, seconds: float) -> Iterator[bytes]:
    """The JSON of a task in pieces that take about a millisecond each."""
    encode = msgspec.json.encode
    policy = PolicyForm.of(change.policy) if change.policy is not None else None
    yield b'{"newcomers":%d,"until":%d,"seconds":%s,"change":{' % (newcomers, until, encode(seconds))
    parts = (encode(change.queues), encode(change.gone), encode(policy), encode(change.later), encode(change.turns))
    yield b'"queues":%s,"gone":%s,"policy":%s,"later":%s,"turns":%s,"added":[' % parts
    for first in range(0, len(change.added), _TOGETHER):
        yield (b"," if first else b"") + encode(change.added[first : first + _TOGETHER])[1:-1]
    yield b']},"present":'
    yield from written(present)
    yield b"}"


def answer(text: bytes) -> Told:
    """What the task asks for.

    Raises:
        msgspec.ValidationError: the text is no task.
    """
    given = msgspec.json.decode(text, type=Task, dec_hook=read_request)
    form = given.change
    try:
        present = read(given.present, found_plugins)
        policy = form.policy.read(found_plugins) if form.policy is not None else None
    except msgspec.ValidationError:
        raise
    except ValueError as error:
        return Told(error=f"the policy cannot be followed: {error}")
    gangs = present.view.gangs
    first = len(gangs) - given.newcomers
    present = replace(present, view=replace(present.view, gangs=gangs[:first]))
    change = Change(gangs[first:], form.queues, form.gone, form.added, policy, form.later, form.turns)
    return _told(what_if(present, change, given.until, lambda: _limit(given.seconds)), change)


def _limit(seconds: float) -> Callable[[], bool]:
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() > ends


def _told(found: Found, change: Change) -> Told:
    walk = found.outlook
    uids = [gang.uid for gang in change.gangs]
    pods = [member.uid for gang in change.gangs for member in gang.waiting]
    return Told(
        until=walk.until,
        complete=walk.complete,
        starts={uid: start.at for uid, start in _of(walk.starts, uids).items()},
        planned={uid: start.nodes for uid, start in _of(walk.starts, uids).items()},
        reasons=_of(walk.reasons, uids),
        victims=_of(walk.victims, uids),
        pods=_of(walk.pods, pods),
        others=found.others,
    )


def _of(found: Mapping[str, T], uids: Iterable[str]) -> dict[str, T]:
    return {uid: found[uid] for uid in uids if uid in found}


def main() -> None:
    """Do the task on stdin."""
    bounded()
    told = answer(sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main()
