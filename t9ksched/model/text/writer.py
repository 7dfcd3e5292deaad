"""YAML that is read back as it was, by us and by kubectl."""

from typing import Any, Final

import yaml

from t9ksched.model.text.scalars import plain

_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]
    """Puts texts into quotes that would be read as something else; PyYAML knows other rules than kubectl."""


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None if _is_plain(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    try:
        return plain(text) == text
    except ValueError:
        return False


_Dumper.add_representer(str, _text)


def write(value: Any, *, sort_keys: bool = False) -> str:
    """A document of JSON values as YAML in blocks."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=1000))
