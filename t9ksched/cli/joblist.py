"""The list of jobs on a terminal, in files and for programs: which columns there are, and how they fit its width."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Console

from t9ksched.cli.cards import number
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.messages import translated, word
from t9ksched.cli.output import age, ahead, cells_of, lines_of
from t9ksched.model.job import FINISHED
from t9ksched.workloads.registry import SHORT_NAMES

Job = Mapping[str, Any]
CUSTOM: Final = "custom-columns="
_PATH: Final = re.compile(r"\.?([A-Za-z][A-Za-z0-9_-]*)|\[([0-9]+)\]|\['([^']*)'\]")
_SHORT: Final = {kind: short for short, kind in reversed(SHORT_NAMES.items()) if short != kind.lower()}
"""The first short name of each kind that has one."""


class Column(NamedTuple):
    """A column: what stands in it, what it is sorted by, and the least width that it may be cut to; 0 for never."""

    name: str
    shown: Callable[[Job], str]
    key: Callable[[Job], Any]
    right: bool = False
    least: int = 0


def _members(job: Job) -> str:
    members = job.get("members") or {}
    return f"{members.get('running', 0)}/{max(members.get('total', 0), members.get('min', 0))}"


def start(job: Job) -> str:
    """When it started, or when it is to: `5m ago`, `in 2h`, `~ 3d` for what is expected and binds nobody."""
    if job.get("startedAt"):
        return f"{age(job['startedAt'])} ago"
    if str(job.get("phase")) in FINISHED:
        return "–"
    if plan := job.get("plannedStart"):
        when = ahead(plan.get("at"))
        return when if plan.get("firm", True) else f"~ {when}"
    expected = (job.get("expectedStart") or {}).get("latest")
    return f"~ {ahead(expected)}" if expected else "–"


def _start_key(job: Job) -> Any:
    plan, expected = job.get("plannedStart") or {}, job.get("expectedStart") or {}
    return job.get("startedAt") or plan.get("at") or expected.get("latest")


def why(job: Job) -> str:
    """Why it waits or failed."""
    reason = job.get("reason") or {}
    return f"{reason.get('code')}: {reason.get('message')}" if reason.get("code") else ""


def _text(name: str) -> Callable[[Job], str]:
    return lambda job: str(job.get(name) or "–")


def _limit(job: Job) -> str:
    """Its time limit; a `~` before it says that it is only how long jobs like it ran, which ends nothing."""
    limit = job.get("timeLimit") or {}
    seconds = limit.get("seconds")
    if seconds is None:
        return "–"
    from t9ksched.model.timelimit import written

    return f"~{written(seconds)}" if limit.get("source") == "learned" else written(seconds)


COLUMNS: Final = {
    column.name: column
    for column in (
        Column("NAMESPACE", _text("namespace"), lambda job: job.get("namespace"), least=6),
        Column("JOB", lambda job: f"{job.get('kind')}/{job.get('name')}", lambda job: job.get("name"), least=16),
        Column("USER", _text("submitter"), lambda job: job.get("submitter"), least=6),
        Column("QUEUE", _text("queue"), lambda job: job.get("queue"), least=6),
        Column("PRIO", lambda job: str(job.get("priority") or 0), lambda job: job.get("priority") or 0, right=True),
        Column("PHASE", _text("phase"), lambda job: job.get("phase")),
        Column("READY", _members, lambda job: (job.get("members") or {}).get("running", 0)),
        Column("GPUS", number, lambda job: job.get("cards") or job.get("gpus") or 0, right=True),
        Column("POS", lambda job: str(job.get("position") or "–"), lambda job: job.get("position"), right=True),
        Column("START", start, _start_key, least=6),
        Column("AGE", lambda job: age(job.get("submittedAt")), lambda job: job.get("submittedAt")),
        Column("LIMIT", _limit, lambda job: (job.get("timeLimit") or {}).get("seconds")),
        Column("GROUP", _text("group"), lambda job: job.get("group")),
        Column("SUBMITTED", _text("submittedAt"), lambda job: job.get("submittedAt")),
        Column("FINISHED", _text("finishedAt"), lambda job: job.get("finishedAt")),
        Column("WHY", why, why),
    )
}
USUAL: Final = ("NAMESPACE", "JOB", "USER", "QUEUE", "PRIO", "PHASE", "READY", "GPUS", "POS", "START", "AGE", "WHY")
_DROPPED: Final = ("AGE", "PRIO", "READY")
"""What a narrow terminal does without first, in this order."""


def sorted_by(items: Iterable[Job], text: str) -> list[Job]:
    """The jobs in the order of a column, `-COLUMN` for the other way round; those without a value last.

    Raises:
        Failure: there is no such column.
    """
    column = _column(text.removeprefix("-"), "--sort")
    known = [job for job in items if column.key(job) is not None]
    rest = [job for job in items if column.key(job) is None]
    return sorted(known, key=column.key, reverse=text.startswith("-")) + rest


def columns_of(text: str) -> list[Column]:
    """The columns of `custom-columns=NAME:PATH,…`, in which a name alone is one of ours.

    Raises:
        Failure: one is none.
    """
    found = []
    for entry in text.removeprefix(CUSTOM).split(","):
        name, colon, path = entry.strip().partition(":")
        if not colon:
            found.append(_column(name, "-o custom-columns"))
            continue
        keys = _keys(path)
        found.append(Column(name or path, lambda job, keys=keys: _at(job, keys), lambda job: None))  # type: ignore[misc]
    return found


def table_lines(
    items: Sequence[Job], columns: Sequence[Column], width: int | None, *, short: bool = False
) -> list[str]:
    """The lines of a table, its head first; with `width` it fits so many columns of characters. `short` names kinds as
    `pj` does.
    """
    shown = [[_cell(job, column, short=short) for column in columns] for job in items]
    chosen = list(range(len(columns)))
    rows = [[word(column.name) for column in columns], *shown]
    if width is not None:
        chosen = _chosen(rows, columns, width)
    rows = [[row[at] for at in chosen] for row in rows]
    columns = [columns[at] for at in chosen]
    if width is not None:
        rows = _cut(rows, columns, width)
    gap = 2 if width is not None else 3
    return lines_of(rows, [column.right for column in columns], gap)


def short_name(job: Job) -> str:
    """`pj/resnet`: a job by the short name of its kind."""
    kind = str(job.get("kind"))
    return f"{_SHORT.get(kind, kind.lower())}/{job.get('name')}"


def _cell(job: Job, column: Column, *, short: bool) -> str:
    return short_name(job) if short and column.name == "JOB" else translated(column.shown(job))


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cells_of(cell) for cell in column) for column in zip(*rows, strict=True)]


def _chosen(rows: Sequence[Sequence[str]], columns: Sequence[Column], width: int) -> list[int]:
    """The places of the columns that stay: without those that say the same of all, and without the least important."""
    widths = _widths(rows)
    left = list(range(len(columns)))

    def least() -> int:
        return _width([min(widths[at], columns[at].least or widths[at]) for at in left])

    for name in ("NAMESPACE", *_DROPPED):
        at = next((place for place in left if columns[place].name == name), None)
        if at is None or _width([widths[place] for place in left]) <= width:
            continue
        same = len({row[at] for row in rows[1:]}) <= 1
        if (name == "NAMESPACE" and same) or (name != "NAMESPACE" and least() > width):
            left.remove(at)
    return left


def _cut(rows: list[list[str]], columns: Sequence[Column], width: int) -> list[list[str]]:
    """The rows with the widest of the columns that may be cut so short that all fit, as far as that is possible."""
    widths = _widths(rows)
    while _width(widths) > width:
        may = [at for at, column in enumerate(columns) if column.least and widths[at] > column.least]
        if not may:
            break
        widest = max(may, key=lambda at: widths[at] - columns[at].least)
        widths[widest] -= 1
    return [
        [shortened(cell, most) if cells_of(cell) > most else cell for cell, most in zip(row, widths, strict=True)]
        for row in rows
    ]


def shortened(text: str, most: int) -> str:
    """The text with its middle left out, so that both its beginning and its end can be read."""
    if cells_of(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{_begin(text, most - 1 - end)}…{_begin(text[::-1], end)[::-1]}"


def _begin(text: str, most: int) -> str:
    """As many first characters as fit into so many columns of a terminal."""
    if text.isascii():
        return text[:most]
    while cells_of(text) > most:
        text = text[:-1]
    return text


def _column(name: str, option: str) -> Column:
    column = COLUMNS.get(name.upper())
    if column is None:
        raise Failure(
            f"{option}: there is no column {name!r}.",
            remedy=f"Columns are {', '.join(COLUMNS)}; of custom columns also NAME:.path, such as WHO:.submitter",
            code=BAD_USAGE,
        )
    return column


def _keys(path: str) -> list[str | int]:
    keys: list[str | int] = []
    place = 0
    while place < len(path):
        found = _PATH.match(path, place)
        if found is None:
            raise Failure(
                f"-o custom-columns: {path!r} is no path.",
                remedy="Write it like .members.running or .labels['example.com/team']",
                code=BAD_USAGE,
            )
        keys.append(int(found[2]) if found[2] else found[1] or found[3])
        place = found.end()
    return keys


def _at(job: Job, keys: Sequence[str | int]) -> str:
    value: Any = job
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return "<none>"
    return "<none>" if value is None else str(value)


def print_lines(lines: Sequence[str], items: Iterable[Job], out: Console) -> None:
    """Print the lines of a table as they are, the head first; with its colours on a terminal that has some.

    Rich takes most of a second to print a thousand.
    """
    if not out.is_terminal or out.color_system is None or out.no_color:
        out.file.write("".join(f"{line.rstrip()}\n" for line in lines))
        return
    from rich.console import COLOR_SYSTEMS
    from rich.style import Style

    system = COLOR_SYSTEMS[out.color_system]
    styles = {phase: Style.parse(style).render(phase, color_system=system) for phase, style in PHASE_STYLES.items()}
    head, *rows = lines
    text = [Style.parse("bold").render(head.rstrip(), color_system=system)]
    for line, job in zip(rows, items, strict=False):
        phase = str(job.get("phase"))
        text.append(line.rstrip().replace(f" {phase}", f" {styles.get(phase, phase)}", 1))
    out.file.write("\n".join(text) + "\n")
