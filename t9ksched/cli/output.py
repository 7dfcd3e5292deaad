"""What commands print: tables for people, JSON for programs, errors on stderr.

Colour follows the terminal and `NO_COLOR`. Without a terminal tables are never cut to a width, so that `grep` finds
what it looks for.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from t9ksched.cli.failure import Failure
from t9ksched.cli.messages import book, translated, word
from t9ksched.packaged import folder

PIPE_WIDTH = 240
_NARROWEST = 12
"""So wide a column of text stays at least when a table is made to fit."""


class Output(StrEnum):
    """The form of the output: for people (table) or for programs (json)."""

    table = "table"
    json = "json"


def console(stream: TextIO | None = None) -> Console:
    """A console for `stream` (stdout unless given); wide enough for whole lines when it is not a terminal. What is
    printed there is for people: it is translated.
    """
    stream = stream or sys.stdout
    return console_of(file=stream, width=None if stream.isatty() else PIPE_WIDTH, soft_wrap=False)


def console_of(**settings: Any) -> Console:
    """A console with these settings of Rich, for people."""
    own = book()
    if own is None:
        return Console(highlight=False, **settings)
    from t9ksched.cli.messages.rendering import TranslatingConsole

    return TranslatingConsole(own, highlight=False, **settings)


def print_json(value: Any, *, indent: bool | None = None) -> None:
    """Print `value` as JSON: indented on a terminal, one line otherwise, unless told."""
    spread = sys.stdout.isatty() if indent is None else indent
    sys.stdout.write(json.dumps(value, indent=2 if spread else None, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[str] = ()) -> Table:
    """A borderless table; `right` names the columns of numbers."""
    result = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        side: Literal["left", "right"] = "right" if column in right else "left"
        result.add_column(word(column), justify=side, no_wrap=True)
    for row in rows:
        result.add_row(*map(_cell, row))
    return result


def _cell(cell: str | Text) -> Text:
    """A cell of a table: as Text, since brackets in it are no markup; with a style it is a word of ours."""
    if isinstance(cell, str):
        return Text(translated(cell))
    own = book()
    if own is None:
        return cell
    from t9ksched.cli.messages.rendering import styled

    return styled(cell, own)


def print_table(out: Console, rows: Table) -> None:
    """Print a table whole: where a terminal is too narrow for it the longest cells are folded; nothing is ever cut."""
    if not out.is_terminal and (lines := _lines(rows)) is not None:
        out.file.write(lines)
        return
    if out.is_terminal:
        _fold(out, rows)
    wide = Console(
        file=out.file,
        width=max(out.width, _needed(out, rows)),
        force_terminal=out.is_terminal,
        no_color=out.no_color,
        highlight=False,
    )
    with wide.capture() as shown:
        wide.print(rows, crop=False)
    out.file.write("\n".join(line.rstrip(" ") for line in shown.get().split("\n")))


def _needed(out: Console, rows: Table) -> int:
    return Measurement.get(out, out.options.update(max_width=10_000), rows).maximum


def _fold(out: Console, rows: Table) -> None:
    """Make a table fit if it can be: less room between columns, then the widest columns of text narrower. One that
    cannot fit stays as it is.
    """
    if _needed(out, rows) <= out.width:
        return
    rows.padding = (0, 2, 0, 0)
    widths = [
        max((cells_of(line) for cell in (column.header, *column.cells) for line in _plain(cell).split("\n")), default=0)
        for column in rows.columns
    ]
    texts = [at for at, column in enumerate(rows.columns) if column.justify != "right"]
    folded = list(widths)
    while (over := sum(folded) + 2 * (len(folded) - 1) - out.width) > 0:
        widest = max(texts, key=lambda at: folded[at], default=None)
        if widest is None or folded[widest] <= _NARROWEST:
            return
        others = max((folded[at] for at in texts if at != widest), default=0)
        folded[widest] = max(folded[widest] - over, min(others, folded[widest] - 1), _NARROWEST)
    for column, was, width in zip(rows.columns, widths, folded, strict=True):
        if width < was:
            column.no_wrap, column.overflow, column.width = False, "fold", width


def _lines(rows: Table) -> str | None:
    """The lines of a table of `table` without colours, as Rich prints them, which takes it most of a second for a
    thousand. None if a cell has several lines.
    """
    columns = [[str(column.header), *map(_plain, column.cells)] for column in rows.columns]
    right = [column.justify == "right" for column in rows.columns]
    if any("\n" in cell for column in columns for cell in column):
        return None
    rows_of_cells = list(zip(*columns, strict=True))
    return "".join(f"{line}\n" for line in lines_of(rows_of_cells, right))


def cells_of(text: str) -> int:
    """How many columns of a terminal a text takes: characters of Chinese and such take two, and few others not one."""
    return len(text) if text.isascii() else cell_len(text)


def padded(text: str, width: int) -> str:
    """A text with blanks behind it, so that it takes as many columns of a terminal."""
    return text + " " * (width - cells_of(text))


def lines_of(rows: Sequence[Sequence[str]], right: Sequence[bool], gap: int = 3) -> list[str]:
    """The lines of a table without blanks at their ends; `right` says which columns stand to the right."""
    sizes = [[cells_of(cell) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    between, lines = " " * gap, []
    for cells, used in zip(rows, sizes, strict=True):
        parts = []
        for cell, size, width, is_right in zip(cells, used, widths, right, strict=True):
            space = " " * (width - size)
            parts.append(space + cell if is_right else cell + space)
        lines.append(between.join(parts).rstrip(" "))
    return lines


def _plain(cell: object) -> str:
    return (cell.plain if isinstance(cell, Text) else str(cell)).expandtabs()


def paragraph(out: Console, text: str | Text) -> None:
    """Print prose: folded between words on a terminal, one line without one."""
    out.print(Text(text) if isinstance(text, str) else text, soft_wrap=not out.is_terminal)


def program() -> str:
    """How this program can be called again from here: by its name if the shell finds it, else by its path."""
    if shutil.which("t9ksched"):
        return "t9ksched"
    path = Path(sys.executable).with_name("t9ksched")
    return os.path.relpath(path) if path.exists() else f"{os.path.relpath(sys.executable)} -m t9ksched"


def example(name: str) -> str:
    """The path of a shipped example, as short as it can be from here."""
    path = str(folder("examples") / name)
    return min(os.path.relpath(path), path, key=len)


def print_failure(failure: Failure) -> None:
    """Print on stderr what went wrong, where, and what to do."""
    out = console(sys.stderr)
    title = Text(word("error"), style="bold red")
    if failure.name:
        title.append(f" {failure.name}", style="red")
    paragraph(out, Text.assemble(title, ": ", translated(failure.message)))
    for line in failure.details:
        paragraph(out, Text(f"  {line}"))
    if failure.remedy:
        paragraph(out, Text.assemble(("  → ", "bold"), failure.remedy))


def print_warnings(warnings: Iterable[Mapping[str, Any]], where: str = "") -> None:
    """Print the service's warnings on stderr; `where` is put before each path."""
    out = console(sys.stderr)
    for warning in warnings:
        place = f"{where}{warning.get('path', '')}"
        paragraph(out, Text.assemble(("warning", "bold yellow"), f": {place}: {warning.get('message', '')}"))


def ahead(moment: str | None, now: datetime | None = None) -> str:
    """How far ahead an RFC 3339 moment is, in its two largest units: `in 45s`, `in 1h25m`; `now` once it is there, `–`
    for none.
    """
    if not moment or (then := _read(moment)) is None:
        return "–"
    seconds = int((then - (now or datetime.now(UTC))).total_seconds())
    if seconds <= 0:
        return word("now")
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            count = f"{seconds // size}{unit}" + (f"{rest}{lower}" if rest else "")
            break
    else:
        count = f"{seconds}s"
    return f"in {count}"


def _read(moment: str) -> datetime | None:
    try:
        then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        return None
    return then.replace(tzinfo=UTC) if then.tzinfo is None else then


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago an RFC 3339 moment was, in its largest unit: `45s`, `12m`, `5h`, `3d`; `–` for none."""
    if not moment or (then := _read(moment)) is None:
        return "–"
    seconds = max(0, int(((now or datetime.now(UTC)) - then).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
