"""A rule's answer, and the stable codes it may carry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from t9ksched.model.errors import FieldError

INVALID_FIELD: Final = "InvalidField"
QUEUE_NOT_FOUND: Final = "QueueNotFound"
QUEUE_CLOSED: Final = "QueueClosed"
OVER_QUOTA: Final = "OverQuota"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, or refused with a code, a message, the faulty fields and a remedy."""

    allowed: bool
    code: str = ""
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    remedy: str = ""


ALLOWED: Final = Verdict(True)


def refuse(code: str, message: str, errors: Iterable[FieldError] = (), remedy: str = "") -> Verdict:
    """A refusal."""
    return Verdict(False, code, message, tuple(errors), remedy)


def invalid(errors: Iterable[FieldError], remedy: str = "") -> Verdict:
    """A refusal for faulty fields; its sentence sums them up."""
    found = tuple(errors)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return refuse(INVALID_FIELD, f"{found[0]}{more}", found, remedy)
