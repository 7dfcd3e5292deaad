"""`t9ksched up`: everything in one process."""

import asyncio
import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.heap import loading
from t9ksched.cli.messages import word
from t9ksched.cli.options import DataDirOption, OutputOption, SchedulerConfOption
from t9ksched.cli.output import Output, console, example, padded, print_json, program
from t9ksched.client.known import default_data_dir

if TYPE_CHECKING:
    from t9ksched.cli.runtime import Plan, Running
    from t9ksched.devcluster.local.machine import Machine


def up(
    nodes: Annotated[
        str,
        typer.Option("--nodes", metavar="PRESET|FILE", help="The dev cluster: demo, sharing, small, large, or a file."),
    ] = "demo",
    db: Annotated[
        str | None,
        typer.Option(
            "--db", envvar="T9KSCHED_DB", metavar="URL", help="A database (default: SQLite in the data directory)."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            envvar="T9KSCHED_PORT",
            min=0,
            max=65535,
            help="Where REST answers; 0 takes a free one.",
            show_default="8080",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="PATH", help="Use this cluster instead of the dev cluster.")
    ] = None,
    here: Annotated[
        bool,
        typer.Option(
            "--here", help="The one node is this machine: jobs are processes here, run as you. This is no sandbox."
        ),
    ] = False,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe",
            envvar="T9KSCHED_OBSERVE",
            help="With --kubeconfig: plan and explain, and change nothing in the cluster.",
        ),
    ] = False,
    scheduler_conf: SchedulerConfOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Start everything in one process: a dev cluster (unless a kubeconfig is given), scheduler, controllers, REST."""
    with loading():
        from t9ksched.cli.foreign import failures
        from t9ksched.cli.logs import configure
        from t9ksched.cli.process import run_until_stopped
        from t9ksched.cli.runtime import Plan
        from t9ksched.settings import Settings

    if here and (kubeconfig or observe or nodes != "demo"):
        raise Failure(
            "--here is a cluster of its own: --nodes, --kubeconfig and --observe name another.",
            remedy="Leave one of them out.",
            code=BAD_USAGE,
        )
    with failures():
        given = {"db": db, "scheduler_conf": scheduler_conf}
        settings = Settings.load(**{name: value for name, value in given.items() if value})
    configure(settings, quiet=output is Output.table)
    directory = data_dir or settings.data_dir or default_data_dir()
    place = directory.expanduser().absolute()
    plan = Plan(place, settings, settings.port if port is None else port, nodes, kubeconfig, observe, here)
    raise typer.Exit(run_until_stopped(_serve(plan, output)))


async def _serve(plan: "Plan", output: Output) -> int:
    """Start, say where everything is, and go on until stopped."""
    from t9ksched.cli.runtime import running

    async with running(plan) as up:
        if output is Output.json:
            print_json(up.to_json(), indent=False)
        else:
            _welcome(up, observes=plan.observe)
        await asyncio.Event().wait()
    return 0


def _welcome(up: "Running", *, observes: bool) -> None:
    out = console()
    lines = [
        ("REST", up.server),
        (word("docs"), f"{up.server}/docs"),
        (word("cluster"), up.cluster or "the kubeconfig's"),
    ]
    lines += [("kubeconfig", str(up.kubeconfig)), (word("data"), str(up.data_dir))]
    if sys.stdout.isatty():
        lines.append((word("token"), up.token))
    out.print("t9ksched is ready.\n", style="bold")
    if up.machine is not None:
        _tell_of(up.machine)
    if observes:
        out.print("It plans and explains, and changes nothing in the cluster.\n")
    for name, value in lines:
        out.print(Text.assemble((f"  {padded(name, 11)}", "dim"), value), soft_wrap=True)
    out.print("\nIn another terminal:\n")
    where = "" if up.data_dir == default_data_dir() else f" --data-dir {up.data_dir}"
    work = "local/gang.yaml" if up.machine is not None else "pytorch.yaml"
    submit = () if observes else (f"submit -f {example(work)} --queue default",)
    for command in ("nodes", *submit, "jobs"):
        out.print(f"  {program()} {command}{where}", soft_wrap=True)
    end = "" if up.machine is None else " Processes of jobs run on meanwhile."
    out.print(f"\nCtrl-C stops it; the next start goes on from there.{end}", style="dim")


def _tell_of(machine: "Machine") -> None:
    """What is to be known of a node that is this machine."""
    amounts = machine.node()["status"]["allocatable"]
    cards = f"{len(machine.cards)} x {machine.cards[0].model}" if machine.cards else "no cards"
    out, user = console(), getpass.getuser()
    out.print(
        f"The node is this machine, {machine.name}: {amounts['cpu']} CPUs, {int(amounts['memory'][:-2]) >> 10} GiB,"
        f" {cards}.\nJobs are processes of user {user}, who may do all that {user} may: this is no sandbox. Images are"
        " not used.\n"
    )
    kinds = machine.limits.kinds
    notes = [
        f"limits: {' and '.join(kinds)}, by cgroups" if kinds else "limits of CPU and memory are not kept (no cgroups)"
    ]
    if machine.no_mounts:
        notes.append(
            f"no mounts for processes ({machine.no_mounts}): names of pods become addresses in what jobs are told"
        )
    if machine.kept:
        notes.append(f"found again: {machine.kept} processes of jobs that run on")
    if machine.lost:
        notes.append(f"ended: what was left of {machine.lost} that nothing watched over any more")
    for note in (*notes, *machine.notes):
        out.print(f"  {note}", style="dim", soft_wrap=True)
    out.print()
