"""Options that several commands share, declared once so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli.client import Client
from t9ksched.cli.output import Output

ServerOption = Annotated[
    str | None,
    typer.Option("--server", envvar="T9KSCHED_SERVER", metavar="URL", help="Where the service answers."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar="T9KSCHED_TOKEN", metavar="TOKEN", help="What to show the service."),
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


def connect(server: str | None, token: str | None, data_dir: Path | None) -> Client:
    """The service these options name."""
    return Client.find(server, token, data_dir)
