"""`t9ksched import`: the queues of another scheduler as queues of ours, and what became of each of their fields.

Everything is read and checked before anything is written, and what was written is taken back if the rest is refused.
Importing again changes only what changed there: fields that an import does not write, and members, stay as they are.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.given import pairs
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, table
from t9ksched.cli.queuechanges import ADMIN, Change, differences, files_below, send, show
from t9ksched.importing.report import ORIGIN_LABEL, Choices, Json, Report

if TYPE_CHECKING:
    from t9ksched.importing.objects import Document

_SHOWN = 60
"""Characters of a value in the table."""


class SystemName(StrEnum):
    """The schedulers that queues can come from."""

    kueue = "kueue"
    volcano = "volcano"
    kai = "kai"


class Taken(StrEnum):
    """What becomes the quota."""

    most = "most"
    own = "own"


class Flavors(StrEnum):
    """What becomes of a queue with several kinds of nodes."""

    apart = "split"
    together = "together"


@with_service
def import_(
    service: Service,
    system: Annotated[SystemName, typer.Argument(help="The scheduler that the queues come from.")],
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="DIR", help="A folder of YAML or JSON files, or one file.")
    ] = None,
    from_cluster: Annotated[bool, typer.Option("--from-cluster", help="Read the objects from the cluster.")] = False,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            envvar="T9KSCHED_KUBECONFIG",
            metavar="PATH",
            help="With --from-cluster: that cluster (default: as kubectl finds it).",
        ),
    ] = None,
    quota: Annotated[
        Taken,
        typer.Option("--quota", help="The quota: the most that a queue may hold there, or what it has of its own."),
    ] = Taken.most,
    flavors: Annotated[
        Flavors,
        typer.Option("--flavors", help="Of Kueue: a queue for each flavor of its cards, or one with their sum."),
    ] = Flavors.apart,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Another name for a queue; repeatable.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="QUEUE", help="Leave a queue out; repeatable.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also change queues of the same name that no import made.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the queues as YAML, and write nothing.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Make queues of those of Kueue, Volcano or KAI, and say what became of each field.

    The report goes to stderr; with --dry-run the queues go to stdout, as `queues apply -f` takes them.
    """
    choices = Choices(
        own=quota is Taken.own,
        together=flavors is Flavors.together,
        names=pairs(rename or (), "--rename OLD=NEW"),
        without=frozenset(skip or ()),
    )
    report = _translated(system, file, kubeconfig, from_cluster, choices)
    if dry_run:
        if output is Output.json:
            print_json(_as_json(report, {}))
        else:
            _told(report)
            _print_queues(report)
        return
    client = service()
    there = {queue["name"]: queue for queue in client.get(ADMIN)["items"]}
    if not overwrite:
        _refuse_clashes(report, there)
    changes = list(differences(_merged(report.queues, there), there, prune=False))
    if output is not Output.json:
        _told(report)
        for change in changes:
            show(change, console())
    _carry_out(client, changes)
    verbs = {change.name: change.verb for change in changes}
    if output is Output.json:
        print_json(_as_json(report, {name: verbs.get(name, "none") for name in report.queues}))
        return
    made = sum(verb == "create" for verb in verbs.values())
    console().print(f"{made} created, {len(verbs) - made} changed, {len(report.queues) - len(verbs)} were so already")


def _translated(
    system: SystemName, file: Path | None, kubeconfig: Path | None, from_cluster: bool, choices: Choices
) -> Report:
    """Read and translate; raises Failure for anything that prevents the import."""
    from t9ksched.importing.systems import SYSTEMS, translate

    if (file is None) is not from_cluster:
        raise Failure(
            "Say where the objects are: in files or in the cluster.",
            remedy=f"Write t9ksched import {system} -f DIR, or --from-cluster.",
            code=BAD_USAGE,
        )
    chosen = SYSTEMS[system]
    faults: list[str] = []
    if file is not None:
        documents = list(_documents(file, faults))
    else:
        from t9ksched.cli.clusterobjects import documents_of

        documents = documents_of(chosen, kubeconfig)
    report, others = translate(chosen, documents, choices)
    faults += report.faults
    where = str(file) if file is not None else "the cluster"
    if faults:
        one = f"There is a fault in {where}; nothing was changed."
        several = f"There are {len(faults)} faults in {where}; nothing was changed."
        raise Failure(one if len(faults) == 1 else several, details=faults)
    if unused := report.unused_names():
        raise Failure(
            f"No queue would have the name {', '.join(unused)}.",
            remedy="--rename and --skip take the names that --dry-run shows without them.",
            code=BAD_USAGE,
        )
    if not report.queues and not choices.without:
        text = f"{where} has no queues of {chosen.title} that take jobs."
        apart = f"{others} objects of other groups were passed over." if others else ""
        raise Failure(text, details=[apart] if apart else (), remedy=f"Objects of {chosen.kinds.group} are read.")
    return report


def _documents(path: Path, faults: list[str]) -> "Iterator[Document]":
    from t9ksched.importing.objects import Document
    from t9ksched.model.text import YamlFault, read_all

    for file in files_below(path):
        try:
            documents = read_all(file.read_text())
        except YamlFault as error:
            faults.append(f"{file}: cannot be read: {' '.join(str(error).split())}")
            continue
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{file}: cannot be read: {error}")
            continue
        for index, value in enumerate(documents):
            yield Document(f"{file}[{index}]" if len(documents) > 1 else str(file), value)


def _refuse_clashes(report: Report, there: dict[str, Json]) -> None:
    """Leave alone what somebody else made. Raises Failure."""
    clashes = [
        name
        for name in report.queues
        if name in there and (there[name].get("labels") or {}).get(ORIGIN_LABEL) != report.system
    ]
    if clashes:
        raise Failure(
            f"There are queues that no import from {report.system} made: {', '.join(clashes)}; nothing was changed.",
            remedy=f"Give them other names (--rename {clashes[0]}=NAME), leave them out (--skip {clashes[0]}),"
            " or change those that are there (--overwrite).",
        )


def _merged(wanted: dict[str, Json], there: dict[str, Json]) -> dict[str, Json]:
    """The queues as they are to be: what an import does not write stays as it is."""
    return {
        name: {
            "name": name,
            "labels": {**(there.get(name, {}).get("labels") or {}), **queue["labels"]},
            "spec": {**(there.get(name, {}).get("spec") or {}), **queue["spec"]},
        }
        for name, queue in wanted.items()
    }


def _carry_out(client: Client, changes: list[Change]) -> None:
    """Make all changes, or none: what was done is taken back when one is refused."""
    done: list[Change] = []
    for change in changes:
        try:
            answer = send(client, change)
        except Failure as failure:
            left = [text for one in reversed(done) if (text := _taken_back(client, one))]
            message = f"The queue {change.name} was refused: {failure.message}"
            state = "what could not be taken back:" if left else "nothing was changed"
            raise Failure(f"{message}; {state}", details=[*failure.details, *left], remedy=failure.remedy) from None
        done.append(Change(change.name, change.after, change.before, f'"{answer["revision"]}"'))


def _taken_back(client: Client, change: Change) -> str:
    try:
        send(client, change)
    except Failure as failure:
        return f"{change.name}: {failure.message}"
    return ""


def _told(report: Report) -> None:
    """Print on stderr what became of the fields that have no counterpart of the same meaning."""
    import sys

    out = console(sys.stderr)
    rows = [
        (line.object, line.path or "–", _short(line.value), Text(line.outcome, style=_STYLES[line.outcome]), line.here)
        for line in report.lines
        if line.outcome != "same"
    ]
    if rows:
        print_table(out, table(("OBJECT", "FIELD", "VALUE", "STATE", "HERE"), rows))
    same = sum(line.outcome == "same" for line in report.lines)
    out.print(f"{same} fields mean the same here; -o json lists them too")
    if report.priorities:
        classes = [(one.name, str(one.value), str(one.priority)) for one in report.priorities]
        print_table(out, table(("PRIORITY CLASS", "VALUE", "PRIORITY OF JOBS"), classes, right=("VALUE",)))


_STYLES = {"changed": "yellow", "none": "red"}


def _short(value: Any) -> str:
    import json

    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _print_queues(report: Report) -> None:
    import sys

    from t9ksched.model.text import write

    sys.stdout.write("---\n".join(write(queue) for queue in report.queues.values()))


def _as_json(report: Report, done: dict[str, str]) -> Json:
    return {
        "queues": [{**queue, "done": done.get(name)} if done else queue for name, queue in report.queues.items()],
        "fields": [line.to_dict() for line in report.lines],
        "priorities": [one.to_dict() for one in report.priorities],
    }
