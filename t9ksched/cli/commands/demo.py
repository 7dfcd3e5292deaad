"""`t9ksched demo`: a minute in which gangs wait, start and run on named cards."""

from enum import StrEnum
from typing import Annotated

import typer

from t9ksched.cli.heap import loading
from t9ksched.cli.options import OutputOption
from t9ksched.cli.output import Output


class Preset(StrEnum):
    """What is played: gangs on whole cards, or parts of cards."""

    DEMO = "demo"
    SHARING = "sharing"


def demo(
    preset: Annotated[
        Preset, typer.Option("--preset", help="demo: gangs on whole cards; sharing: parts and slices of cards.")
    ] = Preset.DEMO,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end, until Ctrl-C.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Play the demo: a GPU cluster, queues, and jobs that wait with a reason, start whole and run on named cards."""
    with loading():
        from t9ksched.cli.demo.play import play
        from t9ksched.cli.process import run_until_stopped

    raise typer.Exit(run_until_stopped(play(preset=preset.value, keep=keep, output=output)))
