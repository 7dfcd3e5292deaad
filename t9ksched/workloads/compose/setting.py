"""Changes of single fields as `PATH=VALUE`, in the grammar of Helm's `--set`.

Several stand in one text with commas between them. A path is keys with dots between them and indices in brackets, as
`spec.replicaSpecs[0].replicas=4`. A key with dots or slashes stands in brackets, `metadata.labels[example.com/team]`,
or has a backslash before each dot; a backslash before a comma or a brace makes it part of a value. `{a,b}` is a list,
`null` removes the field, whole numbers, `true` and `false` are what they say, and everything else is text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.errors import FieldError, Invalid, child, shown

Key = str | int
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Setting:
    """One change: the keys and indices that lead to a field, and what stands there then; None removes it."""

    path: tuple[Key, ...]
    value: Any

    def __str__(self) -> str:
        text = ""
        for key in self.path:
            text = f"{text}[{key}]" if isinstance(key, int) else child(text, key)
        return text


def read_settings(texts: Iterable[str], *, option: str = "set", as_text: bool = False) -> list[Setting]:
    """The changes that texts ask for, in their order; with `as_text` every value is text.

    Raises:
        Invalid: a text is written otherwise; its path is `option`.
    """
    found: list[Setting] = []
    faults: list[FieldError] = []
    for text in texts:
        for part in _split(text, ","):
            path, equals, value = _cut(part)
            if not equals:
                faults.append(FieldError(option, f"{part!r} changes nothing: write PATH=VALUE"))
                continue
            try:
                found.append(Setting(tuple(_keys(path)), _value(value, as_text=as_text)))
            except ValueError as error:
                faults.append(FieldError(option, f"{path!r} is no path: {error}"))
    if faults:
        raise Invalid(faults)
    return found


def change(obj: dict[str, Any], settings: Iterable[Setting], option: str = "set") -> None:
    """Make the changes in an object. What is missing on the way is made; a list may grow by one at its end.

    Raises:
        Invalid: the object has something else on the way; its path is `option`.
    """
    faults = []
    for setting in settings:
        try:
            _put(obj, setting)
        except ValueError as error:
            faults.append(FieldError(option, f"{setting} cannot be set: {error}"))
    if faults:
        raise Invalid(faults)


def _put(obj: dict[str, Any], setting: Setting) -> None:
    place: Any = obj
    for at, key in enumerate(setting.path):
        _fits(place, key, setting.path[:at])
        last = at == len(setting.path) - 1
        if isinstance(key, int) and key == len(place):
            if last and setting.value is None:
                return
            place.append(None)
        if last:
            if setting.value is None:
                _remove(place, key)
            else:
                place[key] = setting.value
            return
        below = place[key] if isinstance(key, int) else place.get(key)
        if below is None:
            below = place[key] = [] if isinstance(setting.path[at + 1], int) else {}
        place = below


def _remove(place: Any, key: Key) -> None:
    if isinstance(place, dict):
        place.pop(key, None)
    else:
        del place[key]


def _fits(place: Any, key: Key, before: tuple[Key, ...]) -> None:
    where = str(Setting(before, None)) or "the object"
    if isinstance(key, str):
        if not isinstance(place, dict):
            raise ValueError(f"{where} is {shown(place)}, which has no field {key}")
    elif not isinstance(place, list):
        raise ValueError(f"{where} is {shown(place)} and no list")
    elif key > len(place):
        items = "1 item" if len(place) == 1 else f"{len(place)} items"
        raise ValueError(f"{where} has {items}, counted from 0")


def _split(text: str, at: str) -> Iterator[str]:
    """The parts between unescaped characters `at` outside brackets and braces."""
    depth, begin, escaped = 0, 0, False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth = max(0, depth - 1)
        elif character == at and not depth:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _cut(part: str) -> tuple[str, str, str]:
    """What stands before and behind the first `=` that is no part of a path."""
    path = next(_split(part, "="))
    return path, part[len(path) : len(path) + 1], part[len(path) + 1 :]


def _keys(path: str) -> Iterator[Key]:
    for segment in _split(path, "."):
        name, *indices = re.split(r"(?<!\\)\[", segment)
        if name:
            yield _plain(name)
        elif not indices:
            raise ValueError("a key is empty")
        for index in indices:
            if not index.endswith("]") or len(index) < 2:
                raise ValueError(f"[{index} has no end")
            inner = index[:-1]
            yield int(inner) if inner.isascii() and inner.isdigit() else inner


def _value(text: str, *, as_text: bool) -> Any:
    if text.startswith("{") and text.endswith("}"):
        inner = text[1:-1]
        return [_scalar(one, as_text=as_text) for one in _split(inner, ",")] if inner else []
    return _scalar(text, as_text=as_text)


def _scalar(text: str, *, as_text: bool) -> Any:
    if not as_text:
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            return int(text)
    return _plain(text)


def _plain(text: str) -> str:
    """The text without its escaping backslashes."""
    return re.sub(r"\\(.)", r"\1", text)
