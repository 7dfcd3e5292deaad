"""What a shell offers behind `t9ksched`: commands, options, and live names of jobs, queues, nodes and namespaces.

A shell calls the program anew for each key, so only the command that is typed is imported, and names are
kept for a moment (`cli/names.py`). Nothing is ever said on stderr: whatever goes wrong, there is nothing to offer.
"""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, suppress
from typing import Any, Final

import typer

from t9ksched.cli.application import COMMANDS, application, parameters_of
from t9ksched.cli.names import NAMES

VARIABLE: Final = "_T9KSCHED_COMPLETE"
"""By this variable the shell's function asks: `complete_bash` and so on."""
_OF_METAVARS: Final = {
    "KIND/NAME": "jobs",
    "[KIND/NAME]": "jobs",
    "KIND/NAME[:any]": "jobs",
    "QUEUE": "queues",
    "NODE": "nodes",
    "NS": "namespaces",
}
"""Which names stand where a parameter is called so."""


def script(shell: str) -> str:
    """What a shell reads at its start."""
    from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

    completion_init()
    return get_completion_script(prog_name="t9ksched", complete_var=VARIABLE, shell=shell)


def run() -> None:
    """Print what the shell asks for, and leave."""
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere), suppress(Exception, KeyboardInterrupt):
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
        words = typed(os.environ)
        if not words or any(command.name == words[0] for command in COMMANDS):
            program = typer.main.get_command(_with_names(words[0]) if words else _named())
            program.main(args=[], prog_name="t9ksched", complete_var=VARIABLE)
    sys.exit(0)


def typed(environment: Mapping[str, str]) -> list[str]:
    """The words behind the program's name that are typed whole and are no options, as each shell tells them."""
    text = environment.get("_TYPER_COMPLETE_ARGS")
    if text is None:
        words = environment.get("COMP_WORDS", "").split()
        whole = words[1 : int(environment.get("COMP_CWORD") or 0)]
    else:
        with suppress(ValueError):
            text = " ".join(shlex.split(text)) + (" " if text[-1:].isspace() else "")
        words = text.split()
        whole = words[1:] if text[-1:].isspace() else words[1:-1]
    return [word for word in whole if not word.startswith("-")]


def _named() -> typer.Typer:
    """The program with the names of its commands alone."""
    app = typer.Typer(add_completion=False)
    app.callback()(lambda: None)
    for command in COMMANDS:
        if not command.foreign:
            app.command(command.name, help=command.panel)(lambda: None)
    return app


def _with_names(word: str) -> typer.Typer:
    """The program with that command, whose parameters complete live names."""
    app = application(word)
    for info in parameters_of(app):
        if (what := _OF_METAVARS.get(info.metavar or "")) is not None:
            info.autocompletion = _completer(what)
    return app


def _completer(what: str) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        given: dict[str, Any] = ctx.params
        try:
            names = NAMES[what](given)
        except Exception:
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete
