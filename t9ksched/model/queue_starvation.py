"""When gangs of a queue collect the room that comes free, where the queue says so itself.

Written as `{after: 30m, maxHeldShare: 20%}`, like the policy's own; either may be left out. A time of 0 means never.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, Invalid, child, shown
from t9ksched.model.whole import whole_number

_FIELDS: Final = ("after", "maxHeldShare")
_LONGEST: Final = timedelta(days=3650)


class QueueStarvation(msgspec.Struct, frozen=True):
    """What a queue says; None leaves it to the policy.

    Attributes:
        after_seconds: how long a gang waits before it collects; 0 for never.
        most_held_percent: how much of what the queue may use its gangs hold so, besides the oldest of them.
    """

    after_seconds: int | None = None
    most_held_percent: int | None = None


def parse_share(text: str) -> int:
    """The percentage that a text such as `20%` says, 0 to 100.

    Raises:
        ValueError: it says none.
    """
    number = whole_number(text.removesuffix("%"))
    if number is None or number > 100 or not text.endswith("%"):
        raise ValueError(f"{text!r} is no share: write a whole number from 0 to 100 with a percent sign, such as 20%")
    return number


def parse_starvation(raw: object, path: str) -> QueueStarvation | None:
    """A queue's own values; None where it says nothing.

    Raises:
        Invalid: naming every faulty field below `path`.
    """
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be written as {after: 30m, maxHeldShare: 20%}")
    faults = [
        FieldError(child(path, str(key)), f"is unknown: the fields are {', '.join(_FIELDS)}")
        for key in raw
        if key not in _FIELDS
    ]
    after: int | None = None
    share: int | None = None
    for key in _FIELDS:
        value = raw.get(key)
        if value is None:
            continue
        try:
            if not isinstance(value, str) or not value:
                example = '"30m", or "0" for never' if key == "after" else '"20%"'
                raise ValueError(f"must be a text such as {example}, not {shown(value)}")
            if key == "maxHeldShare":
                share = parse_share(value)
            else:
                length = parse_duration(value)
                if length is not None and length > _LONGEST:
                    raise ValueError(f"{value!r} is longer than ten years")
                # In whole seconds, rounded up, because 0 means never.
                after = math.ceil(length.total_seconds()) if length else 0
        except ValueError as error:
            faults.append(FieldError(child(path, key), str(error)))
    if faults:
        raise Invalid(faults)
    return None if after is None and share is None else QueueStarvation(after, share)
