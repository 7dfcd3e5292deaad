"""`t9ksched run`: a job without YAML, from a command and the cards that it needs."""

import os
import sys
from typing import Annotated, Any

import typer

from t9ksched.cli import interactive
from t9ksched.cli.arrays import elements_of, named, patient
from t9ksched.cli.arrays import follow as follow_array
from t9ksched.cli.client import Client
from t9ksched.cli.commands.profile import used
from t9ksched.cli.following import follow
from t9ksched.cli.jobwords import Words, in_environment, usage, with_words
from t9ksched.cli.kinds import Target
from t9ksched.cli.options import OutputOption, Service, data_dir_of, with_service
from t9ksched.cli.output import Output, console, paragraph, print_json, print_warnings
from t9ksched.cli.podaccess import KubeconfigOption, kubeconfig_of
from t9ksched.cli.starting import (
    OF_PARAMETERS,
    PANEL,
    AfterCancelOption,
    AfterOption,
    ArrayOption,
    after_query,
    with_query,
)
from t9ksched.client.profiles import VARIABLE, filled
from t9ksched.client.running import generated_name
from t9ksched.model.errors import Invalid
from t9ksched.model.names import (
    ARRAY_INDEX_VARIABLE,
)
from t9ksched.workloads.compose.asked import Asked, read_mounts
from t9ksched.workloads.compose.job import Composed, compose


@with_service
@with_words
def run(
    service: Service,
    context: typer.Context,
    words: Words,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="What runs in each replica.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the job (default: the script's, and a random end).")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar=VARIABLE,
            metavar="NAME",
            help="Fill what is left out from this profile (default: the one called default).",
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(metavar="T", help="Start it no earlier: a moment with its zone.", rich_help_panel=PANEL),
    ] = None,
    array: ArrayOption = None,
    after: AfterOption = None,
    after_cancel: AfterCancelOption = False,
    follow_it: Annotated[
        bool, typer.Option("--follow", help="Tell what happens until it ends; exit 1 if it fails.")
    ] = False,
    pty: Annotated[
        bool, typer.Option("--pty", help="A shell, or another command, on this terminal; the job ends with it.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the YAML, judge it, tell when it would start; create nothing.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Run a command on cards, without YAML. One pod is a Job; replicas, torchrun or a priority make it a
    PyTorchTrainingJob, whose pods start together or not at all.
    """
    asked = filled(words, used(profile, data_dir_of(service)))
    query = {"namespace": asked.get("namespace"), "timeLimit": asked.pop("time_limit", None), "startAfter": begin}
    query |= {"reservation": asked.pop("reservation", None)}
    query |= after_query(after, cancel=after_cancel) | {"array": array}
    config, by_service = None, False
    if pty:
        others = {"array": array, "follow": follow_it, "json": output is Output.json}
        interactive.check(asked, others, dry_run=dry_run)
        config = None if dry_run else kubeconfig_of(kubeconfig, data_dir_of(service), needed=False)
        if by_service := not dry_run and config is None:
            interactive.check_service(service())
    try:
        composed = compose(
            Asked(
                name=name or generated_name(command),
                command=interactive.WAITING if pty else tuple(command),
                image=asked.pop("image", ""),
                environment=in_environment(asked.pop("env", {}), os.environ.items()),
                mounts=read_mounts(asked.pop("mounts", ())),
                **asked,
            )
        )
    except Invalid as error:
        raise usage(error) from None
    client = service()
    jobs = send(client, composed, query, output, follow_it=follow_it, dry_run=dry_run)
    if config is not None or by_service:
        raise typer.Exit(interactive.talk(client, jobs[0], command, config))


def send(
    client: Client, composed: Composed, query: dict[str, Any], output: Output, *, follow_it: bool, dry_run: bool
) -> list[dict[str, Any]]:
    """Submit what was composed, or try it; the jobs. Raises Failure when it is refused, or is followed and fails."""
    options = {path: f"--{word}" for path, word in composed.fields.items()}
    options |= OF_PARAMETERS
    table = output is Output.table
    for note in composed.notes if table else ():
        paragraph(console(sys.stderr), f"note: {note}")
    of_array = elements_of(composed.obj, query["array"]) if query["array"] is not None else []
    if dry_run and table:
        if of_array:
            typer.echo(f"# The first of {len(of_array)}; each has its index in {ARRAY_INDEX_VARIABLE}")
        _print_yaml(with_query((of_array or [composed.obj])[0], query))
    answer = (
        patient(client, len(of_array))
        .call(
            "POST",
            "/apis/v1/workloads",
            body=composed.obj,
            query=query | ({"dryRun": "true"} if dry_run else {}),
            options=options,
        )
        .body
    )
    jobs: list[dict[str, Any]] = answer["items"]
    if table:
        print_warnings(answer["warnings"])
    if dry_run:
        _foretell(client, composed, of_array, query, answer, table=table)
        return jobs
    if table:
        place = f"queue {jobs[0]['queue']} (namespace {jobs[0]['namespace']})"
        console().print(f"{named(jobs)} submitted to {place}")
    if follow_it:
        jobs = _followed(client, jobs, quiet=not table)
    if not table:
        print_json({"items": jobs, "warnings": answer["warnings"]})
    if follow_it and any(job.get("phase") != "Succeeded" for job in jobs):
        raise typer.Exit(1)
    return jobs


def _followed(client: Client, jobs: list[dict[str, Any]], *, quiet: bool) -> list[dict[str, Any]]:
    if len(jobs) > 1:
        return follow_array(client, jobs, quiet=quiet)
    (job,) = jobs
    return [follow(client, Target(job["namespace"], job["kind"], job["name"]), quiet=quiet)]


def _foretell(
    client: Client,
    composed: Composed,
    of_array: list[dict[str, Any]],
    query: dict[str, Any],
    answer: dict[str, Any],
    *,
    table: bool,
) -> None:
    """Tell when it would start; of an array, when which elements would."""
    from t9ksched.cli.dryrun import show, simulate

    objects = of_array or [composed.obj]
    found, why = simulate(client, objects, {name: value for name, value in query.items() if name != "array"})
    if not table:
        print_json(answer | {"object": composed.obj, "simulation": found})
    elif found is None:
        print_warnings([{"path": "simulation", "message": why}])
    else:
        show(found, console(), [composed.obj["metadata"]["name"]] if of_array else [])


def _print_yaml(obj: dict[str, Any]) -> None:
    from t9ksched.model.text import write

    typer.echo(write(obj))
