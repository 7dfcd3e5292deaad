"""The process that finds when waiting groups start if nothing else comes: a present on stdin, moments on stdout."""

import sys
import time
from collections.abc import Iterator

import msgspec

from t9ksched.model.cards import read_request
from t9ksched.scheduler.whatif.process import bounded, found_plugins
from t9ksched.simulation.outlook import outlook
from t9ksched.simulation.present import Present, read, written


class Walk(msgspec.Struct):
    """What to do: walk from the present to `until`, nanoseconds since the epoch, for so many seconds at most."""

    until: int
    seconds: float
    present: msgspec.Raw


def task(present: Present, until: int, seconds: float) -> Iterator[bytes]:
    """The JSON of a walk in pieces that take about a millisecond each."""
    yield b'{"until":%d,"seconds":%s,"present":' % (until, msgspec.json.encode(seconds))
    yield from written(present)
    yield b"}"


def starts(text: bytes) -> dict[str, int]:
    """When groups get their minimum, nanoseconds since the epoch, by UID. Those that the walk did not reach are not
    among them.

    Raises:
        msgspec.ValidationError: the text is no task.
        ValueError: the policy needs a plugin that is not installed.
    """
    given = msgspec.json.decode(text, type=Walk, dec_hook=read_request)
    ends = time.monotonic() + given.seconds
    present = read(given.present, found_plugins)
    found = outlook(present, given.until, lambda: time.monotonic() > ends)
    return {uid: start.at for uid, start in found.starts.items()}


def main() -> None:
    """Do the task on stdin."""
    bounded()
    sys.stdout.buffer.write(msgspec.json.encode(starts(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
