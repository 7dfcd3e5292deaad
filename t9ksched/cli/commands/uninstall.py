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
    from t9ksched.kube.setup.save_file import SaveFile
    from t9ksched.kube.transport.client import Client

_STYLES = {
    "tell": "blue",
    "hand back": "yellow",
    "change": "yellow",
    "release": "red",
    "delete": "red",
    "leave": "bold yellow",
    "keep": "green",
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
        Path,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Where objects are written before they are made again; a repetition continues it.",
        ),
    ] = Path("t9ksched-uninstall.yaml"),
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            metavar="SECONDS",
            help="How long to wait until nobody schedules any more, and for what goes slowly.",
        ),
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show every step, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Take t9ksched off a cluster: jobs are told, pods go on, and what waits goes to the default scheduler.

    The database and Secrets stay. Started again after a failure, it does what is left.
    """
    from t9ksched.cli.foreign import failures

    with failures(), working():
        steps = asyncio.run(_looked(kubeconfig, kinds, save))
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
    if output is not Output.json:
        console().print(
            f"What is made again is written to {save} first. If this is broken off, repeat it with that file."
        )
    with failures():
        steps, failed = asyncio.run(_carried_out(kubeconfig, kinds, save, wait))
    if output is Output.json:
        print_json(_as_json(steps, failed))
    if failed:
        raise Failure(
            f"{len(failed)} of {len(steps)} steps failed.",
            details=failed,
            remedy=f"Mend the cause and repeat it with the same --save: what {save} has and was not made is made then.",
        )
    if output is not Output.json:
        console().print("t9ksched is uninstalled.")
        console().print("The database, Secrets, ConfigMaps and the namespace t9k-system are as they were.")
    if left := [step for step in steps if step.verb == "leave"]:
        raise Failure(
            f"These name the scheduler that is gone, and their pods wait until you change it: {len(left)}",
            details=[f"{one.resource.api_kind} {one.namespace} {one.name}: {one.why}" for one in left],
            remedy="Repeat `t9ksched uninstall --dry-run` to see which are left.",
        )


async def _looked(kubeconfig: Path | None, kinds: bool, save: Path) -> "list[Step]":
    from t9ksched.kube.transport.config import connect

    async with connect(kubeconfig) as client:
        return (await _planned(client, kinds, save))[0]


async def _planned(client: "Client", kinds: bool, save: Path) -> "tuple[list[Step], SaveFile]":
    """The steps, first of what an earlier run left, and the file that has what is made again."""
    from datetime import UTC, datetime

    from t9ksched.cli.manifests.chart import installed_names
    from t9ksched.kube.setup.crds import read
    from t9ksched.kube.setup.removal import steps
    from t9ksched.kube.setup.removing import claimed, cluster_uid, left_over, look
    from t9ksched.kube.setup.save_file import NotSaved, SaveFile
    from t9ksched.packaged import folder

    _same_file(await claimed(client), save)
    try:
        saved = SaveFile(save, await cluster_uid(client))
    except (NotSaved, OSError, UnicodeDecodeError) as error:
        why = error if isinstance(error, NotSaved) else f"cannot be read: {error}"
        raise Failure(f"{save} {why}.", remedy="Name another file with --save.", code=BAD_USAGE) from None
    left = await left_over(client, saved)
    found = await look(client, read(folder("crds")), installed_names())
    return [*left, *steps(found, kinds=kinds, now=datetime.now(UTC))], saved


def _same_file(earlier: str, save: Path) -> None:
    """See that this run continues the file of one that did not end. Raises Failure."""
    from t9ksched.kube.setup.removing import SAVED_IN

    path = earlier.partition(":")[2]
    if not earlier or (path == str(save.absolute()) and save.exists()):
        return
    if path == str(save.absolute()):
        said = f"An earlier run did not end, and its file {earlier} is not there: it has pods that were not made again."
    else:
        said = f"An earlier run did not end, and {earlier} has what it did not make again."
    raise Failure(
        said,
        remedy=f"Repeat it where that file is, with --save {path}. If it is lost:"
        f" kubectl annotate namespace t9k-system {SAVED_IN}-",
    )


async def _carried_out(kubeconfig: Path | None, kinds: bool, save: Path, wait: float) -> "tuple[list[Step], list[str]]":
    """Stop what works, look again, and do it."""
    from t9ksched.kube.setup.removing import StillLeading, carry_out, stop
    from t9ksched.kube.transport.config import connect

    async with connect(kubeconfig) as client:
        try:
            await stop(client, wait)
        except StillLeading as error:
            raise Failure(
                f"A scheduler or controller is {error}.",
                remedy="Stop `t9ksched up`, or the Deployment that runs it, and repeat.",
            ) from None
        steps, saved = await _planned(client, kinds, save)
        try:
            return steps, await carry_out(client, steps, saved, wait)
        except OSError as error:
            raise Failure(
                f"{save} cannot be written: {error.strerror or error}.",
                remedy="Name a file with --save that can be.",
            ) from None


def _shown(steps: "Sequence[Step]") -> None:
    rows = [
        (Text(step.verb, style=_STYLES[step.verb]), step.resource.api_kind, step.namespace or "–", step.name, step.why)
        for step in steps
    ]
    if rows:
        print_table(console(), table(("STEP", "KIND", "NAMESPACE", "NAME", "WHAT"), rows))
    if all(step.verb == "keep" for step in steps):
        console().print("Nothing is left to uninstall.")


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
