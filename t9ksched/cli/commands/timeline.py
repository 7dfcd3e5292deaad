"""`t9ksched timeline`: what runs until when, what is planned and what is reserved, as bars on a time axis."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.cards import coloured
from t9ksched.cli.gantt import Axis, Bar
from t9ksched.cli.messages import translated, word
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, table

_FEWEST_CELLS: Final = 24
_PIPE_CELLS: Final = 96
"""Characters of a bar in a file or pipe, which has no width of its own."""
_LONGEST_NAME: Final = 32
_ROOMY: Final = 110
"""On a terminal of so many columns there is room to write times beside the bars."""


class By(StrEnum):
    """What the rows are grouped by."""

    nodes = "nodes"
    queues = "queues"


class _Row(NamedTuple):
    """A row of bars: its group, whose it is, how many cards it has there, and the items of the timeline: one, or each
    time of a reservation that repeats; none where nothing is there.
    """

    group: str
    name: str
    gpus: int
    items: tuple[dict[str, Any], ...] = ()


@with_service
def timeline(
    service: Service,
    hours: Annotated[int, typer.Option("--hours", min=1, max=8760, help="How far ahead to look.")] = 24,
    by: Annotated[By, typer.Option("--by", help="A group of rows for each node, or for each queue.")] = By.nodes,
    output: OutputOption = Output.table,
) -> None:
    """Draw what runs until when, planned starts and reservations as bars on a time axis."""
    answer = service().get("/apis/v1/timeline", hours=hours)
    if output is Output.json:
        print_json(answer)
    else:
        show(answer, by, console())


def show(answer: dict[str, Any], by: By, out: Console, zone: tzinfo | None = None) -> None:
    """Print a timeline shape; `zone` is that of the times, None for this machine's."""
    rows = list(_of_nodes(answer) if by is By.nodes else _of_queues(answer))
    start, end = datetime.fromisoformat(answer["at"]), datetime.fromisoformat(answer["to"])
    texts = not out.is_terminal or out.width >= _ROOMY
    first = "NODE" if by is By.nodes else "QUEUE"
    columns = (first, "JOB", "GPUS", *(("WHEN",) if texts else ()))
    measure = Axis(start, end, _PIPE_CELLS, coloured=coloured(out), zone=zone)
    heads = [_head(row, measure, texts=texts, cut=out.is_terminal) for row in _named_once(rows)]
    widths = [max(map(len, column)) for column in zip(columns, *heads, strict=True)]
    room = out.width - sum(widths) - 3 * (len(widths) + 1)
    cells = max(_FEWEST_CELLS, room) if out.is_terminal else _PIPE_CELLS
    axis = Axis(start, end, cells, coloured=coloured(out), zone=zone)
    out.print(f"{axis.local(start):%Y-%m-%d %H:%M %Z}, the next {round((end - start).total_seconds() / 3600)} h")
    if not rows:
        out.print("There are no nodes." if by is By.nodes else "Nothing runs, and nothing is planned or reserved.")
        return
    bars = [_bar(row, axis) for row in rows]
    lines: list[list[str | Text]] = [[*head, bar] for head, bar in zip(heads, bars, strict=True)]
    print_table(out, table((*columns, axis.labels()), lines, right=("GPUS",)))
    items = [item for row in rows for item in row.items]
    if items:
        out.print()
        out.print(axis.legend({_kind(item) for item in items}, open_ended=any(not item["until"] for item in items)))


def _of_nodes(answer: dict[str, Any]) -> Iterator[_Row]:
    """A row for each item of each node; one for a node without any."""
    there: dict[str, list[_Row]] = {node["name"]: [] for node in answer["nodes"]}
    for item in answer["items"]:
        for place in item["nodes"]:
            there.setdefault(place["name"], []).append(_Row(place["name"], _name(item), place["gpus"], (item,)))
    for name, rows in there.items():
        yield from _together(rows) or [_Row(name, word("free"), 0)]


def _of_queues(answer: dict[str, Any]) -> Iterator[_Row]:
    """A row for each item; what no queue pays for comes last."""
    rows = _together(_Row(item["queue"] or "–", _name(item), item["gpus"], (item,)) for item in answer["items"])
    return iter(sorted(rows, key=lambda row: (row.group == "–", row.group)))


def _together(rows: Iterable[_Row]) -> list[_Row]:
    """The rows, those of a reservation that repeats as one."""
    found: dict[object, _Row] = {}
    for at, row in enumerate(rows):
        key = row.items[0].get("reservation") or at
        known = found.get(key)
        found[key] = row if known is None else known._replace(items=known.items + row.items)
    return list(found.values())


def _named_once(rows: Iterable[_Row]) -> Iterator[_Row]:
    """The rows, each group named in its first one alone."""
    last = ""
    for row in rows:
        yield row._replace(group="") if row.group == last else row
        last = row.group


def _head(row: _Row, axis: Axis, *, texts: bool, cut: bool) -> list[str]:
    name = row.name if len(row.name) <= _LONGEST_NAME or not cut else f"…{row.name[1 - _LONGEST_NAME :]}"
    first, more = row.items[:1], len(row.items) - 1
    when = "".join(axis.when(*_span(item), runs=item["kind"] == Bar.RUNNING) for item in first)
    when += f" (+{more})" if more > 0 else ""
    return [row.group, name, str(row.gpus or "–"), *((when,) if texts else ())]


def _bar(row: _Row, axis: Axis) -> Text:
    return axis.bars(_kind(row.items[0]), map(_span, row.items)) if row.items else Text()


def _span(item: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    since, until = (datetime.fromisoformat(item[key]) if item.get(key) else None for key in ("from", "until"))
    return since, until


def _kind(item: dict[str, Any]) -> Bar:
    """Reservations of every kind but planned starts look alike; JOB says what they are for."""
    if item["kind"] == Bar.PLANNED:
        return Bar.PLANNED if item.get("firm") else Bar.TENTATIVE
    return Bar.RUNNING if item["kind"] == Bar.RUNNING else Bar.RESERVED


def _name(item: dict[str, Any]) -> str:
    """Whose it is; of reservations but planned starts also what it is for."""
    if reservation := item.get("reservation"):
        return translated(f"reservation {reservation}")
    namespace, job = item.get("namespace"), item.get("job")
    name = "another user's" if job is None else f"{namespace}/{job}" if namespace else str(job)
    return f"{name} ({item['kind']})" if _kind(item) is Bar.RESERVED else name
