"""Writes `docs/reference/cli.md` from the commands themselves; a test keeps the two equal."""

import inspect
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Union, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from t9ksched.cli.examples import shown as examples_of

HEAD = """# Command reference

Written by `make reference` from the commands themselves. Exit codes: 0 done, 1 the request failed, 2 bad usage.
`--server`, `--token` and `--data-dir` say which service a command speaks to; without them it is the one whose
`client.json` lies in the user's data directory.
"""


def reference() -> str:
    """The whole reference as Markdown."""
    from t9ksched.cli.application import application

    parts = [HEAD]
    for path, function in commands_of(application(), "t9ksched"):
        parts += [f"## `{path}`\n", f"{inspect.getdoc(function)}\n"]
        if examples := examples_of(path.removeprefix("t9ksched ")):
            parts += ["```\n" + "\n".join(examples) + "\n```\n"]
        rows = [_row(parameter) for parameter in told_by_users(function)]
        if rows:
            parts += ["| Parameter | Meaning |\n|---|---|\n" + "\n".join(rows) + "\n"]
    return "\n".join(parts)


def told_by_users(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a user gives to a command."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [parameter for parameter in parameters if parameter.annotation is not typer.Context]


def commands_of(app: typer.Typer, path: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each listed command with the words that lead to it, those of groups one by one."""
    for command in app.registered_commands:
        if command.callback and not command.hidden:
            yield f"{path} {command.name or command.callback.__name__.rstrip('_')}", command.callback
    for group in app.registered_groups:
        if group.typer_instance:
            yield from commands_of(group.typer_instance, f"{path} {group.name}")


def _row(parameter: inspect.Parameter) -> str:
    return "| `{}` | {} |".format(*(cell.replace("|", r"\|") for cell in parameter_row(parameter)))


def parameter_row(parameter: inspect.Parameter) -> tuple[str, str]:
    """How a parameter is written, and what it means."""
    kind, info = _annotation(parameter.annotation)
    optional = parameter.default is not inspect.Parameter.empty
    many = get_origin(kind) is list
    value = info.metavar or _values(kind)
    if isinstance(info, OptionInfo):
        # Typer keeps the first name in the place of the default when it is not used inside Annotated.
        first = (info.default,) if isinstance(info.default, str) else ()
        names = (*first, *(info.param_decls or ())) or (f"--{parameter.name.replace('_', '-')}",)
        shown = ", ".join(names) + ("" if kind is bool else f" {value}")
    else:
        shown = (f"[{value}]" if optional else value) + ("…" if many else "")
    notes = [] if optional else ["required"]
    if info.envvar:
        notes.append(f"environment `{info.envvar}`")
    if optional and parameter.default not in (None, False, ""):
        notes.append(f"default `{getattr(parameter.default, 'value', parameter.default)}`")
    text = (info.help or "") + (f" ({'; '.join(notes)})" if notes else "")
    return shown, text


def _annotation(annotation: Any) -> tuple[Any, OptionInfo | ArgumentInfo]:
    """The type without None, and what Typer was told about the parameter."""
    kind, info = get_args(annotation)[:2]
    if get_origin(kind) in (Union, type(int | None)):
        kind = next(choice for choice in get_args(kind) if choice is not type(None))
    return kind, info


def _values(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return {int: "N", str: "TEXT"}.get(kind, "VALUE")


if __name__ == "__main__":
    sys.stdout.write(reference())
