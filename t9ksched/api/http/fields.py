"""Bodies of one field, and `uid` beside it: the job is to be changed only if it is still that one."""

from collections.abc import Mapping

from t9ksched.api.http.problems import Problem, invalid
from t9ksched.model.errors import FieldError, faulty


def whole_number(body: Mapping[str, object], field: str, most: int) -> int:
    """The whole number from 0 to `most` that a body gives under its only field beside `uid`.

    Raises:
        Problem: it has other fields, or no such number.
    """
    faults = unknown(body, field)
    number = body.get(field)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        faults.append(FieldError(field, f"{faulty(number, 'is out of range')}: use a whole number from 0 to {most}"))
    if faults:
        raise invalid(faults)
    assert isinstance(number, int)
    return number


def unknown(body: Mapping[str, object], field: str) -> list[FieldError]:
    """The faults of fields that are neither this one nor a `uid`."""
    faults = [FieldError(key, f"is unknown: the field is {field}") for key in body if key not in (field, "uid")]
    uid = body.get("uid")
    if uid is not None and not isinstance(uid, str):
        faults.append(FieldError("uid", faulty(uid, "is no UID")))
    return faults


def check_uid(body: Mapping[str, object], job: Mapping[str, object]) -> None:
    """Check that the job is the one that is to be changed.

    Raises:
        Problem: it is another of that name.
    """
    if body.get("uid") not in (None, job.get("uid"), job.get("rootUid")):
        text = f"{job.get('kind')}/{job.get('name')} is another job than the one that was looked at: it has the UID"
        raise Problem("PreconditionFailed", f"{text} {job.get('uid')}", remedy="look at it again")
