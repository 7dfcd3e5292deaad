"""The commands of `t9ksched`, and where each is.

A process runs one command, so only the module of that one is imported: reading all of them takes longer than most
commands do.
"""

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from typing import Annotated, Final, NamedTuple

import typer
from typer.models import ArgumentInfo, OptionInfo

from t9ksched import version
from t9ksched.cli.examples import shown

_HELP: Final = (
    "A queue-based batch scheduler for AI workloads: whole gangs, cards by index, and a reason for every wait."
)
_EACH: Final = 4
"""Commands of each person that the program's own help has an example of."""
_START, _DAY, _ADMIN, _OPERATE = "Start here", "A user's day", "An administrator's day", "Operations"


class _Command(NamedTuple):
    """`name` as it is typed; `place` is a module of `t9ksched.cli.commands` and what it is called there. Modules in
    `more` add commands to a group.
    """

    name: str
    place: str
    panel: str
    more: tuple[str, ...] = ()
    greedy: bool = False
    """Whether all words from the first that is no option belong to another command."""
    foreign: bool = False
    """Whether it is another program's command: it is not listed, and takes whatever words that one takes."""

    def load(self) -> object:
        for other in self.more:
            import_module(f"t9ksched.cli.commands.{other}")
        module, _, attribute = self.place.partition(":")
        return getattr(import_module(f"t9ksched.cli.commands.{module}"), attribute)


COMMANDS: Final = (
    _Command("demo", "demo:demo", _START),
    _Command("up", "up:up", _START),
    _Command("run", "run:run", _DAY, greedy=True),
    _Command("profile", "profile:app", _DAY),
    _Command("submit", "submit:submit", _DAY),
    _Command("jobs", "jobs:jobs", _DAY),
    _Command("explain", "explain:explain", _DAY),
    _Command("wait", "wait:wait", _DAY),
    _Command("logs", "logs:logs", _DAY),
    _Command("exec", "exec:exec_", _DAY),
    _Command("history", "history:history", _DAY),
    _Command("top", "top:top", _DAY),
    _Command("timeline", "timeline:timeline", _DAY),
    _Command("pause", "running:pause", _DAY),
    _Command("resume", "running:resume", _DAY),
    _Command("scale", "running:scale", _DAY),
    _Command("update", "update:update", _DAY),
    _Command("resubmit", "running:resubmit", _DAY),
    _Command("cancel", "cancel:cancel", _DAY),
    _Command("notify", "notify:app", _DAY),
    _Command("completion", "completion:completion", _DAY),
    _Command("hold", "control:hold", _ADMIN),
    _Command("release", "control:release", _ADMIN),
    _Command("prioritise", "control:prioritise", _ADMIN),
    _Command("nodes", "nodes:nodes", _ADMIN),
    _Command("queues", "queues:app", _ADMIN, ("queuemembers", "queueapply")),
    _Command("import", "imports:import_", _ADMIN),
    _Command("reservations", "reservations:app", _ADMIN),
    _Command("usage", "usage:usage", _ADMIN),
    _Command("forecast-accuracy", "forecasts:forecast_accuracy", _ADMIN),
    _Command("stop-scheduling", "stops:stop_scheduling", _ADMIN),
    _Command("token", "token:app", _ADMIN),
    _Command("simulate", "simulate:app", _ADMIN),
    _Command("snapshot", "snapshot:snapshot", _ADMIN),
    _Command("manifests", "manifests:manifests", _OPERATE),
    _Command("doctor", "doctor:doctor", _OPERATE),
    _Command("db", "db:app", _OPERATE),
    _Command("uninstall", "uninstall:uninstall", _OPERATE),
    _Command("scheduler", "roles:scheduler", _OPERATE),
    _Command("controller", "roles:controller", _OPERATE),
    _Command("api", "roles:api", _OPERATE),
    *(
        _Command(name, f"slurm:{name}", _DAY, foreign=True)
        for name in ("sbatch", "srun", "squeue", "scancel", "sinfo", "sacct", "scontrol")
    ),
)


def application(word: str = "") -> typer.Typer:
    """The program with the command of that name alone; with all of them if there is none of that name."""
    app = typer.Typer(
        name="t9ksched",
        help=_HELP,
        epilog=_people() if all(one.name != word for one in COMMANDS) else None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in [one for one in COMMANDS if one.name == word] or COMMANDS:
        loaded = command.load()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=command.name, rich_help_panel=command.panel, epilog=_examples(command.name))
        else:
            settings: dict[str, object] = {"allow_interspersed_args": not (command.greedy or command.foreign)}
            if command.foreign:
                settings |= {"ignore_unknown_options": True, "help_option_names": ["--help"]}
            app.command(  # type: ignore[type-var]
                command.name,
                rich_help_panel=command.panel,
                context_settings=settings,
                hidden=command.foreign,
                epilog=_examples(command.name),
            )(loaded)
    return app


def parameters_of(app: typer.Typer) -> Iterator[OptionInfo | ArgumentInfo]:
    """What Typer is told about each parameter of the program's commands."""
    for command in app.registered_commands:
        for one in signature(command.callback, eval_str=True).parameters.values() if command.callback else ():
            yield from (
                info
                for info in getattr(one.annotation, "__metadata__", ())
                if isinstance(info, OptionInfo | ArgumentInfo)
            )
    for group in app.registered_groups:
        if group.typer_instance:
            yield from parameters_of(group.typer_instance)


def _examples(name: str) -> str | None:
    """The examples of a command as the end of its help: a paragraph each, for Typer joins lines."""
    lines = shown(name)
    return "\n\n".join(["Examples:", *(_plain(line) for line in lines)]) if lines else None


def _people() -> str:
    """An example or two for each person."""
    parts = []
    for panel in dict.fromkeys(command.panel for command in COMMANDS):
        names = [command.name for command in COMMANDS if command.panel == panel and not command.foreign]
        firsts = [shown(name)[0] for name in names[:_EACH] if shown(name)]
        parts += [f"{panel}:", *map(_plain, firsts)]
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """The text without markup of Rich."""
    return text.replace("[", "\\[")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"t9ksched {version()}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """A queue-based batch scheduler for AI workloads: whole gangs, cards by index, and a reason for every wait."""
