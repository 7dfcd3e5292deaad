"""`t9ksched queues members` and `drain`: who may use a queue, and letting one run empty."""

from typing import Annotated, Any

import typer

from t9ksched.cli.commands.queues import NameArgument, app
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_warnings, table
from t9ksched.cli.queuechanges import ADMIN

_Names = list[str] | None


@app.command("members")
@with_service
def members(
    service: Service,
    name: NameArgument,
    add_user: Annotated[_Names, typer.Option("--add-user", metavar="USER", help="May use it from now on.")] = None,
    remove_user: Annotated[_Names, typer.Option("--remove-user", metavar="USER", help="May not any more.")] = None,
    add_group: Annotated[_Names, typer.Option("--add-group", metavar="GROUP", help="All of the group may.")] = None,
    remove_group: Annotated[_Names, typer.Option("--remove-group", metavar="GROUP", help="Not any more.")] = None,
    everyone: Annotated[
        bool | None, typer.Option("--everyone/--not-everyone", help="Whether any user may use it.")
    ] = None,
    max_priority: Annotated[
        int | None, typer.Option("--max-priority", metavar="N", help="The highest priority members may ask for.")
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Show who may use a queue; with options, change it first."""
    client = service()
    before = client.call("GET", f"{ADMIN}/{name}/members")
    shape: dict[str, Any] = dict(before.body)
    wanted = shape | {
        "users": _changed(shape["users"], add_user, remove_user),
        "groups": _changed(shape["groups"], add_group, remove_group),
    }
    if everyone is not None:
        wanted["everyone"] = everyone
    if max_priority is not None:
        wanted["maxPriority"] = max_priority
    if maxima := shape.get("maxPriorities"):
        kept = {"everyone", *(f"user:{one}" for one in wanted["users"]), *(f"group:{one}" for one in wanted["groups"])}
        wanted["maxPriorities"] = {key: value for key, value in maxima.items() if key in kept}
    if wanted != shape:
        headers = {"If-Match": before.headers["etag"]} if "etag" in before.headers else {}
        shape = client.call("PUT", f"{ADMIN}/{name}/members", body=wanted, headers=headers).body
    if output is Output.json:
        print_json(shape)
        return
    rows = [["everyone", ""]] if shape["everyone"] else []
    rows += [["user", one] for one in shape["users"]] + [["group", one] for one in shape["groups"]]
    if not rows:
        console().print(f"Queue {name} has no members: only administrators, and namespaces it selects, may use it")
        return
    maxima = shape.get("maxPriorities") or {}
    for row in rows:
        limit = maxima.get(f"{row[0]}:{row[1]}" if row[1] else row[0], shape["maxPriority"])
        row.append("–" if limit is None else str(limit))
    console().print(table(("MEMBER", "NAME", "MAX PRIORITY"), rows, right=("MAX PRIORITY",)))


@app.command("drain")
@with_service
def drain(service: Service, name: NameArgument) -> None:
    """Take no new jobs into a queue and start none that wait; those that run go on. `open` ends it."""
    answer = service().post(f"{ADMIN}/{name}/actions/drain")
    console().print(f"Queue {name} drains: what runs goes on, replacements of its pods too; nothing else is started")
    print_warnings(answer.get("warnings") or ())


def _changed(names: list[str], add: _Names, remove: _Names) -> list[str]:
    return sorted((set(names) | set(add or ())) - set(remove or ()))
