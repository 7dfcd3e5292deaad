"""`t9ksched cancel`: delete jobs, after asking."""

import sys
from typing import Annotated

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.options import NamespaceOption, Service, with_service
from t9ksched.cli.output import console


@with_service
def cancel(
    service: Service,
    targets: Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    namespace: NamespaceOption = "default",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete jobs with their pods, services and groups."""
    client = service()
    wanted = [parse_target(target, namespace) for target in targets]
    for target in wanted:
        client.get(target.path)
    if not yes:
        confirm(f"Delete {', '.join(map(str, wanted))} in namespace {namespace}, with everything they own?")
    for target in wanted:
        client.delete(target.path)
        console().print(f"{target} is being deleted")


def confirm(question: str) -> None:
    """Ask on a terminal; without one, refuse to guess. Raises Failure (bad usage) or leaves with code 1 on no."""
    if not sys.stdin.isatty():
        raise Failure("This needs a confirmation.", remedy="Repeat with --yes.", code=BAD_USAGE)
    typer.confirm(question, abort=True)
