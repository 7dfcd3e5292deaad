"""`t9ksched jobs`: what was submitted, how far it is, and why it waits."""

from typing import Annotated, Any

import typer
from rich.text import Text

from t9ksched.cli.options import DataDirOption, OutputOption, ServerOption, TokenOption, connect
from t9ksched.cli.output import Output, age, console, example, print_json, program, table

PHASE_STYLES = {
    "Running": "green",
    "Waiting": "yellow",
    "Pending": "yellow",
    "Starting": "cyan",
    "Succeeded": "blue",
    "Failed": "red",
    "Refused": "red",
}


def jobs(
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace (default: all).")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue.")] = None,
    output: OutputOption = Output.table,
    server: ServerOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs: their queue, phase, members and cards, and what the waiting ones wait for."""
    items = fetch(connect(server, token, data_dir), namespace, queue)
    if output is Output.json:
        print_json(items)
    elif not items:
        console().print(f"No jobs. Submit one: {program()} submit -f {example('pytorch.yaml')}")
    else:
        console().print(render(items))


def fetch(client: Any, namespace: str | None = None, queue: str | None = None) -> list[dict[str, Any]]:
    """The jobs the service knows, as job shapes."""
    return list(client.get("/apis/v1/workloads", namespace=namespace, queue=queue)["items"])


def render(items: list[dict[str, Any]]) -> Any:
    """A table of job shapes."""
    columns = ("NAMESPACE", "JOB", "QUEUE", "PRIO", "PHASE", "READY", "GPUS", "AGE", "WHY")
    return table(columns, [_row(job) for job in items], right=("PRIO", "GPUS"))


def _row(job: dict[str, Any]) -> list[str | Text]:
    members = job.get("members") or {}
    phase = str(job.get("phase") or "–")
    reason = job.get("reason") or {}
    why = f"{reason.get('code')}: {reason.get('message')}" if reason.get("code") else ""
    return [
        str(job.get("namespace")),
        f"{job.get('kind')}/{job.get('name')}",
        str(job.get("queue") or "–"),
        str(job.get("priority") or 0),
        Text(phase, style=PHASE_STYLES.get(phase, "")),
        f"{members.get('running', 0)}/{members.get('total', 0)}",
        str(job.get("gpus") or 0),
        age(job.get("submittedAt")),
        why,
    ]
