"""`t9ksched forecast-accuracy`: how close forecasts of starts came to what happened."""

from typing import Annotated, Any

import typer

from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, table

_FIGURES = ("medianWidthSeconds", "medianErrorSeconds", "p90ErrorSeconds")
_COLUMNS = ("BASIS", "JOBS", "BY LATEST", "IN INTERVAL", "MEDIAN WIDTH", "MEDIAN ERROR", "P90 ERROR")


@with_service
def forecast_accuracy(
    service: Service,
    last: Annotated[
        bool, typer.Option("--last", help="Judge the last forecast of each job, not the first one.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Show how close forecasts of starts came to what happened; a manager sees that of the queues managed."""
    report = service().get("/apis/v1/forecast-accuracy", which="last" if last else "first")
    if output is Output.json:
        print_json(report)
        return
    jobs, unknown = report["jobs"], report["unknown"]
    console().print(f"{jobs} jobs started after waiting; {unknown} of them had a forecast without a moment.")
    if rows := [_row(basis, figures) for basis, figures in report["byBasis"].items()]:
        if len(rows) > 1:
            rows.append(_row("all", report | {"jobs": jobs - unknown}))
        console().print()
        print_table(console(), table(_COLUMNS, rows, right=_COLUMNS[1:]))


def _row(name: str, figures: dict[str, Any]) -> list[str]:
    counts = (figures["jobs"], figures["startedByLatest"], figures["startedInInterval"])
    return [name, *map(str, counts), *(_seconds(figures[key]) for key in _FIGURES)]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} s"
