"""`t9ksched hold`, `release`, `prioritise` and `update`: decisions about submitted jobs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.consequences import of_limiting
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, paragraph, print_json, print_warnings
from t9ksched.model.timelimit import limit_seconds

Targets = Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")]


@with_service
def hold(
    service: Service,
    targets: Targets,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Do not start waiting jobs until they are released; for managers of their queue."""
    _decide(targets, namespace, "hold", {}, "is held", output, service)


@with_service
def release(
    service: Service,
    targets: Targets,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Let held jobs start again; for managers of their queue."""
    _decide(targets, namespace, "release", {}, "is released", output, service)


@with_service
def prioritise(
    service: Service,
    targets: Targets,
    priority: Annotated[int, typer.Option("-p", "--priority", metavar="N", help="From 0 to 100.", min=0, max=100)],
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Give waiting jobs another priority within their queue; for managers of it."""
    says = f"has priority {priority} now"
    _decide(targets, namespace, "prioritise", {"priority": priority}, says, output, service)


@with_service
def update(
    service: Service,
    targets: Targets,
    time_limit: Annotated[
        str,
        typer.Option("--time-limit", metavar="T", help="The new limit, such as 2h; 0 for none."),
    ],
    namespace: NamespaceOption = "default",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Change the time limit of jobs. Yours you may shorten; managers of the queue may lengthen it too."""
    if not yes:
        _ask(service, targets, namespace, time_limit)
    says = "has no time limit of its own now" if time_limit == "0" else f"has the time limit {time_limit} now"
    _decide(targets, namespace, "update", {"timeLimit": time_limit}, says, output, service)


def _ask(service: Service, targets: Iterable[str], namespace: str, limit: str) -> None:
    """Ask about jobs that have run for as long as the new limit: they are ended at once."""
    try:
        seconds = limit_seconds(limit)
    except ValueError:
        return  # the service says what is wrong with it
    client, over = service(), list[str]()
    for target in (parse_target(text, namespace) for text in targets):
        over += of_limiting(client.get(target.path), seconds) if seconds else []
    for line in over:
        paragraph(console(), line)
    if over:
        confirm("Set the limit?")


def _decide(
    targets: Iterable[str],
    namespace: str,
    action: str,
    body: dict[str, Any],
    says: str,
    output: Output,
    service: Service,
) -> None:
    client = service()
    wanted = [parse_target(text, namespace) for text in targets]
    decided = []
    for target in wanted:
        answer = client.call("POST", f"{target.path}/actions/{action}", body=body or None).body
        decided.append({"namespace": target.namespace, "kind": target.kind, "name": target.name} | answer)
        if output is Output.table:
            print_warnings(answer.get("warnings") or (), f"{target}: ")
            console().print(f"{target} {says}", highlight=False)
    if output is Output.json:
        print_json(decided[0] if len(decided) == 1 else {"items": decided})
