"""`t9ksched completion`: what a shell reads to complete commands, options and live names."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """A shell that can be told."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell.")]) -> None:
    """Print what a shell reads to complete commands, options, and names of jobs, queues and nodes.

    bash and zsh: source <(t9ksched completion bash), in ~/.bashrc; fish: t9ksched completion fish | source
    """
    from t9ksched.cli.completion import script

    typer.echo(script(shell.value))
