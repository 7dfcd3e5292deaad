"""Reads what a user gives in place of the chart's default values: files, then single ones (`--set`), the last one wins.

Mappings are merged, lists replaced, and null takes a name out of a mapping, as Helm does it. Where a value is a text,
whatever is typed is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml

from t9ksched.admission.oddities import nearest
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.manifests.values import FORMS, Namespace, Section, Values
from t9ksched.cli.textfiles import read_text
from t9ksched.model.errors import Invalid
from t9ksched.workloads.compose.setting import Setting, change, read_settings

_EXAMPLE: Final = "Write it like --set scheduler.replicas=3"


def given(files: Sequence[Path], assignments: Sequence[str], texts: Sequence[str] = ()) -> Values:
    """The values of an installation that makes its namespace, unless it is told not to.

    Values of `texts` are texts, whatever they look like.

    Raises:
        Failure: one of them cannot be used; it says which, and where it was given.
    """
    values = Values(namespace=Namespace(create=True))
    document = msgspec.to_builtins(values)
    for path in files:
        document = _merged(document, _file(path))
        values = _converted(document, str(path))
    options = [("set", one) for one in assignments] + [("set-string", one) for one in texts]
    for option, text in options:
        where = f"--{option} {text}"
        try:
            for setting in _settings(text, option, where):
                change(document, [setting], option)
        except Invalid as error:
            raise Failure(f"--{error.errors[0]}", remedy=_EXAMPLE, code=BAD_USAGE) from None
        values = _converted(document, where)
    return values


def paths() -> list[str]:
    """The name of each value, and of each group of them."""
    return list(_paths(Values, ""))


def _file(path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise Failure(f"{path} is not YAML: {' '.join(str(error).split())}", code=BAD_USAGE) from None
    read = {} if read is None else read
    if not isinstance(read, dict):
        raise Failure(
            f"{path} has no mapping of values.",
            remedy="t9ksched manifests --show-values prints one with all of them.",
            code=BAD_USAGE,
        )
    _check_names(read, Values, (), str(path))
    return read


def _settings(text: str, option: str, where: str) -> Iterator[Setting]:
    """What one option asks for; names that there are not are refused."""
    plain = read_settings([text], option=option, as_text=True)
    for setting, as_text in zip(read_settings([text], option=option), plain, strict=True):
        kind = _kind_at(setting.path, where)
        is_text = option == "set-string" or kind is str or get_origin(kind) is Literal
        yield as_text if is_text and setting.value is not None else setting


def _kind_at(path: tuple[Any, ...], where: str) -> Any:
    """The type of what stands at a path."""
    kind: Any = Values
    for at, key in enumerate(path):
        kind = _inside(kind, key, path[: at + 1], where)
    return kind


def _inside(kind: Any, key: Any, path: tuple[Any, ...], where: str) -> Any:
    """The type of what stands under a key in a value of that type."""
    if isinstance(kind, type) and issubclass(kind, Section):
        fields = _fields(kind)
        if key in fields:
            return fields[key]
        name = str(Setting(path, None))
        near = nearest(name, paths())
        remedy = f"Did you mean {near}?" if near else "t9ksched manifests --show-values prints all of them."
        raise Failure(f"{where}: there is no value {name}.", remedy=remedy, code=BAD_USAGE)
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    return get_args(kind)[0] if get_origin(kind) in (list, tuple) else Any


def _check_names(document: Mapping[Any, Any], kind: type[Section], above: tuple[Any, ...], where: str) -> None:
    for name, value in document.items():
        path = (*above, str(name))
        inner = _inside(kind, name, path, where)
        if isinstance(value, Mapping) and isinstance(inner, type) and issubclass(inner, Section):
            _check_names(value, inner, path, where)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for name, value in above.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(found.get(name), Mapping):
            found[name] = _merged(found[name], value)
        else:
            found[name] = value
    return found


def _converted(document: dict[str, Any], where: str) -> Values:
    try:
        return msgspec.convert(document, Values)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at ")
        name = path.rpartition("$.")[2].strip("`")
        if form := next((words for pattern, words in FORMS.items() if repr(pattern) in said), ""):
            raise Failure(f"{where}: {name}: it must be {form}.", code=BAD_USAGE) from None
        (setting,) = read_settings([f"{name}="])
        kind = _kind_at(setting.path, where)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        remedy = f"It is one of {', '.join(choices)}." if choices else ""
        raise Failure(f"{where}: {name}: {said.replace('`', '')}.", remedy=remedy, code=BAD_USAGE) from None


@cache
def _fields(kind: type[Section]) -> dict[str, Any]:
    """The type of each field by its name in YAML."""
    hints = get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return {shown: hints[name] for name, shown in names}


def _paths(kind: type[Section], above: str) -> Iterator[str]:
    for name, inner in _fields(kind).items():
        yield f"{above}{name}"
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _paths(inner, f"{above}{name}.")
