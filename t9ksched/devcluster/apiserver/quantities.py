"""The canonical text of a quantity, as a Kubernetes API stores it: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`.

A value keeps its family of suffixes (binary, decimal, exponent); within it the largest unit that needs no fraction is
taken. Smaller parts than a nano unit are rounded up.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from t9ksched.model import quantity

QuantityError = quantity.QuantityError

PATTERN_MESSAGE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BINARY: Final = re.compile(r".*[KMGTPE]i$")
_EXPONENT: Final = re.compile(r".*[eE][+-]?\d+$")
_BINARY_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_UNITS: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The canonical text.

    Raises:
        QuantityError: the text is no quantity.
    """
    if text != text.strip():
        raise QuantityError(PATTERN_MESSAGE)
    value = quantity.parse(text)
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    size = abs(value)
    if _BINARY.match(text) and size >= 1024 and size.denominator == 1:
        return sign + _binary(size.numerator)
    number, power = _decimal(size)
    if _EXPONENT.match(text):
        return f"{sign}{number}e{power}" if power else f"{sign}{number}"
    return f"{sign}{number}{_DECIMAL_UNITS[power]}"


def _binary(size: int) -> str:
    unit = 0
    while size % 1024 == 0 and unit + 1 < len(_BINARY_UNITS):
        size //= 1024
        unit += 1
    return f"{size}{_BINARY_UNITS[unit]}"


def _decimal(size: Fraction) -> tuple[int, int]:
    power = 0
    while size.denominator != 1 and power > -9:
        size *= 1000
        power -= 3
    number = -(-size.numerator // size.denominator)
    while number % 1000 == 0 and power < 18:
        number //= 1000
        power += 3
    return number, power
