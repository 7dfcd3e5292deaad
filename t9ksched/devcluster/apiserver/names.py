"""The rules for names, label keys and label values; each function returns what is wrong, or an empty text."""

import re
from functools import lru_cache
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_KEY_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _by_pattern(text: str, pattern: re.Pattern[str], *examples: str) -> str:
    """A fault with examples and the pattern, spaced as a server spaces them."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern.pattern}')"


@lru_cache(maxsize=4096)
def label_fault(name: str) -> str:
    """An RFC 1123 label: names of namespaces and containers."""
    if len(name) > 63:
        return _too_long(63)
    if not _LABEL.fullmatch(name):
        text = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
            " end with an alphanumeric character"
        )
        return _by_pattern(text, _LABEL, "my-name", "123-abc")
    return ""


@lru_cache(maxsize=8192)
def subdomain_fault(name: str) -> str:
    """An RFC 1123 subdomain: names of most objects."""
    if len(name) > 253:
        return _too_long(253)
    if not _SUBDOMAIN.fullmatch(name):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
            " start and end with an alphanumeric character"
        )
        return _by_pattern(text, _SUBDOMAIN, "example.com")
    return ""


@lru_cache(maxsize=1024)
def service_fault(name: str) -> str:
    """An RFC 1035 label: names of services."""
    if len(name) > 63:
        return _too_long(63)
    if not _SERVICE.fullmatch(name):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character"
        )
        return _by_pattern(text, _SERVICE, "my-name", "abc-123")
    return ""


@lru_cache(maxsize=1024)
def path_fault(name: str) -> str:
    """A name that only has to be a path segment: roles and their bindings."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return "may not contain '/' or '%'" if "/" in name or "%" in name else ""


@lru_cache(maxsize=8192)
def label_value_fault(value: str) -> str:
    """A label's value."""
    if len(value) > 63:
        return _too_long(63)
    if not _VALUE.fullmatch(value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
            " start and end with an alphanumeric character"
        )
        return _by_pattern(text, _VALUE, "MyValue", "my_value", "12345")
    return ""


@lru_cache(maxsize=8192)
def label_key_fault(key: str) -> str:
    """A qualified name: the key of a label or annotation, the name of a resource or finalizer."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (fault := subdomain_fault(prefix)):
        return f"prefix part {fault}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return f"name part {_too_long(63)}"
    if not _KEY_NAME.fullmatch(name):
        text = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character"
        )
        return _by_pattern(text, _KEY_NAME, "MyName", "my.name", "123-abc")
    return ""


CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
"""Keys of config maps and secrets."""
