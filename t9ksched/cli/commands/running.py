"""`t9ksched pause`, `resume`, `scale` and `resubmit`: what becomes of jobs that were submitted."""

from typing import Annotated, Any

import typer

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.consequences import is_up, of_pausing, of_scaling
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, paragraph, print_json, print_warnings

Targets = Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")]
One = Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]


@with_service
def pause(
    service: Service,
    targets: Targets,
    namespace: NamespaceOption = "default",
    yes: Yes = False,
    output: OutputOption = Output.table,
) -> None:
    """Stop jobs and keep them: their pods are deleted, their cards are free, and `resume` starts them again."""
    client = service()
    wanted = [parse_target(text, namespace) for text in targets]
    jobs = [client.get(target.path) for target in wanted]
    if not yes and any(is_up(job) for job in jobs):
        _say([line for job in jobs for line in of_pausing(job)])
        confirm("Pause?" if len(jobs) == 1 else f"Pause these {len(jobs)} jobs?")
    done = [client.post(f"{target.path}/actions/pause") for target in wanted]
    _tell(wanted, done, "is paused", output)


@with_service
def resume(
    service: Service, targets: Targets, namespace: NamespaceOption = "default", output: OutputOption = Output.table
) -> None:
    """Let paused jobs run again: they wait for room as any other job, and start whole."""
    client = service()
    wanted = [parse_target(text, namespace) for text in targets]
    done = [client.post(f"{target.path}/actions/resume") for target in wanted]
    _tell(wanted, done, "is resumed", output)


@with_service
def scale(
    service: Service,
    target: One,
    replicas: Annotated[int, typer.Argument(metavar="N", min=0, help="How many pods it shall have.")],
    namespace: NamespaceOption = "default",
    yes: Yes = False,
    output: OutputOption = Output.table,
) -> None:
    """Give a job that runs more or fewer pods: elastic jobs within their range, batch Jobs up to their completions."""
    client = service()
    wanted = parse_target(target, namespace)
    job = client.get(wanted.path)
    fewer = is_up(job) and replicas < ((job.get("members") or {}).get("total") or 0)
    if fewer and not yes:
        _say(of_scaling(job, replicas))
        confirm("Scale it?")
    body, options = {"replicas": replicas}, {"replicas": "N"}
    done = client.call("POST", f"{wanted.path}/actions/scale", body=body, options=options).body
    if output is Output.table and not (fewer and not yes):
        _say(of_scaling(job, replicas))
    _tell([wanted], [done], f"is scaled to {replicas}", output)


@with_service
def resubmit(
    service: Service,
    target: One,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the copy (default: its name, and a random end).")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Another queue.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", min=0, max=100, help="Another priority.")] = None,
    time_limit: Annotated[str | None, typer.Option("--time-limit", metavar="T", help="Another limit.")] = None,
    begin: Annotated[str | None, typer.Option("--begin", metavar="T", help="Start it no earlier.")] = None,
    reservation: Annotated[str | None, typer.Option("--reservation", metavar="NAME", help="Use this one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge it; create nothing.")] = False,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Submit a job again as it was asked for, under another name: while its object is there, also when it has ended."""
    client = service()
    wanted = parse_target(target, namespace)
    query: dict[str, Any] = {
        "newName": name,
        "queue": queue,
        "priority": priority,
        "timeLimit": time_limit,
        "startAfter": begin,
        "reservation": reservation,
        "dryRun": "true" if dry_run else None,
    }
    options = {"metadata.name": "--name", "timeLimit": "--time-limit", "startAfter": "--begin"}
    options |= {"queue": "--queue", "priority": "--priority", "reservation": "--reservation"}
    answer = client.call("POST", f"{wanted.path}/actions/resubmit", query=query, options=options).body
    if output is Output.json:
        print_json(answer)
        return
    print_warnings(answer["warnings"])
    for job in answer["items"]:
        place = f"queue {job['queue']} (namespace {job['namespace']})"
        done = "would be submitted" if dry_run else "submitted"
        console().print(f"{job['kind']}/{job['name']} {done} to {place}", highlight=False)


def _say(lines: list[str]) -> None:
    for line in lines:
        paragraph(console(), line)


def _tell(targets: list[Target], jobs: list[dict[str, Any]], says: str, output: Output) -> None:
    if output is Output.json:
        print_json(jobs[0] if len(jobs) == 1 else {"items": jobs})
        return
    for target, job in zip(targets, jobs, strict=True):
        print_warnings(job.get("warnings") or (), f"{target}: ")
        console().print(f"{target} {says}", highlight=False)
