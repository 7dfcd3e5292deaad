"""`t9ksched queues apply`: make the service's queues those of a folder of files, as GitOps wants it.

Every file is read and checked before anything is changed; what would change is shown as a diff. Members are touched
only where a file names them. What the service alone writes (`status`, `uid`, …) is ignored, so that what `queues get`
prints can be applied. A queue that another user changes meanwhile is left alone and reported.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.commands.queues import ADMIN, app
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import Service, with_service
from t9ksched.cli.output import console, print_warnings

Json = dict[str, Any]
_SUFFIXES = (".yaml", ".yml", ".json")
_WRITTEN = ("name", "labels", "spec", "members")
_READ_ONLY = ("uid", "status", "draining", "access", "revision", "createdAt", "updatedAt", "warnings")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class Change:
    """One queue that differs: `before` None creates it, `after` None deletes it."""

    name: str
    before: Json | None
    after: Json | None
    etag: str = ""

    @property
    def verb(self) -> str:
        """What is done to it."""
        return "create" if self.before is None else "delete" if self.after is None else "change"


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


def files_below(path: Path) -> list[Path]:
    """The files of a folder and those below it in their order, or that one file. Raises Failure if there is none."""
    if not path.exists():
        raise Failure(f"{path} does not exist.", remedy="Name a folder of YAML files with -f.", code=BAD_USAGE)
    return sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES) if path.is_dir() else [path]


def differences(wanted: dict[str, Json], there: dict[str, Json], prune: bool) -> Iterator[Change]:
    """What must change, in order of names; deletions last. An ordering that a file leaves out stays as it is."""
    from t9ksched.model.queue import with_ordering

    for name, queue in sorted(wanted.items()):
        old = there.get(name)
        if old is None:
            yield Change(name, None, queue)
            continue
        before = {key: old.get(key) or {} for key in queue if key != "name"}
        after = {key: value for key, value in queue.items() if key != "name"}
        after["spec"] = with_ordering(after["spec"], before["spec"])
        if _shown(before) != _shown(after, before):
            yield Change(name, before, after, f'"{old["revision"]}"')
    if prune:
        for name in sorted(there.keys() - wanted.keys() - {"default"}):
            old = there[name]
            yield Change(name, {key: old.get(key) for key in ("labels", "spec")}, None, f'"{old["revision"]}"')


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


def show(change: Change, out: Console) -> None:
    """Print what changes, as a diff."""
    from t9ksched.model.text import write

    def lines(side: Json | None) -> list[str]:
        return [] if side is None else write(side, sort_keys=True).splitlines()

    out.print(Text(f"{change.verb} queue {change.name}", style="bold"))
    before = None if change.before is None else _shown(change.before)
    after = None if change.after is None else _shown(change.after, before)
    for line in list(difflib.unified_diff(lines(before), lines(after), lineterm="", n=2))[2:]:
        out.print(Text(f"  {line}", style=_STYLES.get(line[:1], "")), soft_wrap=True)


def _shown(queue: Json, before: Json | None = None) -> Json:
    """A queue without what is as by default; what means the same as in `before` is written as there."""
    from t9ksched.model.queue import QueueSpec, parse_queue_spec

    def meaning(key: str, value: Any) -> QueueSpec:
        return parse_queue_spec({} if value is None else {key: value})

    spec, old = queue.get("spec") or {}, (before or {}).get("spec") or {}
    # A new queue does not have the ordering that a spec without one means: it is shown whatever it is.
    said = {key: value for key, value in spec.items() if key == "ordering" or meaning(key, value) != QueueSpec()}
    same = {key: old[key] for key in said if key in old and meaning(key, old[key]) == meaning(key, said[key])}
    members = {key: value for key, value in (queue.get("members") or {}).items() if value not in (False, None, [], {})}
    shown = {"labels": queue.get("labels"), "spec": said | same, "members": members}
    return {key: value for key, value in shown.items() if value}


def _carry_out(client: Client, change: Change) -> str:
    """Do it; the reason if that failed."""
    try:
        send(client, change)
    except Failure as failure:
        return f"{change.name}: {failure.message}"
    return ""


def send(client: Client, change: Change) -> Json:
    """Ask the service for it, and print its warnings; the queue as it is then. Raises Failure."""
    headers = {"If-Match": change.etag} if change.etag else {}
    address = f"{ADMIN}/{change.name}"
    if change.before is None:
        answer = client.post(ADMIN, change.after)
    elif change.after is None:
        answer = client.call("DELETE", address, headers=headers).body
    else:
        answer = client.call("PUT", address, body=change.after, headers=headers).body
    print_warnings((answer or {}).get("warnings") or (), f"queue {change.name}: ")
    return answer or {}
