"""Kubernetes quantities as whole numbers.

CPU is counted in millicores, memory and storage in bytes, `cards` in parts of a card (`CARD`), everything else in its
own unit; a fraction of a unit is rounded up, as Kubernetes does for requests. Arithmetic is exact: no quantity ever
passes through a float. As in Kubernetes, what is written with a binary unit or with more than 18 digits counts as
2^63-1 at most.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from t9ksched.model.errors import shown

_PATTERN: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_BINARY: Final = {f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
}
_SUFFIXES: Final = _DECIMAL | _BINARY
_MOST: Final = Fraction(2**63 - 1)
CARDS: Final = "cards"
"""What quotas call physical cards, parts of them included: not what pods ask for, but what it is of a card."""
CARD: Final = 1_008_000
"""Parts of a card that are counted: thousandths, sevenths and eighths (MIG) and most time slices are whole numbers."""
_FEW_DIGITS: Final = 18
_MOST_DIGITS: Final = 64
"""Before the point or after it. More before it are beyond `_MOST`; those after it are below any unit."""
_BEYOND: Final = Fraction(10) ** 1100
"""More than `_MOST` whatever the exponent, which has three digits at the most."""
_BYTES: Final = frozenset({"memory", "ephemeral-storage", "storage"})
_SCALES: Final = {"cpu": 1000, CARDS: CARD}
_THOUSANDTH: Final = CARD // 1000


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity."""


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Fraction:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(
            f"{_shown(text)} is not a quantity: write a number with an optional unit, such as 4, 500m, 1.5, 16Gi or 1e3"
        )
    number, suffix, exponent = match.groups()
    scale = _SUFFIXES[suffix or ""] if exponent is None else Fraction(10) ** int(exponent)
    value = _number(number) * scale
    if len(number) <= _FEW_DIGITS and suffix not in _BINARY:
        return value
    return max(-_MOST, min(_MOST, value))


def _number(text: str) -> Fraction:
    """A decimal number. Python reads no more than some thousands of digits, and slowly."""
    whole, _, part = text.lstrip("+-").partition(".")
    whole = whole.lstrip("0")
    value = _BEYOND if len(whole) > _MOST_DIGITS else Fraction(int(whole or "0"))
    if part := part.rstrip("0"):
        kept = part[:_MOST_DIGITS]
        value += Fraction(int(kept) + (len(part) > len(kept)), 10 ** len(kept))
    return -value if text.startswith("-") else value


def _shown(value: object) -> str:
    text = shown(value)
    return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"


def parse(value: object) -> Fraction:
    """The exact value of a quantity given as text or as a JSON number.

    Raises:
        QuantityError: it is neither.
    """
    if isinstance(value, str):
        return _parse_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"{_shown(value)} is not a quantity: write a number or a text such as 500m or 16Gi")
    if isinstance(value, int):
        return max(-_MOST, min(_MOST, Fraction(value)))
    return _parse_text(repr(value))


@lru_cache(maxsize=8192)
def _text_to_units(scale: int, text: str) -> int:
    scaled = _parse_text(text) * scale
    return -((-scaled.numerator) // scaled.denominator)


def to_units(resource: str, value: object) -> int:
    """A quantity in the units we count in, rounded up: millicores for `cpu`, parts of a card for `cards`, else whole
    units (bytes, pods).

    Raises:
        QuantityError: the value is no quantity.
    """
    if isinstance(value, str):
        return _text_to_units(_SCALES.get(resource, 1), value.strip())
    scaled = parse(value) * _SCALES.get(resource, 1)
    return -((-scaled.numerator) // scaled.denominator)


def from_units(resource: str, units: int) -> str:
    """The canonical text: `1500m` or `2` for cpu, a decimal with three places at the most for `cards`, the largest
    binary unit that divides for bytes, else the number.
    """
    if resource == "cpu":
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if resource == CARDS:
        cards, rest = divmod(_thousandths(units), 1000)
        return f"{cards}.{rest:03}".rstrip("0") if rest else str(cards)
    if (resource in _BYTES or resource.startswith("hugepages-")) and units:
        for suffix in reversed(list(_BINARY)):
            size = int(_BINARY[suffix])
            if units % size == 0:
                return f"{units // size}{suffix}"
    return str(units)


def as_cards(units: int) -> float:
    """Parts of a card as a number of cards, rounded to thousandths; what JSON has."""
    return _thousandths(units) / 1000


def _thousandths(units: int) -> int:
    return (2 * units + _THOUSANDTH) // (2 * _THOUSANDTH)


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one (`nvidia.com/gpu`): counted in whole units, request equal to limit."""
    return "/" in resource and not resource.startswith("kubernetes.io/")
