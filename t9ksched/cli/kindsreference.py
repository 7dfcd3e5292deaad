"""Writes the tables of kinds and of edits into `docs/reference/workloads.md`; a test keeps both as the code says."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from t9ksched.workloads.changes import CHANGES, When
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import ROWS

BEGIN: Final = "<!-- kinds: written by `make reference` -->"
END: Final = "<!-- end of kinds -->"
CHANGES_BEGIN: Final = "<!-- changes: written by `make reference` -->"
CHANGES_END: Final = "<!-- end of changes -->"
_NATIVE: Final = ("", "apps", "batch")


def table() -> str:
    """The kinds of the platform and of Kubernetes that can name a queue, a row for each."""
    rows = [_row(kind) for kind in ROWS if kind.reader and _is_ours(kind)]
    head = "| Kind | Other names | API | Queue and priority | Pods |\n| --- | --- | --- | --- | --- |"
    return "\n".join([BEGIN, head, *rows, END])


def _is_ours(kind: Kind) -> bool:
    group = kind.resource.group
    return group in _NATIVE or group.endswith("tensorstack.dev")


def _row(kind: Kind) -> str:
    names = ", ".join(f"`{name}`" for name in kind.short)
    return f"| {kind.name} | {names} | `{kind.api_version}` | {_queue(kind)} | {_pods(kind)} |"


def _queue(kind: Kind) -> str:
    if kind.block:
        return f"`{'.'.join((*kind.block, 't9kScheduler'))}`"
    if kind.pod is None:
        return "`spec.queue`, `spec.priority`"
    if not kind.pod:
        return "label `scheduler.tensorstack.dev/queue`, `spec.schedulerName: t9k-scheduler`"
    return f"the same label and field on `{'.'.join(kind.pod)}`"


def _pods(kind: Kind) -> str:
    if kind.controlled:
        return "made by t9ksched"
    if kind.name in _OTHERWISE:
        return _OTHERWISE[kind.name]
    return "made by Kubernetes" if kind.resource.group in _NATIVE else "read and judged, made by others"


_OTHERWISE: Final = {
    "Project": "none; for information",
    "PodGroup": "Pods you make",
    "Pod": "itself",
    "WorkflowRun": "those of its steps, made by others",
}


def changes() -> str:
    """The fields of the kinds that t9ksched runs, with what may become of them; fields that are alike in one row."""
    rows: dict[tuple[When, str], dict[tuple[str, ...], list[str]]] = {}
    fields: dict[str, dict[str, tuple[When, str]]] = {}
    for kind, table in CHANGES.items():
        for change in table:
            fields.setdefault(change.field, {})[kind] = change.when, change.effect
    for field, by_kind in fields.items():
        for said in dict.fromkeys(by_kind.values()):
            kinds = tuple(kind for kind, other in by_kind.items() if other == said)
            rows.setdefault(said, {}).setdefault(kinds, []).append(field)
    head = "| Field of the spec | Of | May change | What follows |\n| --- | --- | --- | --- |"
    order = list(When)
    lines = [
        f"| {', '.join(f'`{field}`' for field in named)} | {', '.join(kinds)} | {when} | {effect} |"
        for (when, effect), groups in sorted(rows.items(), key=lambda row: order.index(row[0][0]))
        for kinds, named in groups.items()
    ]
    return "\n".join([CHANGES_BEGIN, head, *lines, CHANGES_END])


def with_table(page: str) -> str:
    """The page with the tables as they are now.

    Raises:
        ValueError: the page has no place for one of them.
    """
    page = _with(page, BEGIN, END, table())
    return _with(page, CHANGES_BEGIN, CHANGES_END, changes())


def _with(page: str, begin: str, end: str, text: str) -> str:
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no lines {begin} and {end}")
    return before + text + after


def _main(arguments: Iterator[str]) -> None:
    for name in arguments:
        path = Path(name)
        path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    _main(iter(sys.argv[1:]))
