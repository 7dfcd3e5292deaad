"""Names of objects, as Kubernetes checks them."""

import re
from typing import Final

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_IS_LABEL: Final = re.compile(_LABEL)
_IS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_label(text: str) -> bool:
    """Whether a text is a DNS label, as namespaces are named: at most 63 of `a-z`, `0-9` and `-`."""
    return len(text) <= 63 and _IS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is DNS labels joined by dots, as most objects are named: at most 253 characters."""
    return len(text) <= 253 and _IS_SUBDOMAIN.fullmatch(text) is not None
