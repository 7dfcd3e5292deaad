"""Changes that make the service's queues those of files or of an import: found, shown as a diff, and sent."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.output import print_warnings

Json = dict[str, Any]
ADMIN = "/apis/v1/admin/queues"
"""Where the service's queues are."""
_SUFFIXES = (".yaml", ".yml", ".json")
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
