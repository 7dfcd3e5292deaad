"""`t9ksched jobs`: what was submitted, how far it is, and why it waits or failed."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.commands.stops import note
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import Patience
from t9ksched.cli.joblist import COLUMNS, CUSTOM, USUAL, Job, columns_of, print_lines, sorted_by, table_lines, why
from t9ksched.cli.messages import translated, word
from t9ksched.cli.options import Service, with_service
from t9ksched.cli.output import console, example, paragraph, print_json, program

_FORMS: Final = ("table", "wide", "json")
_SETTLE_SECONDS: Final = 0.5
"""Between two looks at a list in which much changes."""
_NAMED: Final = 3
"""Jobs that are named where several have the same reason."""
_Query = dict[str, Any]


@with_service
def jobs(
    service: Service,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace (default: all).")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only those that you submitted.")] = False,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="USER", help="Only of this user; repeatable.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue; repeatable.")
    ] = None,
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Such as Running or Pending; repeatable.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Those that are deleted, too.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", metavar="[-]COLUMN", help="By this column, with - the other way round.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and show what changes, until Ctrl-C.")] = False,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="table|wide|json|custom-columns=…",
            help="For people (table, wide), for programs (json), or columns such as JOB,WHO:.submitter.",
        ),
    ] = "table",
) -> None:
    """List jobs: their user, queue, phase, members, cards, place and start, and why they wait or failed."""
    if output not in _FORMS and not output.startswith(CUSTOM):
        raise Failure(
            f"-o {output} is no form of output.",
            remedy="It is table, wide, json, or custom-columns=JOB,QUEUE,WHO:.submitter",
            code=BAD_USAGE,
        )
    shown = _Shown(output, sort)
    client = service()
    users = list(user or [])
    if mine:
        users.append(str(client.get("/apis/v1/whoami")["user"]))
    query: _Query = {"namespace": namespace, "queue": queue or None, "phase": phase or None, "user": users or None}
    query["deleted"] = "true" if all_ else None
    if watch:
        _watch(replace(client, quiet=True), query, shown, console())
        return
    answer = _answer(client, query)
    if output == "json":
        print_json(answer | {"items": shown.ordered(answer["items"])})
    elif not answer["items"]:
        console().print(_none(query))
    else:
        shown.show(answer["items"], console())
    if output == "table":
        note(answer.get("stopped") or (), console())


class _Shown:
    """How the list is shown: in which form and order. Raises Failure (bad usage) for columns that there are not."""

    def __init__(self, output: str = "table", sort: str = "") -> None:
        self.output = output
        self.sort = sort
        self.columns = columns_of(output) if output.startswith(CUSTOM) else [COLUMNS[name] for name in USUAL]
        if output == "wide":
            self.columns = list(COLUMNS.values())
        self.ordered([])

    def ordered(self, items: Iterable[Job]) -> list[Job]:
        """The jobs in the order that was asked for."""
        return sorted_by(items, self.sort) if self.sort else list(items)

    def show(self, items: Sequence[Job], out: Console, most: int | None = None) -> None:
        """Print the table, at most so many lines of it; on a terminal reasons stand below as sentences."""
        items = self.ordered(items)
        fits = self.output == "table" and out.is_terminal
        columns = [one for one in self.columns if not (fits and one.name == "WHY")]
        lines = table_lines(items, columns, out.width if fits else None, short=fits)
        print_lines(lines if most is None else lines[:most], items, out)
        if most is not None and len(lines) > most:
            out.print(f"… and {len(lines) - most} more")
        elif fits and most is None:
            _show_reasons(items, out)


def show(items: Sequence[Job], out: Console) -> None:
    """Print job shapes as the usual table."""
    _Shown().show(items, out)


def _show_reasons(items: Iterable[Job], out: Console) -> None:
    """Say why jobs wait or failed, those with the same reason together."""
    found: dict[tuple[bool, str], list[str]] = {}
    for job in items:
        if text := why(job):
            failed = str(job.get("phase")) == "Failed"
            found.setdefault((failed, text), []).append(f"{job.get('kind')}/{job.get('name')}")
    if found:
        out.print()
    for (failed, text), names in found.items():
        named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        says = word("failed") if failed else word("waits") if len(names) == 1 else word("wait")
        style = "red" if failed else "yellow"
        paragraph(out, Text.assemble((translated(named), "bold"), f" {says}: ", (translated(text), style)))


def _answer(client: Client, query: _Query) -> dict[str, Any]:
    return dict(client.get("/apis/v1/workloads", **query))


def _none(query: Mapping[str, Any]) -> str:
    """What to say of an empty list."""
    named = {
        "in queue": query["queue"],
        "in namespace": query["namespace"],
        "in phase": query["phase"],
        "of user": query["user"],
    }
    where = " and ".join(
        f"{what} {' or '.join([name] if isinstance(name, str) else name)}" for what, name in named.items() if name
    )
    text = f"No jobs {where}." if where else "No jobs."
    return f"{text} Submit one: {program()} submit {example('pytorch.yaml')}"


def _watch(client: Client, query: _Query, shown: _Shown, out: Console) -> None:
    """Show the list again whenever it changes: on a terminal in place of the last one, else the jobs that changed."""
    changes = client.changes(about="job", namespace=query["namespace"], queue=query["queue"], user=query["user"])
    last: dict[str, Any] = {}
    first = True
    patience = Patience()
    while True:
        answer = patience.ask(lambda: _answer(client, query))
        if answer is None:
            changes.wait()
            continue
        items = answer["items"]
        now = {job["uid"]: job for job in items}
        gone = [last[uid] | {"phase": "Deleted"} for uid in last if uid not in now]
        new = [job for uid, job in now.items() if _differs(last.get(uid), job)]
        if out.is_terminal and shown.output != "json":
            if first or new or gone:
                out.clear()
                shown.show(items, out, most=max(2, out.height - 2)) if items else out.print(_none(query))
        elif shown.output == "json":
            for job in (*new, *gone):
                print_json(job, indent=False)
        elif first or new or gone:
            lines = table_lines([*new, *gone], shown.columns, None)
            out.file.write("".join(f"{line.rstrip()}\n" for line in lines[not first :]))
            out.file.flush()
        last, first = now, False
        time.sleep(_SETTLE_SECONDS)
        changes.wait()


def _differs(before: Job | None, now: Job) -> bool:
    """Whether a job is not as it was, apart from forecasts, which move with the clock."""
    return before is None or {**before, "expectedStart": None} != {**now, "expectedStart": None}
