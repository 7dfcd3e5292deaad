"""Durations in bodies: how long a token or a stop lasts."""

from datetime import datetime

from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError


def lasting(value: object, path: str, now: datetime, faults: list[FieldError]) -> datetime | None:
    """When something that lasts so long from now ends; None for no end. Faults are added to the list."""
    if value is None:
        return None
    try:
        length = parse_duration(str(value))
        return None if length is None else now + length
    except (ValueError, OverflowError) as error:
        text = "is longer than the calendar" if isinstance(error, OverflowError) else str(error)
        faults.append(FieldError(path, text))
        return None
