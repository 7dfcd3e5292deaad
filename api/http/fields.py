"""Bodies of one field."""

from collections.abc import Mapping

from api.http.problems import invalid
from t9ksched.model.errors import FieldError, faulty


def whole_number(body: Mapping[str, object], field: str, most: int) -> int:
    """The whole number from 0 to `most` that a body gives under its only field.

    Raises:
        Problem: it has other fields, or no such number.
    """
    faults = [FieldError(key, f"is unknown: the field is {field}") for key in body if key != field]
    number = body.get(field)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        faults.append(FieldError(field, f"{faulty(number, 'is out of range')}: use a whole number from 0 to {most}"))
    if faults:
        raise invalid(faults)
    assert isinstance(number, int)
    return number
