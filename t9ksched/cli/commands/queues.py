"""`t9ksched queues`: create and change queues, and show what they hold."""

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.commands.stops import note
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.given import mapping_in, pairs
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, print_warnings, table
from t9ksched.cli.queuechanges import ADMIN

_WINDOW = re.compile(r"(?:([A-Z][A-Za-z,-]*) +)?([0-9:]+) *- *([0-9:]+)(?: +(\S+))?")

app = typer.Typer(no_args_is_help=True, help="List, make, change, close and open queues.")

NameArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
QuotaOption = Annotated[
    list[str] | None,
    typer.Option("--quota", metavar="RESOURCE=QUANTITY", help="Such as nvidia.com/gpu=8; may be given repeatedly."),
]
PriorityOption = Annotated[int | None, typer.Option("--priority", help="0 to 100, larger is served first.")]
NodeSelectorOption = Annotated[
    list[str] | None,
    typer.Option("--node-label", metavar="KEY=VALUE", help="Only nodes with this label; may be given repeatedly."),
]
NamespacesOption = Annotated[
    list[str] | None,
    typer.Option("--for-namespace", metavar="NS", help="A namespace that may use it; may be given repeatedly."),
]
WindowsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--start-window",
        metavar="[DAYS] FROM-TO [ZONE]",
        help="Jobs start only then, such as 'Mon-Fri 20:00-06:00 Asia/Shanghai'; repeatable. always: at any time.",
    ),
]
OrderingOption = Annotated[
    str | None,
    typer.Option(
        "--ordering",
        metavar="BestEffort|Strict|Backfill",
        help="Who may pass a job that has to wait; Backfill for new queues.",
    ),
]
StarvingOption = Annotated[
    str | None,
    typer.Option(
        "--starve-after",
        metavar="DURATION",
        help="Jobs that waited so long collect room, such as 2h; 0: never; default: as scheduler.conf says.",
    ),
]
HeldOption = Annotated[
    str | None,
    typer.Option(
        "--max-held-share",
        metavar="SHARE",
        help="So much is kept for them besides the oldest, such as 20%; default: as scheduler.conf says.",
    ),
]
_Names = list[str] | None
FileOption = Annotated[
    Path | None, typer.Option("-f", "--file", metavar="FILE", help="{name, labels, spec} as YAML or JSON, - for stdin.")
]


@app.command("list")
@with_service
def list_(
    service: Service,
    output: OutputOption = Output.table,
) -> None:
    """List the queues with what they hold of their quota."""
    answer = service().get("/apis/v1/queues")
    items = answer["items"]
    if output is Output.json:
        print_json(answer)
        return
    columns = ("QUEUE", "PRIORITY", "STATE", "HELD OF QUOTA", "PODS", "GROUPS")
    print_table(console(), table(columns, [_row(queue) for queue in items], right=("PRIORITY", "PODS", "GROUPS")))
    note(answer.get("stopped") or (), console())


@app.command("get")
@with_service
def get(
    service: Service,
    name: NameArgument,
    output: OutputOption = Output.table,
) -> None:
    """Show one queue: its spec as YAML, and what it holds."""
    queue = service().get(f"{ADMIN}/{name}")
    if output is Output.json:
        print_json(queue)
        return
    from t9ksched.model.text import write

    console().print(write(queue).rstrip(), soft_wrap=True, markup=False)


@app.command("create")
@with_service
def create(
    service: Service,
    name: Annotated[str | None, typer.Argument(metavar="QUEUE", help="The name, unless the file has it.")] = None,
    file: FileOption = None,
    quota: QuotaOption = None,
    priority: PriorityOption = None,
    node_label: NodeSelectorOption = None,
    for_namespace: NamespacesOption = None,
    start_window: WindowsOption = None,
    ordering: OrderingOption = None,
    starve_after: StarvingOption = None,
    max_held_share: HeldOption = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="Any user may use it.")] = False,
    for_user: Annotated[_Names, typer.Option("--for-user", metavar="USER", help="A user who may use it.")] = None,
    for_group: Annotated[_Names, typer.Option("--for-group", metavar="GROUP", help="A group that may.")] = None,
    output: OutputOption = Output.table,
) -> None:
    """Make a queue from a file, from options, or both (options win). `queues members` says later who may use it."""
    body = _read(file) if file else {}
    if name:
        body["name"] = name
    if not body.get("name"):
        raise Failure("The queue has no name.", remedy="Write t9ksched queues create NAME …", code=BAD_USAGE)
    before = body.get("spec") or {}
    starvation = _starvation(before, starve_after, max_held_share)
    body["spec"] = (
        before | _spec(before, quota, priority, node_label, for_namespace, start_window, ordering) | starvation
    )
    members = {"everyone": everyone or None, "users": for_user, "groups": for_group}
    if named := {key: value for key, value in members.items() if value}:
        body["members"] = (body.get("members") or {}) | named
    made = service().post(ADMIN, body)
    _told(made, f"Queue {made['name']} is made", output)


@app.command("edit")
@with_service
def edit(
    service: Service,
    name: NameArgument,
    file: FileOption = None,
    quota: QuotaOption = None,
    priority: PriorityOption = None,
    node_label: NodeSelectorOption = None,
    for_namespace: NamespacesOption = None,
    start_window: WindowsOption = None,
    ordering: OrderingOption = None,
    starve_after: StarvingOption = None,
    max_held_share: HeldOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Change a queue: from a file, by options, or in $EDITOR when neither is given."""
    client = service()
    before = client.call("GET", f"{ADMIN}/{name}")
    current = {"labels": before.body.get("labels") or {}, "spec": before.body.get("spec") or {}}
    if file:
        current |= {key: value for key, value in _read(file).items() if key in current}
    changes = _spec(current["spec"], quota, priority, node_label, for_namespace, start_window, ordering)
    changes |= _starvation(current["spec"], starve_after, max_held_share)
    if not file and not changes:
        current = _in_editor(current, name)
    current["spec"] = current["spec"] | changes
    headers = {"If-Match": before.headers["etag"]} if "etag" in before.headers else {}
    changed = client.call("PUT", f"{ADMIN}/{name}", body={"name": name, **current}, headers=headers).body
    _told(changed, f"Queue {name} is changed", output)


@app.command("close")
@with_service
def close(service: Service, name: NameArgument) -> None:
    """Take no new jobs into a queue; those already in it go on."""
    service().post(f"{ADMIN}/{name}/actions/close")
    console().print(f"Queue {name} is closed")


@app.command("open")
@with_service
def open_(service: Service, name: NameArgument) -> None:
    """Take new jobs into a queue again."""
    service().post(f"{ADMIN}/{name}/actions/open")
    console().print(f"Queue {name} is open")


@app.command("delete")
@with_service
def delete(
    service: Service,
    name: NameArgument,
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="cancel|keep", help="What becomes of its unfinished jobs; without it, refused."),
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a queue."""
    client = service()
    client.get(f"{ADMIN}/{name}")
    if not yes:
        confirm(f"Delete the queue {name}?")
    answer = client.delete(f"{ADMIN}/{name}", jobs=jobs) or {}
    console().print(f"Queue {name} is deleted")
    print_warnings(answer.get("warnings") or ())


def _told(queue: dict[str, Any], done: str, output: Output) -> None:
    """Say what was done, and on stderr what is odd about the queue; as JSON, both are in the queue."""
    if output is Output.json:
        print_json(queue)
        return
    console().print(done)
    print_warnings(queue.get("warnings") or ())


def _row(queue: dict[str, Any]) -> list[str | Text]:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    allocated = status.get("allocated") or {}
    quota = (spec.get("quota") or {}).get("requests") or {}
    held = [f"{name} {allocated.get(name, 0)}/{limit}" for name, limit in quota.items()]
    held += [f"{name} {amount}" for name, amount in allocated.items() if name not in quota]
    return [
        str(queue.get("name")),
        str(spec.get("priority") or 0),
        _state(queue),
        ", ".join(held) or "–",
        str(sum((status.get("pods") or {}).values())),
        str((status.get("podGroups") or {}).get("total", 0)),
    ]


def _state(queue: dict[str, Any]) -> Text:
    if queue.get("draining"):
        return Text("draining", style="yellow")
    closed = (queue.get("spec") or {}).get("closed")
    return Text("closed", style="yellow") if closed else Text("open", style="green")


def _read(file: Path) -> dict[str, Any]:
    """A queue from a file: `{name, labels, spec}`, or a Queue object as Kubernetes writes it."""
    value = mapping_in(file, "queue", "{name: …, spec: {priority: …, quota: {requests: …}}}")
    if value.get("kind") == "Queue":
        metadata = value.get("metadata") or {}
        value = {"name": metadata.get("name"), "labels": metadata.get("labels") or {}, "spec": value.get("spec") or {}}
    return value


def _spec(
    before: dict[str, Any],
    quota: list[str] | None,
    priority: int | None,
    node_label: list[str] | None,
    for_namespace: list[str] | None,
    start_window: list[str] | None,
    ordering: str | None,
) -> dict[str, Any]:
    """The fields of a spec that the options name."""
    spec: dict[str, Any] = {}
    if quota:
        known = (before.get("quota") or {}).get("requests") or {}
        spec["quota"] = {"requests": known | pairs(quota, "--quota nvidia.com/gpu=8")}
    if priority is not None:
        spec["priority"] = priority
    if ordering is not None:
        spec["ordering"] = ordering
    if node_label:
        spec["nodeSelector"] = {"matchLabels": pairs(node_label, "--node-label pool=a100")}
    if for_namespace:
        values = [name for text in for_namespace for name in text.split(",")]
        spec["namespaceSelector"] = {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": values}]
        }
    if start_window:
        spec["startWindows"] = [] if start_window == ["always"] else [_window(text) for text in start_window]
    return spec


def _starvation(before: dict[str, Any], after: str | None, share: str | None) -> dict[str, Any]:
    """The field of a spec that these options change."""
    given = {key: value for key, value in (("after", after), ("maxHeldShare", share)) if value is not None}
    if not given:
        return {}
    merged = (before.get("starvation") or {}) | given
    return {"starvation": {key: value for key, value in merged.items() if value != "default"}}


def _window(text: str) -> dict[str, Any]:
    """A start window from `Mon-Wed,Sat 20:00-06:00 Asia/Shanghai`, days and zone being optional."""
    from t9ksched.model.start_windows import DAYS

    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        remedy = "Write it like --start-window '20:00-06:00' or --start-window 'Mon-Fri 20:00-06:00 Asia/Shanghai'."
        raise Failure(f"'{text}' is no start window.", remedy=remedy, code=BAD_USAGE)
    days, begin, end, zone = found.groups()
    window: dict[str, Any] = {"from": begin, "to": end}
    if days:
        listed: list[str] = []
        for part in days.split(","):
            first, _, last = part.partition("-")
            if first in DAYS and last in DAYS:
                begin_day, end_day = DAYS.index(first), DAYS.index(last)
                # Sun is followed by Mon: a range may go over it.
                listed += (DAYS * 2)[begin_day : end_day + 1 + (len(DAYS) if end_day < begin_day else 0)]
            else:
                listed.append(part)
        window["days"] = list(dict.fromkeys(listed))
    if zone:
        window["timeZone"] = zone
    return window


def _in_editor(current: dict[str, Any], name: str) -> dict[str, Any]:
    """`current` after the user changed it in an editor."""
    import sys

    from t9ksched.model.text import write

    if not sys.stdin.isatty():
        raise Failure(
            "Nothing to change.", remedy="Name a file with -f, or options such as --priority 10.", code=BAD_USAGE
        )
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="t9ksched-") as folder:
        draft = Path(folder) / f"{name}.yaml"
        draft.write_text(write(current))
        try:
            subprocess.run([*editor, str(draft)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Failure(f"The editor {editor[0]} did not work: {error}", remedy="Set $EDITOR.") from error
        return {"labels": {}, "spec": {}} | _read(draft)
