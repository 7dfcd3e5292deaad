"""The program `t9ksched`: its commands, and how it ends.

Exit codes: 0 done, 1 the request failed, 2 bad usage. Whatever goes wrong is said in a sentence on stderr, never as a
traceback; `T9KSCHED_DEBUG=1` shows the traceback of what we did not foresee.
"""

import os
import sys
from typing import Annotated

import typer

from t9ksched import __version__
from t9ksched.cli.commands import (
    cancel,
    control,
    db,
    demo,
    doctor,
    explain,
    jobs,
    nodes,
    queueapply,
    queuemembers,
    queues,
    roles,
    stops,
    submit,
    token,
    up,
    usage,
    wait,
)
from t9ksched.cli.failure import REQUEST_FAILED, Failure
from t9ksched.cli.output import print_failure

app = typer.Typer(
    name="t9ksched",
    help="A queue-based batch scheduler for AI workloads: whole gangs, cards by index, and a reason for every wait.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

START, DAY, ADMIN, OPERATE = "Start here", "A user's day", "An administrator's day", "Operations"

app.command(rich_help_panel=START)(demo.demo)
app.command(rich_help_panel=START)(up.up)
app.command(rich_help_panel=DAY)(submit.submit)
app.command(rich_help_panel=DAY)(jobs.jobs)
app.command(rich_help_panel=DAY)(explain.explain)
app.command(rich_help_panel=DAY)(wait.wait)
app.command(rich_help_panel=DAY)(control.update)
app.command(rich_help_panel=DAY)(cancel.cancel)
app.command(rich_help_panel=ADMIN)(control.hold)
app.command(rich_help_panel=ADMIN)(control.release)
app.command(rich_help_panel=ADMIN)(control.prioritise)
app.command(rich_help_panel=ADMIN)(nodes.nodes)
queues.app.command("drain")(queuemembers.drain)
queues.app.command("members")(queuemembers.members)
queues.app.command("apply")(queueapply.apply)
app.add_typer(queues.app, name="queues", rich_help_panel=ADMIN)
app.command("usage", rich_help_panel=ADMIN)(usage.usage)
app.command("stop-scheduling", rich_help_panel=ADMIN)(stops.stop_scheduling)
app.add_typer(token.app, name="token", rich_help_panel=ADMIN)
app.command(rich_help_panel=OPERATE)(doctor.doctor)
app.add_typer(db.app, name="db", rich_help_panel=OPERATE)
app.command(rich_help_panel=OPERATE)(roles.scheduler)
app.command(rich_help_panel=OPERATE)(roles.controller)
app.command(rich_help_panel=OPERATE)(roles.api)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"t9ksched {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """A queue-based batch scheduler for AI workloads: whole gangs, cards by index, and a reason for every wait."""


def main() -> None:
    """Run the command line of this process and leave with its exit code."""
    try:
        app()
    except Failure as failure:
        print_failure(failure)
        sys.exit(failure.code)
    except BrokenPipeError:
        # The reader (head, less) went away: nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(REQUEST_FAILED)
    except Exception as error:
        if os.environ.get("T9KSCHED_DEBUG"):
            raise
        print_failure(
            Failure(
                f"t9ksched did not foresee this: {type(error).__name__}: {error}",
                remedy="Repeat with T9KSCHED_DEBUG=1 in the environment to see where, and report it.",
            )
        )
        sys.exit(REQUEST_FAILED)
