"""`t9ksched doctor`: what prevents or impairs scheduling on a cluster, and what to do about it."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from t9ksched import version
from t9ksched.cli.failure import REQUEST_FAILED
from t9ksched.cli.options import OutputOption
from t9ksched.cli.output import Output, console, print_json, print_table, table
from t9ksched.cli.progress import working

if TYPE_CHECKING:
    from t9ksched.kube.setup.findings import Finding

STYLES = {"ok": "green", "note": "blue", "warning": "yellow", "blocks": "bold red"}


class Role(StrEnum):
    """The role whose rights are checked."""

    all = "all"
    scheduler = "t9k-scheduler"
    controller = "t9ksched-controller"
    api = "t9ksched-api"


def doctor(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            envvar="T9KSCHED_KUBECONFIG",
            metavar="PATH",
            help="The cluster, and the user whose rights count (default: as kubectl finds it).",
        ),
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", envvar="T9KSCHED_DB", metavar="URL", help="A database to look at too.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", envvar="T9KSCHED_SERVER", metavar="URL", help="A REST service to look at too."),
    ] = None,
    role: Annotated[
        Role, typer.Option("--role", help="Whose rights the user needs; `up` needs those of all.")
    ] = Role.all,
    output: OutputOption = Output.table,
) -> None:
    """Check a cluster: rights, custom kinds, GPU nodes, other schedulers that place pods with GPUs, scheduler.conf,
    clocks, certificates, the roles and their versions, and this installation.

    Changes nothing. Leaves with 1 when something blocks.
    """
    from t9ksched.cli.foreign import failures

    with failures(), working():
        found = asyncio.run(_examine(kubeconfig, role))
    found.append(_kernel())
    if db:
        found += _database(db)
    if server:
        from t9ksched.cli.servicecheck import examine_service

        found += examine_service(server)
    if output is Output.json:
        print_json([finding.to_json() for finding in found])
    else:
        rows = [
            (finding.check, Text(finding.level, style=STYLES[finding.level]), finding.subject, finding.message)
            for finding in found
        ]
        print_table(console(), table(("CHECK", "STATE", "WHERE", "WHAT"), rows))
        remedies = [finding for finding in found if finding.remedy]
        if remedies:
            console().print("\nWhat to do:", style="bold")
        for remedy, where in _grouped(remedies).items():
            console().print(Text.assemble(("  → ", "bold"), f"{', '.join(where)}: {remedy}"), soft_wrap=True)
    if any(finding.level == "blocks" for finding in found):
        raise typer.Exit(REQUEST_FAILED)


async def _examine(kubeconfig: Path | None, role: Role) -> "list[Finding]":
    from t9ksched.cli.policycheck import examine_policy
    from t9ksched.kube.setup.crds import read
    from t9ksched.kube.setup.doctor import examine
    from t9ksched.kube.setup.installation import examine as examine_installation
    from t9ksched.kube.setup.rbac import ROLES
    from t9ksched.kube.transport.config import connect
    from t9ksched.packaged import folder
    from t9ksched.scheduler.decide.plugins import installed

    async with connect(kubeconfig) as client:
        found = await examine(client, read(folder("crds")), ROLES if role is Role.all else [role])
        return found + await examine_installation(client, version()) + await examine_policy(client, installed())


def _kernel() -> "Finding":
    from t9ksched.engine.kernel.native import LIBRARY, SWITCH, chosen
    from t9ksched.kube.setup.findings import Finding, Level

    missing = chosen().missing
    if not missing:
        return Finding("engine", Level.OK, "kernel", f"plans run on the native kernel, {LIBRARY}")
    text = f"plans run on numpy, which is slower and decides the same; of the native kernel: {missing}"
    remedy = "install t9ksched where there is a C compiler, or run `make native`"
    return Finding("engine", Level.NOTE, "kernel", text, f"unset {SWITCH}" if SWITCH in missing else remedy)


def _database(address: str) -> "list[Finding]":
    from datetime import UTC, datetime

    from t9ksched.kube.setup.findings import Finding, Level
    from t9ksched.kube.setup.installation import judge_database_clock
    from t9ksched.store import schema
    from t9ksched.store.errors import StoreError

    try:
        if (path := schema.missing_file(address)) is not None:
            remedy = "check the address; the first start makes it, or t9ksched db upgrade"
            return [Finding("database", Level.NOTE, "database", f"there is no file {path}", remedy)]
        found, needed = schema.current(address), schema.newest()
        theirs = schema.clock(address)
    except StoreError as error:
        remedy = "check the address, the password, and that the database can be reached from here"
        return [Finding("database", Level.BLOCKS, "database", str(error), remedy)]
    clocks = [] if theirs is None else [judge_database_clock(theirs, datetime.now(UTC))]
    if found is not None and found not in schema.revisions():
        text = f"is at revision {found}, which is newer than this release knows"
        remedy = "use the release that made it, or a newer one"
        return [Finding("database", Level.BLOCKS, "database", text, remedy), *clocks]
    if found != needed:
        text = f"is at revision {found or 'none'}, this release needs {needed}"
        remedy = "the first start upgrades it; or t9ksched db upgrade"
        return [Finding("database", Level.NOTE, "database", text, remedy), *clocks]
    return [Finding("database", Level.OK, "database", f"is reached, and at revision {found}"), *clocks]


def _grouped(findings: "list[Finding]") -> dict[str, list[str]]:
    """Subjects by remedy, so that each advice is shown once."""
    groups: dict[str, list[str]] = {}
    for finding in findings:
        where = groups.setdefault(finding.remedy, [])
        if finding.subject not in where:
            where.append(finding.subject)
    return groups
