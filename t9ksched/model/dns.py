"""Names of objects, as Kubernetes checks them."""

import re
from typing import Final

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_IS_LABEL: Final = re.compile(_LABEL)
_IS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_ENDINGS: Final = "bcdfghjkmnpqrstvwxz2456789"
"""Without vowels, so that no words come out, and without what looks alike."""
_ENDING_LENGTH: Final = 5
_LONGEST_BEGINNING: Final = 63 - _ENDING_LENGTH


def is_label(text: str) -> bool:
    """Whether a text is a DNS label, as namespaces are named: at most 63 of `a-z`, `0-9` and `-`."""
    return len(text) <= 63 and _IS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is DNS labels joined by dots, as most objects are named: at most 253 characters."""
    return len(text) <= 253 and _IS_SUBDOMAIN.fullmatch(text) is not None


def ended(beginning: str, number: int) -> str:
    """A name as `generateName` makes it: the beginning, cut so that a label comes out, and five characters which the
    number decides.
    """
    ending = ""
    for _ in range(_ENDING_LENGTH):
        number, place = divmod(number, len(_ENDINGS))
        ending += _ENDINGS[place]
    return f"{beginning[:_LONGEST_BEGINNING]}{ending}"
