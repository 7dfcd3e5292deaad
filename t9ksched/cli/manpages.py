"""Writes man pages from the commands themselves: `python -m t9ksched.cli.manpages FOLDER`.

`t9ksched.1` lists the commands, each command has `t9ksched-NAME.1`, of a group with all of its commands.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from t9ksched import version
from t9ksched.cli.application import COMMANDS, application
from t9ksched.cli.examples import shown
from t9ksched.cli.reference import commands_of, parameter_row, told_by_users


def pages() -> Iterator[tuple[str, str]]:
    """The name of each page, without its section, and its text."""
    app = application()
    functions = list(commands_of(app, "t9ksched"))
    panels: dict[str, list[tuple[str, str]]] = {}
    for command in COMMANDS:
        if command.foreign:
            continue
        own = [(path, one) for path, one in functions if path.split()[1] == command.name]
        about = _summary(own[0][1]) if len(own) == 1 else _group(app, command.name)
        panels.setdefault(command.panel, []).append((command.name, about))
        yield f"t9ksched-{command.name}", _page(command.name, about, own)
    yield "t9ksched", _overview(panels)


def _page(name: str, about: str, own: list[tuple[str, Any]]) -> str:
    parts = [_head(f"t9ksched-{name}"), _section("NAME"), _text(f"t9ksched-{name} - {about}")]
    parts.append(_section("SYNOPSIS"))
    parts += [f".B {_plain(path)}\n[\\fIOPTION\\fR]...{_arguments(function)}\n.br" for path, function in own]
    for path, function in own:
        parts.append(_section(path.removeprefix("t9ksched ").upper() if len(own) > 1 else "DESCRIPTION"))
        parts += [f".PP\n{_text(one)}" for one in (inspect.getdoc(function) or "").split("\n\n")]
        rows = [parameter_row(one) for one in told_by_users(function)]
        parts += [f".TP\n\\fB{_plain(what)}\\fR\n{_text(meaning) or '.'}" for what, meaning in rows]
    if examples := shown(name):
        parts += [_section("EXAMPLES"), ".nf", *map(_text, examples), ".fi"]
    return "\n".join([*parts, _end()])


def _arguments(function: Any) -> str:
    """What stands behind the options."""
    shown = (parameter_row(one)[0] for one in told_by_users(function))
    return "".join(f" \\fI{_plain(one)}\\fR" for one in shown if not one.startswith("-") or one.startswith("-- "))


def _overview(panels: dict[str, list[tuple[str, str]]]) -> str:
    parts = [_head("t9ksched"), _section("NAME"), "t9ksched - a queue-based batch scheduler for AI workloads"]
    parts += [_section("SYNOPSIS"), ".B t9ksched\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR]..."]
    for panel, names in panels.items():
        parts.append(_section(panel.upper()))
        parts += [f".TP\n\\fB{_plain(f't9ksched-{name}')}\\fR(1)\n{_text(about)}" for name, about in names]
    return "\n".join([*parts, _end()])


def _end() -> str:
    status = (("0", "done"), ("1", "the request failed"), ("2", "bad usage"))
    where = (
        ("T9KSCHED_SERVER, T9KSCHED_TOKEN", "which service a command speaks to, and as whom"),
        ("T9KSCHED_DATA_DIR", "where client.json is looked for, which says both"),
        ("NO_COLOR", "no colours"),
        ("T9KSCHED_LANG, LC_ALL, LC_MESSAGES, LANG", "the first that is set says whether messages are Chinese (zh)"),
    )
    parts = [_section("EXIT STATUS"), *(f".TP\n{code}\n{text}" for code, text in status)]
    parts += [_section("ENVIRONMENT"), *(f".TP\n\\fB{name}\\fR\n{text}" for name, text in where)]
    return "\n".join([*parts, _section("SEE ALSO"), "\\fBt9ksched\\fR(1)", ""])


def _head(name: str) -> str:
    return f'.TH {name.upper()} 1 "" "t9ksched {version()}" "t9ksched"'


def _section(title: str) -> str:
    return f".SH {_plain(title)}"


def _summary(function: Any) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def _group(app: typer.Typer, name: str) -> str:
    found = next(one for one in app.registered_groups if one.name == name)
    text = found.typer_instance.info.help if found.typer_instance else ""
    return str(text or name).rstrip(".")


def _text(text: str) -> str:
    """Text of a page: a line that begins with a dot or a quote would be a request to the formatter."""
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in _plain(text).splitlines())


def _plain(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.1").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
