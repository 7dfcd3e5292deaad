"""`t9ksched hold`, `release` and `prioritise`: decisions about submitted jobs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from t9ksched.cli.kinds import parse_target
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_warnings

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
    """Give waiting jobs another priority within their queue: yours you may lower, managers of the queue raise too."""
    says = f"has priority {priority} now"
    _decide(targets, namespace, "prioritise", {"priority": priority}, says, output, service)


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
