"""`t9ksched reservations`: keep nodes or cards for some jobs, or for maintenance, at certain times."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.given import mapping_in, pair, pairs
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, print_warnings, table

PATH = "/apis/v1/admin/reservations"

_PAGE: Final = 1000

app = typer.Typer(no_args_is_help=True, help="Keep nodes or cards for some jobs, or for maintenance, at certain times.")

NameArgument = Annotated[str, typer.Argument(metavar="RESERVATION", help="The reservation's name.")]
FileOption = Annotated[
    Path | None, typer.Option("-f", "--file", metavar="FILE", help="The fields as YAML or JSON, - for stdin.")
]
FromOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="When it begins: 2030-01-31T20:00:00Z.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="When it ends.")]
NodesOption = Annotated[
    list[str] | None, typer.Option("--node", metavar="NODE", help="A node; may be given repeatedly.")
]
LabelsOption = Annotated[
    list[str] | None,
    typer.Option("--node-label", metavar="KEY=VALUE", help="Of nodes with this label, as many as --count says."),
]
CountOption = Annotated[int | None, typer.Option("--count", metavar="N", help="How many nodes with these labels.")]
CardsOption = Annotated[
    str | None, typer.Option("--cards", metavar="RESOURCE=N", help="Only so many cards of each: nvidia.com/gpu=4.")
]
QueuesOption = Annotated[list[str] | None, typer.Option("--for-queue", metavar="QUEUE", help="Jobs of this queue.")]
UsersOption = Annotated[list[str] | None, typer.Option("--for-user", metavar="USER", help="Jobs of this user.")]
GroupsOption = Annotated[list[str] | None, typer.Option("--for-group", metavar="GROUP", help="Jobs of its users.")]
MaintenanceOption = Annotated[bool, typer.Option("--maintenance", help="For no jobs at all.")]
EveryOption = Annotated[str | None, typer.Option("--every", metavar="daily|weekly", help="It repeats.")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="After this none begins any more.")]
ZoneOption = Annotated[str | None, typer.Option("--time-zone", metavar="ZONE", help="In which it repeats; UTC.")]
ConflictOption = Annotated[
    str | None, typer.Option("--on-conflict", metavar="Refuse|Wait|Preempt", help="What is done about jobs in its way.")
]
ForceOption = Annotated[
    bool | None,
    typer.Option("--force/--no-force", help="With Preempt: also jobs of queues that are not preemptible."),
]
DrainOption = Annotated[
    str | None,
    typer.Option("--drain-ahead", metavar="DURATION", help="So long before, no job without an end starts there; 24h."),
]
UnusedOption = Annotated[
    str | None, typer.Option("--release-unused-after", metavar="DURATION", help="30m; 0 for never.")
]
NoteOption = Annotated[str | None, typer.Option("--note", metavar="TEXT", help="What people are told.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")]
_OPTIONS = {"from": "--from", "to": "--to", "every": "--every", "until": "--until", "timeZone": "--time-zone"} | {
    "onConflict": "--on-conflict",
    "force": "--force",
    "drainAhead": "--drain-ahead",
    "releaseUnusedAfter": "--release-unused-after",
    "nodes.count": "--count",
}


@app.command("list")
@with_service
def list_(service: Service, output: OutputOption = Output.table) -> None:
    """List the reservations with their next times, and what became of the last. Those for you, unless you manage."""
    answer = service().get(PATH)
    if output is Output.json:
        print_json(answer)
        return
    columns = ("RESERVATION", "PHASE", "FROM", "TO", "EVERY", "NODES", "FOR", "LAST", "NOTE")
    print_table(console(), table(columns, [_row(one) for one in answer["items"]]))


@app.command("get")
@with_service
def get(service: Service, name: NameArgument, output: OutputOption = Output.table) -> None:
    """Show one reservation."""
    found = service().get(f"{PATH}/{name}")
    if output is Output.json:
        print_json(found)
        return
    from t9ksched.model.text import write

    console().print(write(found).rstrip(), soft_wrap=True, markup=False)


@app.command("history")
@with_service
def history(
    service: Service,
    name: NameArgument,
    event: Annotated[str | None, typer.Option("--event", metavar="EVENT", help="Such as reservation-missed.")] = None,
    output: OutputOption = Output.table,
) -> None:
    """Show what became of each occurrence, the latest last."""
    client, items, after = service(), list[dict[str, Any]](), 0
    while True:
        page = client.get(f"{PATH}/{name}/history", event=event, after=after, limit=_PAGE)
        items += page["items"]
        if len(page["items"]) < _PAGE:
            break
        after = page["items"][-1]["id"]
    if output is Output.json:
        print_json({"items": items})
        return
    rows = [[str(one["at"]), str(one["event"]), *_about(one)] for one in items]
    print_table(console(), table(("AT", "EVENT", "FROM", "TO", "WHAT"), rows))


def _about(event: dict[str, Any]) -> list[str]:
    """Of an event the times of the occurrence, if it is about one, and what happened or who did it."""
    detail = event["detail"]
    what = detail.get("message") or (f"by {event['actor']}" if event.get("actor") else "")
    return [str(detail.get("from") or "–"), str(detail.get("to") or "–"), str(what)]


@app.command("create")
@with_service
def create(
    service: Service,
    name: Annotated[str | None, typer.Argument(metavar="RESERVATION", help="The name, unless the file has it.")] = None,
    file: FileOption = None,
    begin: FromOption = None,
    to: ToOption = None,
    node: NodesOption = None,
    node_label: LabelsOption = None,
    count: CountOption = None,
    cards: CardsOption = None,
    for_queue: QueuesOption = None,
    for_user: UsersOption = None,
    for_group: GroupsOption = None,
    maintenance: MaintenanceOption = False,
    every: EveryOption = None,
    until: UntilOption = None,
    time_zone: ZoneOption = None,
    on_conflict: ConflictOption = None,
    force: ForceOption = None,
    drain_ahead: DrainOption = None,
    release_unused_after: UnusedOption = None,
    note: NoteOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
) -> None:
    """Make a reservation from a file, from options, or both (options win)."""
    body = mapping_in(file, "reservation", "name, from, to, nodes and for") if file else {}
    if name:
        body["name"] = name
    if not body.get("name"):
        raise Failure(
            "The reservation has no name.", remedy="Write t9ksched reservations create NAME …", code=BAD_USAGE
        )
    body |= _fields(begin, to, every, until, time_zone, on_conflict, force, drain_ahead, release_unused_after, note)
    body |= _what(node, node_label, count, cards, for_queue, for_user, for_group, maintenance)
    query = {"dryRun": "true" if dry_run else None}
    made = service().call("POST", PATH, body=body, query=query, options=_OPTIONS).body
    _told(made, f"Reservation {body['name']} is made", dry_run, output)


@app.command("edit")
@with_service
def edit(
    service: Service,
    name: NameArgument,
    file: FileOption = None,
    begin: FromOption = None,
    to: ToOption = None,
    node: NodesOption = None,
    node_label: LabelsOption = None,
    count: CountOption = None,
    cards: CardsOption = None,
    for_queue: QueuesOption = None,
    for_user: UsersOption = None,
    for_group: GroupsOption = None,
    maintenance: MaintenanceOption = False,
    every: EveryOption = None,
    until: UntilOption = None,
    time_zone: ZoneOption = None,
    on_conflict: ConflictOption = None,
    force: ForceOption = None,
    drain_ahead: DrainOption = None,
    release_unused_after: UnusedOption = None,
    note: NoteOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
) -> None:
    """Change the fields that a file or options name; all others stay."""
    change = mapping_in(file, "reservation", "name, from, to, nodes and for") if file else {}
    change |= _fields(begin, to, every, until, time_zone, on_conflict, force, drain_ahead, release_unused_after, note)
    change |= _what(node, node_label, count, cards, for_queue, for_user, for_group, maintenance)
    if not change:
        raise Failure("Nothing to change.", remedy="Name a file with -f, or options such as --to TIME.", code=BAD_USAGE)
    client = service()
    before = client.call("GET", f"{PATH}/{name}")
    for key in ("nodes", "for"):  # these are replaced, not merged field by field
        if isinstance(change.get(key), dict) and isinstance(before.body.get(key), dict):
            change[key] = dict.fromkeys(before.body[key]) | change[key]
    headers = {"If-Match": before.headers["etag"]} if "etag" in before.headers else {}
    query = {"dryRun": "true" if dry_run else None}
    changed = client.call("PATCH", f"{PATH}/{name}", body=change, query=query, headers=headers, options=_OPTIONS).body
    _told(changed, f"Reservation {name} is changed", dry_run, output)


@app.command("delete")
@with_service
def delete(
    service: Service,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a reservation: its room is free at once; jobs that run in it go on."""
    client = service()
    client.get(f"{PATH}/{name}")
    if not yes:
        confirm(f"Delete the reservation {name}?")
    client.delete(f"{PATH}/{name}")
    console().print(f"Reservation {name} is deleted")


def _told(answer: dict[str, Any], done: str, dry_run: bool, output: Output) -> None:
    """Say what was done, or what would be."""
    if output is Output.json:
        print_json(answer)
        return
    print_warnings(answer.get("warnings") or ())
    out = console()
    if not dry_run:
        out.print(f"{done}: {', '.join(answer['status']['nodes'])} from {answer['status']['from']}", soft_wrap=True)
        return
    out.print(f"Nodes: {', '.join(answer['nodes'])}", soft_wrap=True)
    for title, entries in (("In its way", answer["conflicts"]), ("Jobs that run on", answer["jobs"])):
        for one in entries:
            until = f"until {one['until']}" if one.get("until") else "and nothing ends it"
            goes = f": {one['evicted']} of its pods are evicted" if one.get("evicted") else ""
            text = f"{title}: {one['kind']} {one['name']} on {', '.join(one['nodes'])} {until}{goes}"
            out.print(text, soft_wrap=True, markup=False)
    for one in answer["plans"]:
        out.print(f"Moves: {one['job']}, planned to start at {one['at']}", soft_wrap=True)


def _row(one: dict[str, Any]) -> list[str | Text]:
    status, whom = one["status"], one["for"]
    last = status.get("last")
    names = whom if isinstance(whom, str) else ", ".join(name for kind in whom.values() for name in kind)
    styles = {"Active": "green", "Over": "dim", "Released": "yellow", "Missed": "red"}
    nodes = ", ".join(status["nodes"])
    if one.get("cards"):
        nodes += f" ({one['cards']['count']} {one['cards']['resource']} each)"
    return [
        str(one["name"]),
        Text(status["phase"], style=styles.get(status["phase"], "")),
        str(status["from"] or one["from"]),
        str(status["to"] or one["to"]),
        str(one["every"] or "–"),
        nodes,
        names,
        Text(f"{last['outcome']} {last['at']}", style=styles.get(last["outcome"], "")) if last else "–",
        str(one["note"]),
    ]


def _fields(
    begin: str | None,
    to: str | None,
    every: str | None,
    until: str | None,
    time_zone: str | None,
    on_conflict: str | None,
    force: bool | None,
    drain_ahead: str | None,
    release_unused_after: str | None,
    note: str | None,
) -> dict[str, Any]:
    """The fields that options name by themselves."""
    given = {
        "from": begin,
        "to": to,
        "every": every,
        "until": until,
        "timeZone": time_zone,
        "onConflict": on_conflict,
        "force": force,
        "drainAhead": drain_ahead,
        "releaseUnusedAfter": release_unused_after,
        "note": note,
    }
    return {key: value for key, value in given.items() if value is not None}


def _what(
    node: list[str] | None,
    node_label: list[str] | None,
    count: int | None,
    cards: str | None,
    queues: list[str] | None,
    users: list[str] | None,
    groups: list[str] | None,
    maintenance: bool,
) -> dict[str, Any]:
    """What is reserved, and for whom, as far as options say it."""
    found: dict[str, Any] = {}
    if node:
        found["nodes"] = {"names": node}
    if node_label or count is not None:
        labels = pairs(node_label or (), "--node-label pool=a100")
        found["nodes"] = found.get("nodes", {}) | {"selector": {"matchLabels": labels}, "count": count}
    if cards:
        resource, number = pair(cards, "--cards nvidia.com/gpu=4")
        found["cards"] = {"resource": resource, "count": int(number) if number.isdigit() else number}
    whom = {key: names for key, names in (("queues", queues), ("users", users), ("groups", groups)) if names}
    if whom and maintenance:
        raise Failure("--maintenance is for no jobs: leave --for-… out.", code=BAD_USAGE)
    if whom or maintenance:
        found["for"] = whom or "maintenance"
    return found
