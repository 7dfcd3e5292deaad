"""Durations as queues write them: `3d12h`, `1h20m15s`, `0` (the grammar of Prometheus durations, integers only).

No length of time is longer than a hundred years: one that is written longer counts as that. Plans look less far: they
count nanoseconds in 64 bits, so what lasts longer than `FORESEEN` has no end for them, and no moment is later than
`FARTHEST`.
"""

import re
from datetime import timedelta
from typing import Final

DURATION_PATTERN: Final = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
_FIELDS: Final = re.compile(r"(\d+)(ms|[ywdhms])")
_LONGEST: Final = 100
"""Characters: whole numbers of thousands of digits take long to read."""
_SECOND: Final = 1_000_000_000
LONGEST_SECONDS: Final = 100 * 365 * 86_400
FORESEEN: Final = 20 * 365 * 86_400 * _SECOND
"""Twenty years, in nanoseconds."""
FARTHEST: Final = 4_500_000_000 * _SECOND
"""In the year 2112, in nanoseconds since the epoch."""
_MILLISECONDS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}


def parse_duration(text: str) -> timedelta | None:
    """The length of time, or None for no limit (`0` and the empty text). More than a hundred years count as that.

    Raises:
        ValueError: the text does not follow the grammar.
    """
    if len(text) > _LONGEST or not re.match(DURATION_PATTERN, text) or text.endswith("\n"):
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise ValueError(
            f"{shown!r} is not a duration: write whole numbers with the units y w d h m s ms in this order,"
            " each at most once, such as 3d12h or 2h45m"
        )
    total = sum(int(number) * _MILLISECONDS[unit] for number, unit in _FIELDS.findall(text))
    return timedelta(milliseconds=min(total, LONGEST_SECONDS * 1000)) if total else None
