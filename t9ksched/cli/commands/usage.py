"""`t9ksched usage`: GPU-hours, how many of them passed before a job ran, and what suspending the idle was worth."""

import csv
import sys
from typing import Annotated

import typer

from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, table


@with_service
def usage(
    service: Service,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="queue, user, namespace, model, resource, month, job, node or card; default queue.",
        ),
    ] = None,
    month: Annotated[str | None, typer.Option("--month", metavar="YYYY-MM", help="One month (UTC).")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Such as 2031-05-01T00:00:00Z.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Default now.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV, for spreadsheets and billing.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Show GPU-hours of your jobs; a manager sees those of the queues managed too, an administrator all."""
    groups = [name for text in by or ["queue"] for name in text.split(",")]
    client = service()
    report = client.call(
        "GET", "/apis/v1/usage", query={"by": groups, "month": month, "since": since, "until": until}
    ).body
    columns = [*groups, "gpuHours", "heldHours", "jobs", "idleHours", "freeHours"]
    if output is Output.json:
        print_json(report)
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(report["items"])
    else:
        rows = [_row(row, groups) for row in report["items"]]
        if len(rows) != 1:
            rows.append(_row(dict.fromkeys(groups, "") | report["total"] | {groups[0]: "total", "jobs": ""}, groups))
        number_columns = ("GPU HOURS", "HELD BEFORE RUN", "JOBS", "IDLE", "FREED")
        print_table(console(), table((*(name.upper() for name in groups), *number_columns), rows, right=number_columns))


def _row(row: dict[str, object], groups: list[str]) -> list[str]:
    idle, free = row.get("idleHours", 0.0), row.get("freeHours", 0.0)  # services before tell neither
    hours = f"{row['gpuHours']:.2f}", f"{row['heldHours']:.2f}"
    return [*(str(row[name]) for name in groups), *hours, str(row["jobs"]), f"{idle:.2f}", f"{free:.2f}"]
