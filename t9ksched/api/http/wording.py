"""Faults of query parameters and paths as sentences: which value, what is wrong with it, what may stand there."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from t9ksched.model.errors import FieldError

_Context = Mapping[str, Any]
_TIME: Final = "is no time: write it such as 2031-05-01T00:00:00Z"
_WORDS: Final[dict[str, Callable[[_Context], str]]] = {
    "missing": lambda _: "is missing",
    "int_parsing": lambda _: "is no whole number",
    "int_from_float": lambda _: "is no whole number",
    "int_parsing_size": lambda _: "is too large a number",
    "bool_parsing": lambda _: "is neither true nor false",
    "greater_than_equal": lambda said: f"is less than {said['ge']}",
    "less_than_equal": lambda said: f"is more than {said['le']}",
    "less_than": lambda said: f"is not less than {said['lt']}",
    "string_too_short": lambda _: "is too short",
    "string_too_long": lambda said: f"is longer than {said['max_length']} characters",
    "literal_error": lambda said: f"is none of {str(said['expected']).replace(chr(39), '')}",
    "datetime_parsing": lambda _: _TIME,
    "datetime_from_date_parsing": lambda _: _TIME,
}


def in_words(fault: Mapping[str, Any]) -> FieldError:
    """One fault that validation found, as users read it. The place of an item of a list is that of the list."""
    place = ".".join(str(part) for part in fault["loc"] if not isinstance(part, int))
    words = _WORDS.get(str(fault["type"]))
    if words is None:
        return FieldError(place, str(fault["msg"]))
    text, value = words(fault.get("ctx") or {}), fault.get("input")
    if fault["type"] == "missing" or not isinstance(value, str) or len(value) > 100:
        return FieldError(place, text)
    return FieldError(place, f"{value!r} {text}")
