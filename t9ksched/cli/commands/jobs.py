"""`t9ksched jobs`: what was submitted, how far it is, and why it waits or failed."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.cards import number
from t9ksched.cli.commands.stops import note
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, age, ahead, console, example, paragraph, print_json, print_table, program, table


@with_service
def jobs(
    service: Service,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace (default: all).")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue.")] = None,
    output: OutputOption = Output.table,
) -> None:
    """List jobs: their queue, phase, members and cards, and why they wait or failed."""
    answer = service().get("/apis/v1/workloads", namespace=namespace, queue=queue)
    items = answer["items"]
    if output is Output.json:
        print_json(answer)
    elif not items:
        where = " in " + " and ".join(
            f"{what} {name}" for what, name in (("queue", queue), ("namespace", namespace)) if name
        )
        console().print(
            f"No jobs{where if queue or namespace else ''}. Submit one: {program()} submit -f {example('pytorch.yaml')}"
        )
    else:
        show(items, console())
    if output is Output.table:
        note(answer.get("stopped") or (), console())


def fetch(client: Any, namespace: str | None = None, queue: str | None = None) -> list[dict[str, Any]]:
    """The jobs the service knows, as job shapes."""
    return list(client.get("/apis/v1/workloads", namespace=namespace, queue=queue)["items"])


def show(items: list[dict[str, Any]], out: Console) -> None:
    """Print job shapes as a table; on a terminal the reasons are printed below it as sentences."""
    # Most clusters plan nothing ahead: the column is there where something is.
    planned = any(job.get("plannedStart") for job in items)
    columns: tuple[str, ...] = ("NAMESPACE", "JOB", "QUEUE", "PRIO", "PHASE", "READY", "GPUS", "AGE")
    columns += (*(("PLANNED",) if planned else ()), "WHY")
    rows = [_row(job, planned=planned) for job in items]
    if out.is_terminal:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_table(out, table(columns, rows, right=("PRIO", "GPUS")))
    reasons = [(job, why) for job in items if (why := _why(job))] if out.is_terminal else []
    if reasons:
        out.print()
    for job, why in reasons:
        paragraph(out, _sentence(job, why))


def _sentence(job: dict[str, Any], why: str) -> Text:
    name = (f"{job.get('kind')}/{job.get('name')}", "bold")
    return (
        Text.assemble(name, " failed: ", (why, "red"))
        if _failed(job)
        else Text.assemble(name, " waits: ", (why, "yellow"))
    )


def _failed(job: dict[str, Any]) -> bool:
    return str(job.get("phase")) == "Failed"


def _why(job: dict[str, Any]) -> str:
    reason = job.get("reason") or {}
    return f"{reason.get('code')}: {reason.get('message')}" if reason.get("code") else ""


def _row(job: dict[str, Any], *, planned: bool) -> list[str | Text]:
    members = job.get("members") or {}
    phase = str(job.get("phase") or "–")
    return [
        str(job.get("namespace")),
        f"{job.get('kind')}/{job.get('name')}",
        str(job.get("queue") or "–"),
        str(job.get("priority") or 0),
        Text(phase, style=PHASE_STYLES.get(phase, "")),
        f"{members.get('running', 0)}/{max(members.get('total', 0), members.get('min', 0))}",
        number(job),
        age(job.get("submittedAt")),
        *((_planned(job.get("plannedStart") or {}),) if planned else ()),
        _why(job),
    ]


def _planned(plan: dict[str, Any]) -> str:
    when = ahead(plan.get("at"))
    return when if plan.get("firm", True) else f"expected {when} (tentative)"
