"""Options that several commands share, declared once so that they read the same everywhere."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from t9ksched.cli.client import Client
from t9ksched.cli.output import Output

ServerOption = Annotated[
    str | None,
    typer.Option("--server", envvar="T9KSCHED_SERVER", metavar="URL", help="Where the service answers."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar="T9KSCHED_TOKEN", metavar="TOKEN", help="The token to authenticate with."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="T9KSCHED_DATA_DIR",
        metavar="DIR",
        help="Where client.json is looked for (default: the user's data directory).",
    ),
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="A table for people, json for programs.")]
SchedulerConfOption = Annotated[
    Path | None,
    typer.Option(
        "--scheduler-conf",
        envvar="T9KSCHED_SCHEDULER_CONF",
        metavar="FILE",
        help="The scheduling policy, followed while it runs (default: the ConfigMap scheduler-config).",
    ),
]
NamespaceOption = Annotated[str, typer.Option("-n", "--namespace", metavar="NS", help="The namespace.")]


Service = Callable[[], Client]
"""Finds the service that the options name. Raises Failure when none is known."""


def _service(server: ServerOption = None, token: TokenOption = None, data_dir: DataDirOption = None) -> Service:
    return partial(Client.find, server, token, data_dir)


def data_dir_of(service: Service) -> Path | None:
    """The data directory that the options name; None for the user's."""
    found: Path | None = service.args[-1] if isinstance(service, partial) else None
    return found


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a service; what they name comes to it as `service`."""
    own, naming = signature(command).parameters, signature(_service).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        told = {name: given.pop(name) for name in naming}
        command(**given, service=_service(**told))

    shown = [one for name, one in own.items() if name != "service"] + list(naming.values())
    run.__signature__ = Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in shown])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run
