"""`t9ksched notify`: be told what happens to jobs, by a webhook, mail or a messaging service."""

import sys
import time
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from t9ksched.cli.failure import Failure
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, age, console, print_json, print_table, table

PATH: Final = "/apis/v1/notifications"
_PATIENCE_SECONDS: Final = 60.0
"""How long a test is waited for: the scheduler looks each second, and an attempt may take half a minute."""
_PAUSE_SECONDS: Final = 0.3

app = typer.Typer(no_args_is_help=True, help="Be told what happens to jobs, by a webhook, mail or a messaging service.")
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `notify list` shows it.")]


@app.command("add")
@with_service
def add(
    service: Service,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="https://… (a webhook), mailto:NAME@HOST, slack://…; - reads it from standard input."
        ),
    ],
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="EVENT",
            help="started, ended, failed, preempted, plan-moved, time-limit-near, suspension-near or suspended; may be"
            " repeated; all without it.",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="QUEUE", help="All jobs of this queue, which you manage, in place of yours."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Have an address told what happens to your jobs, or to those of a queue.

    The key by which webhooks are signed is shown this once; the URL is not shown again.
    """
    body: dict[str, Any] = {"url": sys.stdin.readline().strip() if url == "-" else url}
    body |= {key: value for key, value in (("events", event), ("queue", queue)) if value}
    options = {"url": "URL", "events": "--on", "queue": "--queue"}
    options |= {f"events[{number}]": "--on" for number in range(len(event or ()))}
    made = service().call("POST", PATH, body=body, options=options).body
    if output is Output.json:
        print_json(made)
        return
    out = console()
    out.print(f"{made['id']}: {made['address']} is told of {_whose(made)}: {', '.join(made['events'])}", soft_wrap=True)
    if made.get("key"):
        out.print(f"Its key, shown this once: {made['key']}", soft_wrap=True)
    out.print(f"Try it: t9ksched notify test {made['id']}", soft_wrap=True)


@app.command("list")
@with_service
def list_(
    service: Service,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only those of this queue.")] = None,
    output: OutputOption = Output.table,
) -> None:
    """List the addresses that are told: yours, and those of queues that you manage; without what is secret."""
    items = service().get(PATH, queue=queue)["items"]
    if output is Output.json:
        print_json({"items": items})
        return
    columns = ("ID", "TOLD OF", "ADDRESS", "EVENTS", "STATE", "LAST")
    print_table(console(), table(columns, [_row(one) for one in items]))


@app.command("test")
@with_service
def try_out(service: Service, id_: IdArgument, output: OutputOption = Output.table) -> None:
    """Send a test to an address, and say how it went; one that was disabled is enabled if it succeeds."""
    client = service()
    before = client.get(f"{PATH}/{id_}")["lastAttemptAt"]
    client.post(f"{PATH}/{id_}/actions/test")
    end = time.monotonic() + _PATIENCE_SECONDS
    while (found := client.get(f"{PATH}/{id_}"))["lastAttemptAt"] == before:
        if time.monotonic() > end:
            raise Failure(
                f"The test was not sent within {_PATIENCE_SECONDS:.0f} seconds.",
                remedy="It is sent once a scheduler leads and the database answers; see t9ksched notify list.",
            )
        time.sleep(_PAUSE_SECONDS)
    if output is Output.json:
        print_json(found)
    if found["lastError"]:
        raise Failure(f"{found['address']} was not told: {found['lastError']}.", remedy=_remedy(found))
    if output is Output.table:
        console().print(f"{found['address']} was told", soft_wrap=True)


@app.command("delete")
@with_service
def delete(service: Service, id_: IdArgument) -> None:
    """Tell an address no more."""
    service().delete(f"{PATH}/{id_}")
    console().print(f"{id_} is told no more")


def _whose(one: dict[str, Any]) -> str:
    return f"jobs of the queue {one['queue']}" if one["queue"] else f"jobs of {one['user']}"


def _remedy(one: dict[str, Any]) -> str:
    return "It is disabled until a test succeeds." if one["disabledAt"] else ""


def _row(one: dict[str, Any]) -> list[str | Text]:
    state, style = ("works", "green") if one["lastAttemptAt"] else ("new", "")
    if one["failures"]:
        state, style = f"failing: {one['lastError']}", "yellow"
    if one["disabledAt"]:
        state, style = f"disabled after {one['failures']} failures: {one['lastError']}", "red"
    return [
        str(one["id"]),
        _whose(one),
        str(one["address"]),
        " ".join(one["events"]),
        Text(state, style=style),
        age(one["lastAttemptAt"]),
    ]
