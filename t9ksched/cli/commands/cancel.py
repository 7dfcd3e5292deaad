"""`t9ksched cancel`: delete jobs, after asking."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from t9ksched.cli.arrays import elements
from t9ksched.cli.client import Client
from t9ksched.cli.consequences import of_cancelling
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.options import NamespaceOption, Service, with_service
from t9ksched.cli.output import console, paragraph, print_warnings


@with_service
def cancel(
    service: Service,
    targets: Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    namespace: NamespaceOption = "default",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete jobs with their pods, services and groups; the name of an array stands for all its elements."""
    client = service()
    wanted: list[Target] = []
    names: list[str] = []
    jobs: list[dict[str, Any]] = []
    of_arrays: set[Target] = set()

    def find(target: Target) -> None:
        found = _meant(client, target)
        those = [Target(target.namespace, target.kind, str(job["name"])) for job in found]
        wanted.extend(those)
        if those == [target]:
            names.append(str(target))
            jobs.extend(found)
        else:
            names.append(f"{len(found)} jobs of the array {target}")
            of_arrays.update(those)

    if unknown := _refused([parse_target(target, namespace) for target in targets], find):
        raise _failed("Nothing was cancelled", unknown, "Repeat with jobs that are there: t9ksched jobs")
    if not yes:
        for line in (line for job in jobs for line in of_cancelling(job)):
            paragraph(console(), line)
        confirm(f"Delete {', '.join(names)} in namespace {namespace}, with everything they own?")

    def delete(target: Target) -> None:
        try:
            answer = client.delete(target.path)
        except Failure as failure:
            if failure.name == "NotFound" and target in of_arrays:
                return  # it went by itself meanwhile
            raise
        console().print(f"{target} is being deleted")
        print_warnings((answer or {}).get("warnings") or (), str(target))

    if kept := _refused(wanted, delete):
        raise _failed(f"{len(kept)} of {len(wanted)} jobs were not cancelled", kept, "")


def _meant(client: Client, target: Target) -> list[dict[str, Any]]:
    """The job of that name, else the elements of that array. Raises Failure where there are none."""
    try:
        return [client.get(target.path)]
    except Failure as failure:
        if failure.name != "NotFound" or not (jobs := elements(client, target.namespace, target.kind, target.name)):
            raise
        return jobs


def _refused(targets: Iterable[Target], act: Callable[[Target], object]) -> list[Failure]:
    """Call `act` for each target; returns the failures."""
    found = []
    for target in targets:
        try:
            act(target)
        except Failure as failure:
            found.append(failure)
    return found


def _failed(what: str, failures: list[Failure], remedy: str) -> Failure:
    """One failure that says what was not done, and why."""
    first = failures[0]
    if len(failures) == 1:
        details, message = first.details, f"{what}: {first.message}"
    else:
        details, message = tuple(failure.message for failure in failures), f"{what}."
    return Failure(message, details=details, remedy=first.remedy or remedy, name=first.name)


def confirm(question: str) -> None:
    """Ask on a terminal; without one, refuse to guess. Raises Failure (bad usage) or leaves with code 1 on no."""
    if not sys.stdin.isatty():
        raise Failure("This needs a confirmation.", remedy="Repeat with --yes.", code=BAD_USAGE)
    typer.confirm(question, abort=True)
