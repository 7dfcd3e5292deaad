"""What a plain scalar of YAML means: as kubectl reads it, so that a file means the same to REST, the command line and
kubectl.

YAML 1.1 as go-yaml v2 has it: `yes`, `on` and `y` are true, `010` is eight, underscores in numbers are skipped. Times
and sexagesimal numbers stay text. A whole number that 64 bits do not hold is a float, as Go's JSON reads it.
"""

import base64
import binascii
import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_YAML: Final = "tag:yaml.org,2002:"
STR: Final = f"{_YAML}str"
_BINARY: Final = f"{_YAML}binary"
_TIMESTAMP: Final = f"{_YAML}timestamp"
_TYPED: Final[dict[str, tuple[type, ...]]] = {
    f"{_YAML}int": (int,),
    f"{_YAML}float": (int, float),
    f"{_YAML}bool": (bool,),
    f"{_YAML}null": (type(None),),
}
_WORDS: Final[dict[str, bool | float | None]] = {
    **{form: True for word in ("y", "yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "false", "off") for form in (word, word.capitalize(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((sign + word for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_WHOLE_NUMBERS: Final = (
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]([0-7]+)"), 8),
    (re.compile(r"([-+]?)(0[0-7]*)"), 8),
    (re.compile(r"([-+]?)([1-9][0-9]*)"), 10),
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?(([Tt]|[ \t]+)\d\d?:\d\d:\d\d(\.\d*)?([ \t]*(Z|[-+]\d\d?(:?\d\d)?))?)?")
_LONGEST: Final = 400
"""Characters of a number: no float needs more, and reading longer ones costs more than their length."""


def plain(text: str) -> Scalar:
    """The value of a scalar without quotes and tag.

    Raises:
        ValueError: it is a number that is too long, or not finite, which JSON does not have.
    """
    if text in _WORDS:
        value = _WORDS[text]
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("is not a finite number")
        return value
    if text[0] not in "+-.0123456789":
        return text
    if text[0] == ".":
        return _float(text, text)
    return _number(text)


def tagged(text: str, tag: str) -> Scalar:
    """The value of a scalar with an explicit tag; a tag of another program is as none for a text in quotes.

    Raises:
        ValueError: the text is not of the tag's type.
    """
    if tag == _BINARY:
        try:
            return base64.b64decode(text, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError("is not text in base64, as !!binary says") from None
    if tag == _TIMESTAMP:
        if _DATE.fullmatch(text):
            return text
        raise ValueError("is no time, as !!timestamp says")
    allowed = _TYPED.get(tag)
    if allowed is None:
        return text
    value = plain(text)
    if type(value) not in allowed:
        raise ValueError(f"is not a value that !!{tag.removeprefix(_YAML)} can have")
    return value


def _number(text: str) -> Scalar:
    digits = text.replace("_", "")
    for form, base in _WHOLE_NUMBERS:
        if found := form.fullmatch(digits):
            _bounded(digits)
            value = int(found[1] + found[2], base)
            return value if -(2**63) <= value < 2**63 else float(value)
    return _float(text, digits)


def _float(text: str, digits: str) -> Scalar:
    if not _FLOAT.fullmatch(digits):
        return text
    _bounded(digits)
    value = float(digits)
    return text if math.isinf(value) else _whole(value)


def _whole(value: float) -> Scalar:
    """The number as it is after it was written as JSON and read again: Go writes 3.0 as 3."""
    return int(value) if value.is_integer() and -(2**63) <= value < 2**63 else value


def _bounded(digits: str) -> None:
    if len(digits) > _LONGEST:
        raise ValueError(f"is a number of more than {_LONGEST} characters: put it in quotes if it is a text")
