"""File descriptors of this process: how many it may have, and how many are not given to clients of the servers.

A new descriptor is always the lowest free number, so the number of an accepted socket says how many are in use at
least as exactly as counting them would.
"""

import contextlib
import resource
from typing import Final

SMALLEST: Final = 200
"""What a process needs to start: its own connections and files, and a few callers."""
_LEAST_KEPT: Final = 32
_MOST_KEPT: Final = 256
_SHARE_KEPT: Final = 4


class TooFewDescriptors(RuntimeError):
    """The process may not open enough files; `remedy` says which limit to raise."""

    def __init__(self, has: int, needed: int) -> None:
        self.message = f"this process may have {has} files open at the same time, and needs at least {needed}"
        self.remedy = (
            "Raise the limit of open files: `ulimit -n 1024` in the shell that starts it, LimitNOFILE= in a systemd"
            " unit, --ulimit nofile= of a container."
        )
        super().__init__(self.message)


def allowed() -> int:
    """How many descriptors this process may have open now."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def ensure(needed: int = SMALLEST) -> int:
    """Raise the soft limit to the hard one, and return it.

    Raises:
        TooFewDescriptors: the hard limit is below `needed`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems refuse what they name as their limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = allowed()
    if soft < needed and soft != resource.RLIM_INFINITY:
        raise TooFewDescriptors(soft, needed)
    return soft


def ceiling() -> int:
    """The descriptor number above which clients get none: the rest is for health checks, watches and the database."""
    soft = allowed()
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    return soft - min(_MOST_KEPT, max(_LEAST_KEPT, soft // _SHARE_KEPT))
