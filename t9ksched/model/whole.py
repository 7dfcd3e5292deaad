"""Whole numbers in foreign text: annotations, labels, headers, versions."""

from typing import Final

_MOST_DIGITS: Final = 19


def whole_number(text: str) -> int | None:
    """The number that a text of 1 to 19 ASCII digits is, None for anything else.

    Python itself takes digits of other scripts, and fails on superscripts and on thousands of digits.
    """
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit() else None
