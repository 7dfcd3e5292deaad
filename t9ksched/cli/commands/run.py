"""`t9ksched run`: a job without YAML, from a command and the cards that it needs."""

import copy
import os
import sys
from typing import Annotated, Any, Final

import typer

from t9ksched.cli.arrays import elements_of, named
from t9ksched.cli.arrays import follow as follow_array
from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import follow
from t9ksched.cli.kinds import Target
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, paragraph, print_json, print_warnings, program
from t9ksched.cli.starting import OF_PARAMETERS, PANEL, AfterCancelOption, AfterOption, ArrayOption, after_query
from t9ksched.client.running import generated_name
from t9ksched.model.errors import Invalid
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    ARRAY_INDEX_VARIABLE,
    RESERVATION_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.model.resources import NVIDIA_GPU
from t9ksched.workloads.arrays import read_array
from t9ksched.workloads.compose.asked import Asked, read_annotations, read_environment, read_mounts
from t9ksched.workloads.compose.job import Composed, compose
from t9ksched.workloads.queueing import annotate

_ASK_FOR: Final = "What it asks for"
_ANNOTATIONS: Final = {
    "timeLimit": TIME_LIMIT_ANNOTATION,
    "startAfter": START_AFTER_ANNOTATION,
    "reservation": RESERVATION_ANNOTATION,
}
_ASKED: Final = 10
"""Elements of an array of which a dry run tells when they would start."""
_TEXTS: Final = ("env", "mount", "annotation")


@with_service
def run(
    service: Service,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="What runs in each replica.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the job (default: the script's, and a random end).")
    ] = None,
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="The container image.")] = "",
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", help="Cards of each replica.", rich_help_panel=_ASK_FOR)
    ] = 0,
    gpu_model: Annotated[
        str, typer.Option(metavar="MODEL", help="Models that will do, such as A100,H100.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="A part of each card: its memory.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_cores: Annotated[
        str, typer.Option(metavar="PERCENT", help="A part of each card: its cores.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="The name that cards have.", rich_help_panel=_ASK_FOR)
    ] = NVIDIA_GPU,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", help="Pods that start together.", rich_help_panel=_ASK_FOR)
    ] = None,
    torchrun: Annotated[
        bool, typer.Option("--torchrun", help="Start it by torchrun, a process a card.", rich_help_panel=_ASK_FOR)
    ] = False,
    cpu: Annotated[str, typer.Option(metavar="CPU", help="Such as 8 or 500m.", rich_help_panel=_ASK_FOR)] = "",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Such as 64Gi.", rich_help_panel=_ASK_FOR)] = "",
    mount: Annotated[
        list[str] | None,
        typer.Option(metavar="CLAIM:/PATH[:ro]", help="A volume claim; repeatable.", rich_help_panel=_ASK_FOR),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--env", metavar="K[=V]", help="A variable, or yours; repeatable.", rich_help_panel=_ASK_FOR
        ),
    ] = None,
    workdir: Annotated[
        str, typer.Option(metavar="/PATH", help="The directory to run in.", rich_help_panel=_ASK_FOR)
    ] = "",
    annotation: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An annotation of the pods; repeatable.", rich_help_panel=_ASK_FOR),
    ] = None,
    retries: Annotated[
        int, typer.Option(metavar="N", help="Make failed pods again so often.", rich_help_panel=_ASK_FOR)
    ] = 0,
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="Which queue pays.", rich_help_panel=PANEL)] = "",
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=100, help="The order among jobs of the queue.", rich_help_panel=PANEL),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="The namespace.", rich_help_panel=PANEL)
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="T", help="End it after so long, such as 4h.", rich_help_panel=PANEL)
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(metavar="T", help="Start it no earlier: a moment with its zone.", rich_help_panel=PANEL),
    ] = None,
    reservation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use this reservation.", rich_help_panel=PANEL)
    ] = None,
    array: ArrayOption = None,
    after: AfterOption = None,
    after_cancel: AfterCancelOption = False,
    follow_it: Annotated[
        bool, typer.Option("--follow", help="Tell what happens until it ends; exit 1 if it fails.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the YAML, judge it, tell when it would start; create nothing.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Run a command on cards, without YAML. One pod is a Job; replicas, torchrun or a priority make it a
    PyTorchTrainingJob, whose pods start together or not at all.

    t9ksched run --gpus 4 --image IMAGE -- python train.py --epochs 10
    """
    try:
        composed = compose(
            Asked(
                name=name or generated_name(command),
                command=tuple(command),
                image=image,
                namespace=namespace,
                gpus=gpus,
                gpu_resource=gpu_resource,
                gpu_model=gpu_model,
                gpu_memory=gpu_memory,
                gpu_cores=gpu_cores,
                replicas=replicas,
                cpu=cpu,
                memory=memory,
                queue=queue,
                priority=priority,
                torchrun=torchrun,
                retries=retries,
                workdir=workdir,
                environment=read_environment(env or (), os.environ),
                mounts=read_mounts(mount or ()),
                annotations=read_annotations(annotation or ()),
            )
        )
    except Invalid as error:
        raise _usage(error) from None
    query = {"namespace": namespace, "timeLimit": time_limit, "startAfter": begin, "reservation": reservation}
    query |= after_query(after, cancel=after_cancel) | {"array": array}
    send(service(), composed, query, output, follow_it=follow_it, dry_run=dry_run)


def send(
    client: Client, composed: Composed, query: dict[str, Any], output: Output, *, follow_it: bool, dry_run: bool
) -> None:
    """Submit what was composed, or try it. Raises Failure when it is refused, or when it is followed and fails."""
    options = {path: f"--{word}" for path, word in composed.fields.items()}
    options |= OF_PARAMETERS
    table = output is Output.table
    for note in composed.notes if table else ():
        paragraph(console(sys.stderr), f"note: {note}")
    of_array = elements_of(composed.obj, query["array"]) if query["array"] is not None else []
    if dry_run and table:
        if of_array:
            typer.echo(f"# The first of {len(of_array)}; each has its index in {ARRAY_INDEX_VARIABLE}")
        _print_yaml(_with_times((of_array or [composed.obj])[0], query))
    answer = client.call(
        "POST",
        "/apis/v1/workloads",
        body=composed.obj,
        query=query | ({"dryRun": "true"} if dry_run else {}),
        options=options,
    ).body
    jobs = answer["items"]
    if table:
        print_warnings(answer["warnings"])
    if dry_run:
        _foretell(client, composed, of_array, query, answer, table=table)
        return
    if table:
        place = f"queue {jobs[0]['queue']} (namespace {jobs[0]['namespace']})"
        console().print(f"{named(jobs)} submitted to {place}")
    if follow_it:
        jobs = _followed(client, jobs, quiet=not table)
    if not table:
        print_json({"items": jobs, "warnings": answer["warnings"]})
    if follow_it and any(job.get("phase") != "Succeeded" for job in jobs):
        raise typer.Exit(1)


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
    """Tell when it would start; of an array, the first elements that may run at once."""
    from t9ksched.cli.dryrun import show, simulate

    first = of_array[: min(read_array(query["array"]).most or _ASKED, _ASKED)] if of_array else [composed.obj]
    found, why = simulate(client, first, {name: value for name, value in query.items() if name != "array"})
    if not table:
        print_json(answer | {"object": composed.obj, "simulation": found})
    elif found is None:
        print_warnings([{"path": "simulation", "message": why}])
    else:
        show(found, console())


def _with_times(obj: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    """The object as the service creates it: with its limit, its start, its reservation and what it waits for."""
    shown = copy.deepcopy(obj)
    if query["after"]:
        annotate(shown, AFTER_ANNOTATION, ", ".join(query["after"]))
    if query["afterCancel"]:
        annotate(shown, AFTER_CANCEL_ANNOTATION, "true")
    for word, annotation in _ANNOTATIONS.items():
        if query[word] is not None:
            annotate(shown, annotation, str(query[word]))
    return shown


def _print_yaml(obj: dict[str, Any]) -> None:
    from t9ksched.model.text import write

    typer.echo(write(obj))


def _usage(error: Invalid) -> Failure:
    faults = [f"{_word(fault.path)} {fault.message}" for fault in error.errors]
    return Failure(faults[0], details=faults[1:], remedy=f"See {program()} run --help", code=BAD_USAGE)


def _word(path: str) -> str:
    """The word that a fault is about; a colon where the fault begins with its text."""
    if path == "command":
        return "the command"
    return f"--{path}:" if path in _TEXTS else f"--{path}"
