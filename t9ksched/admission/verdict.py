"""A rule's answer, and the stable codes it may carry.

REST makes a problem of a verdict, the scheduler a reason, with the same message and remedy. Where users know the code
by another name, that stands in a table: `PUBLISHED` of `t9ksched/api/http/problems.py`, and `CODES` of
`t9ksched/scheduler/state/refusals.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from t9ksched.model.errors import FieldError

INVALID_FIELD: Final = "InvalidField"
UNSUPPORTED_CLAIM: Final = "UnsupportedClaim"
"""A pod asks for something that this version does not place, such as devices by resource claims."""
QUEUE_NOT_FOUND: Final = "QueueNotFound"
QUEUE_CLOSED: Final = "QueueClosed"
QUEUE_NOT_PERMITTED: Final = "QueueNotPermitted"
SUBMITTER_UNKNOWN: Final = "SubmitterUnknown"
PRIORITY_ABOVE_MAXIMUM: Final = "PriorityAboveMaximum"
FORBIDDEN: Final = "Forbidden"
OVER_QUOTA: Final = "OverQuota"
RATE_LIMITED: Final = "RateLimited"

FIELD_CODES: Final = frozenset({INVALID_FIELD, UNSUPPORTED_CLAIM})
"""Codes of refusals for what fields say: those of all rules are reported together."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, or refused with a code, a message, the faulty fields and a remedy.

    Attributes:
        needs, has: the amounts that were compared, by resource in units; empty where the rule compares none.
    """

    allowed: bool
    code: str = ""
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    remedy: str = ""
    needs: Mapping[str, int] = field(default_factory=dict)
    has: Mapping[str, int] = field(default_factory=dict)


ALLOWED: Final = Verdict(True)


def refuse(code: str, message: str, errors: Iterable[FieldError] = (), remedy: str = "") -> Verdict:
    """A refusal."""
    return Verdict(False, code, message, tuple(errors), remedy)


def invalid(errors: Iterable[FieldError], remedy: str = "", code: str = INVALID_FIELD) -> Verdict:
    """A refusal for faulty fields; its sentence sums them up."""
    found = tuple(errors)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return refuse(code, f"{found[0]}{more}", found, remedy)
