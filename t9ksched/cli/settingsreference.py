"""Writes `docs/reference/settings.md` from the settings themselves; a test keeps the two equal."""

import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from t9ksched.engine.kernel.native import SWITCH
from t9ksched.settings import PREFIX, Settings

_OTHERS: Final = (
    (
        "SERVER",
        "address",
        "",
        "Where client commands find the service; by default `client.json` of the data directory says.",
    ),
    (
        "TOKEN",
        "secret",
        "",
        "The token of client commands; by default that of `client.json`, shown to its own server alone.",
    ),
    (
        "LANG",
        "`zh` or another",
        "",
        "The language of what commands print for people: Chinese or English. Without it LC_ALL, LC_MESSAGES and LANG "
        "say. JSON, logs and REST are the same in both.",
    ),
    ("OBSERVE", "0 or 1", "0", "`up` plans and explains, and writes nothing to the cluster."),
    (
        SWITCH.removeprefix(PREFIX),
        "0 or 1",
        "1",
        "With 0 plans do not run on the native kernel, installed or not (`t9ksched doctor` says): they are the same, "
        "and take longer. It holds for every process that plans.",
    ),
)
"""Variables that are no settings of a service: options of commands, and what the engine reads."""

HEAD: Final = """# Settings

Written by `make reference` from the settings themselves. Every setting is a variable of the environment; an option of a
[command](cli.md) wins over its variable. A value that cannot be used ends the start with a message that names it.

| Variable | Value | Default | Meaning |
| --- | --- | --- | --- |
"""


def settings_reference() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in sorted(_rows()))


def meanings() -> dict[str, str]:
    """What the text under each setting says."""
    body = ast.parse(inspect.getsource(Settings)).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def _rows() -> Iterator[tuple[str, str, str, str]]:
    said = meanings()
    for name, field in Settings.model_fields.items():
        usual = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        default = "" if usual in (None, "") else f"`{usual}`"
        yield f"`{PREFIX}{name.upper()}`", _value(field), default, said[name]
    for name, value, default, meaning in _OTHERS:
        yield f"`{PREFIX}{name}`", value, f"`{default}`" if default else "", meaning


def _value(field: FieldInfo) -> str:
    kinds: list[Any] = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{value}`" for value in kinds)
    if get_origin(field.annotation) is tuple:
        return "list"
    kind = kinds[0] if kinds else field.annotation
    return {"Path": "path", "int": "number", SecretStr.__name__: "secret"}.get(getattr(kind, "__name__", ""), "text")


if __name__ == "__main__":
    sys.stdout.write(settings_reference())
