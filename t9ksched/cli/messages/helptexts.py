"""The texts of `--help`, and what Typer says of words that it cannot use."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import typer
from typer.main import get_command

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.messages.phrasebook import Phrasebook
from t9ksched.cli.messages.rendering import break_chinese

Command = Any
"""A command of Typer's own copy of click, which has no public name."""

FAULTS: Final = (
    "Missing argument {name}.",
    "Missing option {name}.",
    "Missing option {name}. Choose from:\n\t{choices}",
    "Missing command.",
    "No such command {name}.",
    "No such command {name}. Did you mean {others}?",
    "No such option: {name}",
    "No such option: {name} (Possible options: {others})",
    "No such option: {name} Did you mean {others}?",
    "Got unexpected extra argument(s) ({words})",
    "Option {name} requires an argument.",
    "Option {name} does not take a value.",
    "Invalid value for {name}: {why}",
    "Value error, {why}",
    "{value} is not one of {choices}.",
    "Input should be less than or equal to {most}",
    "Input should be greater than or equal to {least}",
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
)
"""What Typer says of a line that it cannot use."""
_TITLES: Final = {
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "ERRORS_PANEL_TITLE": "Error",
    "DEFAULT_STRING": "[default: {}]",
    "ENVVAR_STRING": "[env var: {}]",
    "REQUIRED_LONG_STRING": "[required]",
}
"""Texts of Typer's help, by the names of their variables in `typer.rich_utils`."""
_USAGE: Final = "Usage:"
_SHOWS_THIS: Final = "Show this message and exit."


def of_commands() -> Iterator[tuple[str, str]]:
    """Each text of the help of all commands, with the file that it stands in."""
    from t9ksched.cli.application import application

    for title in (*_TITLES.values(), _USAGE, _SHOWS_THIS):
        yield title, _path(__name__)
    for command in _all(get_command(application())):
        place = _path(getattr(command.callback, "__module__", "") or __name__)
        for text in _texts(command):
            yield text, place


def run(program: typer.Typer, book: Phrasebook) -> NoReturn:
    """Run the program with its help, and what it says of bad usage, in the language of `book`.

    Raises:
        Failure: as commands do, and for a line that is no command.
    """
    from typer import rich_utils

    break_chinese()
    command = get_command(program)
    for one in _all(command):
        _translate(one, book)
    for name, text in _TITLES.items():
        if hasattr(rich_utils, name):
            setattr(rich_utils, name, book.word(text))
    try:
        code = command.main(standalone_mode=False)
    except typer.Abort:
        raise Failure("Nothing was done.") from None
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _misused(error) from None
    sys.exit(code if isinstance(code, int) else 0)


def _misused(error: Any) -> Failure:
    """The failure of a line that Typer cannot use."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.exit(BAD_USAGE)
    remedy = f"See {context.command_path} --help" if context is not None else ""
    return Failure(error.format_message(), remedy=remedy, code=error.exit_code)


def _path(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _all(command: Command) -> Iterator[Command]:
    yield command
    for one in getattr(command, "commands", {}).values():
        yield from _all(one)


def _texts(command: Command) -> Iterator[str]:
    """The texts of the help of one command."""
    for text in (command.help, command.epilog):
        yield from (paragraph for paragraph in _paragraphs(text) if not _is_typed(paragraph))
    yield from (panel for panel in [getattr(command, "rich_help_panel", None)] if isinstance(panel, str))
    for parameter in command.params:
        for text in (getattr(parameter, "help", None), getattr(parameter, "rich_help_panel", None)):
            if isinstance(text, str) and text:
                yield " ".join(text.split())


def _translate(command: Command, book: Phrasebook) -> None:
    command.help, command.epilog = _of_paragraphs(command.help, book), _of_paragraphs(command.epilog, book)
    usage = command.get_usage
    command.get_usage = lambda context: usage(context).replace(_USAGE, book.word(_USAGE), 1)
    for parameter in (*command.params, *_help_option(command)):
        if isinstance(getattr(parameter, "help", None), str):
            parameter.help = book.word(" ".join(parameter.help.split()))
    for one in (command, *command.params):
        if isinstance(getattr(one, "rich_help_panel", None), str):
            one.rich_help_panel = book.word(one.rich_help_panel)


def _help_option(command: Command) -> Sequence[Any]:
    """The option `--help` of a command, which is made when it is first asked for."""
    with suppress(AttributeError, TypeError):
        option = command.get_help_option(command.make_context(command.name, [], resilient_parsing=True))
        return [option] if option is not None else []
    return []


def _of_paragraphs(text: str | None, book: Phrasebook) -> str | None:
    return "\n\n".join(map(book.word, _paragraphs(text))) if text else text


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in (text or "").split("\n\n") if part.strip()]


def _is_typed(paragraph: str) -> bool:
    """Whether a paragraph is an example of a command."""
    return paragraph.startswith("t9ksched ")
