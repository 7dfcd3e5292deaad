"""`t9ksched token`: API tokens. A token is shown once, when it is made; the service keeps only its hash."""

from typing import Annotated, Any

import typer

from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, age, console, print_json, print_table, table

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API tokens.")


@app.command("create")
@with_service
def create(
    service: Service,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for, such as ci or alice.")],
    admin: Annotated[bool, typer.Option("--admin", help="It may manage queues and tokens too.")] = False,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="admin, manager, user (default) or viewer.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="The token's user (default: NAME).")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="A group of the user; may be repeated.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", metavar="QUEUE", help="A queue that the manager manages, or the only ones it is valid for."
        ),
    ] = None,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long it lasts, such as 30d, or never; 90d without it."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Make a token and print it, once."""
    body: dict[str, Any] = {"name": name, "user": user or name, "role": role or ("admin" if admin else "user")}
    scope = {"groups": group, "queues": queue, "duration": lasting}
    body |= {key: value for key, value in scope.items() if value is not None}
    made = service().call("POST", "/apis/v1/admin/tokens", body=body, options={"duration": "--for"}).body
    if output is Output.json:
        print_json(made)
    else:
        typer.echo(made["token"])


@app.command("list")
@with_service
def list_(
    service: Service,
    output: OutputOption = Output.table,
) -> None:
    """List the tokens, without what is secret about them."""
    items = service().get("/apis/v1/admin/tokens")["items"]
    if output is Output.json:
        print_json(items)
        return
    rows = [
        [
            str(t.get("name")),
            str(t.get("user") or "–"),
            " ".join([str(t.get("role")), *(t.get("queues") or ())]),
            age(t.get("createdAt")),
            str(t.get("expiresAt") or "–"),
            age(t.get("lastUsedAt")),
        ]
        for t in items
    ]
    print_table(console(), table(("NAME", "USER", "ROLE", "AGE", "ENDS", "USED"), rows))


@app.command("revoke")
@with_service
def revoke(
    service: Service,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as `token list` shows it.")],
) -> None:
    """Make a token worthless from now on."""
    service().delete(f"/apis/v1/admin/tokens/{name}")
    console().print(f"Token {name} is revoked")
