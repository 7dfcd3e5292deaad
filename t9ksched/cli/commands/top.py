"""`t9ksched top`: nodes × cards, queues and jobs, live."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import Service, with_service
from t9ksched.cli.output import program


@with_service
def top(
    service: Service,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only jobs of this namespace (default: all).")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="QUEUE", help="Only jobs of this queue; repeatable.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only jobs that you submitted.")] = False,
) -> None:
    """Watch nodes with their cards, queues and jobs on the whole terminal. Keys explain the job under the cursor,
    follow its log, and cancel it; q leaves.
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise Failure(
            "This needs a terminal.", remedy=f"Without one: {program()} nodes, {program()} jobs --watch", code=BAD_USAGE
        )
    from t9ksched.cli.top.application import Top
    from t9ksched.cli.top.view import Asked

    client = service()
    user = str(client.get("/apis/v1/whoami")["user"])
    filters = {"namespace": namespace, "queue": queue or None, "user": user if mine else None}
    Top(replace(client, quiet=True), Asked(filters), user).run()
