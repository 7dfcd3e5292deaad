"""Durations in bodies: how long a token or a stop lasts."""

from datetime import datetime, timedelta
from typing import Final

from t9ksched.model.duration import LONGEST_SECONDS, parse_duration
from t9ksched.model.errors import FieldError, shown

NEVER: Final = "never"
"""What is written for no end: nothing else means it, so that no slip makes something last for ever."""


def lasting(value: object, path: str, now: datetime, default: timedelta, faults: list[FieldError]) -> datetime | None:
    """When something that lasts so long from now ends, `default` where nothing is said; None for `never`.

    Faults are added to the list.
    """
    if value is None:
        return now + default
    if value == NEVER:
        return None
    try:
        length = parse_duration(value) if isinstance(value, str) else None
        if length is not None and length.total_seconds() < LONGEST_SECONDS:
            return now + length
        text = f"{shown(value)} is no length of time: write one such as 12h or 30d, or {NEVER}"
        if length is not None:
            text = f"is a hundred years or more: write {NEVER} for no end"
    except ValueError as error:
        text = str(error)
    faults.append(FieldError(path, text))
    return None
