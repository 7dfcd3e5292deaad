"""Ranks of a job as people write them: `0`, `0,2` or `0,4-7`."""

import re
from typing import Final

from t9ksched.cli.failure import BAD_USAGE, Failure

_PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_MOST: Final = 100_000


def read_ranks(text: str) -> list[int]:
    """The ranks in order. Raises Failure (bad usage) for anything else."""
    found: dict[int, None] = {}
    for part in text.split(","):
        read = _PART.fullmatch(part.strip())
        if read is None:
            raise _fault(text, f"{part.strip()!r} is no rank")
        first = int(read[1])
        last = int(read[2] or first)
        if last < first:
            raise _fault(text, f"{part.strip()!r} ends before it begins")
        if last - first >= _MOST:
            raise _fault(text, f"{part.strip()!r} are too many")
        found |= dict.fromkeys(range(first, last + 1))
    return sorted(found)


def _fault(text: str, what: str) -> Failure:
    return Failure(f"--rank {text}: {what}.", remedy="Write it as 0 or 0,4-7.", code=BAD_USAGE)
