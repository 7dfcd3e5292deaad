"""`t9ksched queues apply`: make the service's queues those of a folder of files, as GitOps wants it.

Every file is read and checked before anything is changed; what would change is shown as a diff. Members are touched
only where a file names them. What the service alone writes (`status`, `uid`, …) is ignored, so that what `queues get`
prints can be applied. A queue that another user changes meanwhile is left alone and reported.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from t9ksched.cli.client import Client
from t9ksched.cli.commands.queues import app
from t9ksched.cli.failure import Failure
from t9ksched.cli.options import Service, with_service
from t9ksched.cli.output import console
from t9ksched.cli.queuechanges import ADMIN, Change, differences, files_below, send, show

Json = dict[str, Any]
_WRITTEN = ("name", "labels", "spec", "members")
_READ_ONLY = ("uid", "status", "draining", "access", "revision", "createdAt", "updatedAt", "warnings")


@app.command("apply")
@with_service
def apply(
    service: Service,
    file: Annotated[Path, typer.Option("-f", "--file", metavar="DIR", help="A folder of YAML or JSON, or one file.")],
    prune: Annotated[
        bool, typer.Option("--prune", help="Also delete queues that no file has (never `default`, nor one in use).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
) -> None:
    """Make queues what files say: created, changed, and with --prune deleted; the difference is shown."""
    wanted = read_folder(file)
    client = service()
    there = {queue["name"]: queue for queue in client.get(ADMIN)["items"]}
    changes = list(differences(wanted, there, prune))
    out = console()
    for change in changes:
        show(change, out)
    if not changes:
        one = len(wanted) == 1
        out.print(f"{len(wanted)} {'queue is' if one else 'queues are'} as the {'file says' if one else 'files say'}")
        return
    failures = [] if dry_run else [text for change in changes if (text := _carry_out(client, change))]
    counts = {verb: sum(change.verb == verb for change in changes) for verb in ("create", "change", "delete")}
    told = ", ".join(f"{count} to {verb}" for verb, count in counts.items() if count)
    out.print(f"{told}{'; nothing was changed' if dry_run else ''}")
    if failures:
        raise Failure(f"{len(failures)} of {len(changes)} changes failed.", details=failures)


def read_folder(path: Path) -> dict[str, Json]:
    """The queues of all files below `path` (or of that file), by name, each in canonical form."""
    found: dict[str, Json] = {}
    faults: list[str] = []
    for file in files_below(path):
        for where, raw in _documents(file, faults):
            queue = _canonical(raw, where, faults)
            if queue is not None and queue["name"] in found:
                faults.append(f"{where}: the queue {queue['name']!r} is in another file too")
            elif queue is not None:
                found[queue["name"]] = queue
    if faults:
        raise Failure(f"{len(faults)} faults in {path}; nothing was changed.", details=faults)
    if not found:
        raise Failure(f"{path} holds no queue.", remedy="Write {name: …, spec: …} into a .yaml file.")
    return found


def _documents(file: Path, faults: list[str]) -> Iterator[tuple[str, Any]]:
    from t9ksched.model.text import YamlFault, read_all

    try:
        documents = [one for one in read_all(file.read_text()) if one is not None]
    except (OSError, UnicodeDecodeError, YamlFault) as error:
        faults.append(f"{file}: cannot be read: {' '.join(str(error).split())}")
        return
    documents = [one for document in documents for one in _queues_of(document)]
    for index, document in enumerate(documents):
        yield (f"{file}[{index}]" if len(documents) > 1 else str(file)), document


def _queues_of(document: Any) -> list[Any]:
    """The queues of one document: one queue, a list of them, or `{items: […]}` as `queues list -o json` prints it."""
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document = document["items"]
    return document if isinstance(document, list) else [document]


def _canonical(raw: Any, where: str, faults: list[str]) -> Json | None:
    """A queue as the service will keep it; None with faults added if it is none."""
    from t9ksched.admission.access import parse_members
    from t9ksched.model.errors import Invalid
    from t9ksched.model.queue import parse_labels, parse_queue_spec, validate_queue_name

    if not isinstance(raw, dict):
        faults.append(f"{where}: is no queue: write {{name, labels, spec, members}}")
        return None
    if raw.get("kind") == "Queue":
        metadata = raw.get("metadata") or {}
        raw = {"name": metadata.get("name"), "labels": metadata.get("labels"), "spec": raw.get("spec")}
    known = (*_WRITTEN, *_READ_ONLY)
    faults += [f"{where}: {key}: is unknown: the fields are {', '.join(_WRITTEN)}" for key in raw if key not in known]
    try:
        queue: Json = {
            "name": validate_queue_name(raw.get("name")),
            "labels": parse_labels(raw.get("labels")),
            "spec": parse_queue_spec(raw.get("spec")).to_dict(),
        }
        if raw.get("members") is not None:
            queue["members"] = parse_members(raw["members"], "members").to_dict()
    except Invalid as error:
        faults += [f"{where}: {fault}" for fault in error.errors]
        return None
    return queue


def _carry_out(client: Client, change: Change) -> str:
    """Do it; the reason if that failed."""
    try:
        send(client, change)
    except Failure as failure:
        return f"{change.name}: {failure.message}"
    return ""
