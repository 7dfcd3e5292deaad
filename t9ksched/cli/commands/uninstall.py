"""`t9ksched uninstall`: take an installation off a cluster, so that what runs goes on and what waits is not lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import OutputOption
from t9ksched.cli.output import Output, console, print_json, print_table, table
from t9ksched.cli.progress import working

if TYPE_CHECKING:
    from t9ksched.kube.setup.removal import Step

_STYLES = {
    "tell": "blue",
    "hand back": "yellow",
    "change": "yellow",
    "release": "red",
    "delete": "red",
    "leave": "bold yellow",
}


def uninstall(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            envvar="T9KSCHED_KUBECONFIG",
            metavar="PATH",
            help="The cluster, as its administrator (default: as kubectl finds it).",
        ),
    ] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="Also delete our custom kinds with all their objects; their pods stay.")
    ] = False,
    save: Annotated[
        Path, typer.Option("--save", metavar="FILE", help="Where objects are written before they are made again.")
    ] = Path("t9ksched-uninstall.yaml"),
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait until nobody schedules any more."),
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show every step, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Take t9ksched off a cluster: jobs are told, pods go on, and what waits goes to the default scheduler.

    The database stays. Started again after a failure, it does what is left.
    """
    from t9ksched.cli.foreign import failures

    if not dry_run and save.exists():
        raise Failure(f"{save} exists already.", remedy="Name another file with --save.", code=BAD_USAGE)
    with failures(), working():
        steps = asyncio.run(_planned(kubeconfig, kinds))
    if output is not Output.json:
        _shown(steps)
    if dry_run:
        if output is Output.json:
            print_json(_as_json(steps, []))
        else:
            console().print("Nothing was changed.")
        return
    if not yes:
        confirm("Uninstall t9ksched from this cluster?")
    with failures():
        steps, failed = asyncio.run(_carried_out(kubeconfig, kinds, save, wait))
    if output is Output.json:
        print_json(_as_json(steps, failed))
    if failed:
        raise Failure(
            f"{len(failed)} of {len(steps)} steps failed.",
            details=failed,
            remedy=f"Mend the cause and repeat it with another --save; {save} has what was made again.",
        )
    if output is not Output.json:
        left = sum(step.verb == "leave" for step in steps)
        console().print("t9ksched is uninstalled.")
        if left:
            console().print(f"Pods that wait until somebody changes what makes them: {left}")
        console().print("The database, ConfigMaps and the namespace t9k-system are as they were.")


async def _planned(kubeconfig: Path | None, kinds: bool) -> "list[Step]":
    from datetime import UTC, datetime

    from t9ksched.kube.setup.crds import read
    from t9ksched.kube.setup.removal import steps
    from t9ksched.kube.setup.removing import look
    from t9ksched.kube.transport.config import connect
    from t9ksched.packaged import folder

    async with connect(kubeconfig) as client:
        return steps(await look(client, read(folder("crds"))), kinds=kinds, now=datetime.now(UTC))


async def _carried_out(kubeconfig: Path | None, kinds: bool, save: Path, wait: float) -> "tuple[list[Step], list[str]]":
    """Stop what works, look again, and do it."""
    from t9ksched.kube.setup.removing import StillLeading, carry_out, stop
    from t9ksched.kube.transport.config import connect
    from t9ksched.model.text import write

    async with connect(kubeconfig) as client:
        try:
            await stop(client, wait)
        except StillLeading as error:
            raise Failure(
                f"A scheduler or controller is {error}.",
                remedy="Stop `t9ksched up`, or the Deployment that runs it, and repeat.",
            ) from None
        steps = await _planned(kubeconfig, kinds)
        if remade := [step.body for step in steps if step.verb == "hand back" and step.body is not None]:
            await asyncio.to_thread(_write, save, "---\n".join(write(body) for body in remade))
        return steps, await carry_out(client, steps)


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _shown(steps: "Sequence[Step]") -> None:
    rows = [
        (Text(step.verb, style=_STYLES[step.verb]), step.resource.api_kind, step.namespace or "–", step.name, step.why)
        for step in steps
    ]
    if rows:
        print_table(console(), table(("STEP", "KIND", "NAMESPACE", "NAME", "WHAT"), rows))
    else:
        console().print("Nothing of t9ksched is there.")


def _as_json(steps: "Sequence[Step]", failed: list[str]) -> dict[str, Any]:
    return {
        "steps": [
            {
                "step": step.verb,
                "kind": step.resource.api_kind,
                "namespace": step.namespace,
                "name": step.name,
                "what": step.why,
            }
            for step in steps
        ],
        "failed": failed,
    }
