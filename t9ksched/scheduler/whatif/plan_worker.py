"""The process that plans the starts of a present once: a present on stdin, moments on stdout.

It has no other input. Like all workers it gives way to other processes, and its memory and time are limited
(`process.py`).
"""

import sys
from typing import Final

import msgspec

from t9ksched.scheduler.whatif.process import bounded, found_plugins
from t9ksched.simulation.outlook import outlook
from t9ksched.simulation.present import read

_FAR: Final = 1 << 62


def starts(text: bytes) -> dict[str, int]:
    """When groups start that start now or get a planned start, nanoseconds since the epoch, by UID; `text` is what
    `written` gave.

    Raises:
        msgspec.ValidationError: the text is no present.
        ValueError: the policy needs a plugin that is not installed.
    """
    found = outlook(read(text, found_plugins), _FAR, lambda: True)
    return {uid: start.at for uid, start in found.starts.items()}


def main() -> None:
    """Plan what is on stdin."""
    bounded()
    sys.stdout.buffer.write(msgspec.json.encode(starts(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
