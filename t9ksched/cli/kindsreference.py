"""Writes the table of kinds into `docs/reference/workloads.md` from the registry; a test keeps the two equal."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import ROWS

BEGIN: Final = "<!-- kinds: written by `make reference` -->"
END: Final = "<!-- end of kinds -->"
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
    "WorkflowRun": "none are read; made by others",
}


def with_table(page: str) -> str:
    """The page with the table as it is now.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN} and {END}")
    return before + table() + after


def _main(arguments: Iterator[str]) -> None:
    for name in arguments:
        path = Path(name)
        path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    _main(iter(sys.argv[1:]))
