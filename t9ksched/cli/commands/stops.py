"""`t9ksched stop-scheduling`: start nothing, or evict nothing, for a while. What runs goes on."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json

_MEANS = {"scheduling": "no job is started", "preemption": "nothing is evicted"}


@with_service
def stop_scheduling(
    service: Service,
    preemption: Annotated[bool, typer.Option("--preemption", help="Stop evictions; jobs still start.")] = False,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Such as 1h, or never; a day without it.")
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What people are told.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="End the stop.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Stop starting jobs (or, with --preemption, evicting them) for a while; what runs goes on."""
    if resume and (lasting or why):
        raise Failure("--resume goes without --for and --why.", code=BAD_USAGE)
    what = "preemption" if preemption else "scheduling"
    client = service()
    address = f"/apis/v1/admin/stops/{what}"
    if resume:
        client.delete(address)
        if output is Output.json:
            print_json({"what": what, "stopped": False})
        else:
            console().print(f"{what} goes on")
        return
    stopped = client.call("PUT", address, body={"duration": lasting, "why": why}, options={"duration": "--for"}).body
    print_json(stopped) if output is Output.json else note([stopped], console())


def note(stops: Iterable[dict[str, Any]], out: Console) -> None:
    """Say what is stopped, if anything is."""
    for stop in stops:
        until = f"until {stop['until']}" if stop.get("until") else "until it is resumed"
        why = f": {stop['why']}" if stop.get("why") else ""
        text = f"{stop['what']} is stopped by {stop['by']} {until} ({_MEANS.get(stop['what'], '')}){why}"
        out.print(Text(text, style="yellow"), soft_wrap=True)
