"""`t9ksched cancel`: delete jobs, after asking."""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import typer

from t9ksched.cli.arrays import chosen
from t9ksched.cli.client import Client
from t9ksched.cli.consequences import of_cancelling
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.options import NamespaceOption, Service, with_service
from t9ksched.cli.output import console, paragraph, print_warnings
from t9ksched.cli.progress import counting

_AT_ONCE: Final = 8
"""Elements of an array that are deleted at once."""


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
    arrays: dict[Target, list[Target]] = {}

    def find(target: Target) -> None:
        found = chosen(client, target)
        if found.array is not None:
            arrays[target] = [Target(target.namespace, target.kind, str(job["name"])) for job in found.jobs]
            names.append(f"{len(found.jobs)} jobs of the array {target}")
        else:
            jobs.extend(found.jobs)
            wanted.append(target)
            names.append(str(target))

    if unknown := refused([parse_target(target, namespace) for target in targets], find):
        raise failed("Nothing was cancelled", unknown, "Repeat with jobs that are there: t9ksched jobs")
    if not yes:
        for line in (line for job in jobs for line in of_cancelling(job)):
            paragraph(console(), line)
        if len(names) == 1:
            confirm(f"Delete {names[0]} in namespace {namespace}, with everything it owns?")
        else:
            confirm(f"Delete {', '.join(names)} in namespace {namespace}, with everything they own?")

    def delete(target: Target) -> None:
        answer = client.delete(target.path)
        console().print(f"{target} is being deleted")
        print_warnings((answer or {}).get("warnings") or (), str(target))

    kept = refused(wanted, delete)
    for array, those in arrays.items():
        lost = _delete_elements(client, those)
        console().print(f"{len(those) - len(lost)} jobs of the array {array} are being deleted")
        kept += lost
    if kept:
        count = len(wanted) + sum(map(len, arrays.values()))
        raise failed(f"{len(kept)} of {count} jobs were not cancelled", kept, "")


def _delete_elements(client: Client, targets: list[Target]) -> list[Failure]:
    """Delete the elements of an array, a few at once; returns the failures. Those that went meanwhile are none."""

    def delete(target: Target) -> list[Failure]:
        return [one for one in refused([target], lambda each: client.delete(each.path)) if one.name != "NotFound"]

    found: list[Failure] = []
    with counting(len(targets)) as steps, ThreadPoolExecutor(_AT_ONCE) as threads:
        for failures in threads.map(delete, targets):
            steps.step()
            found += failures
    return found


def refused(targets: Iterable[Target], act: Callable[[Target], object]) -> list[Failure]:
    """Call `act` for each target; returns the failures."""
    found = []
    for target in targets:
        try:
            act(target)
        except Failure as failure:
            found.append(failure)
    return found


def failed(what: str, failures: list[Failure], remedy: str) -> Failure:
    """One failure that says what was not done, and why."""
    first = failures[0]
    if len(failures) == 1:
        details, message = first.details, f"{what}: {first.message}"
    else:
        details, message = tuple(dict.fromkeys(failure.message for failure in failures)), f"{what}."
    return Failure(message, details=details, remedy=first.remedy or remedy, name=first.name)


def confirm(question: str) -> None:
    """Ask on a terminal; without one, refuse to guess. Raises Failure (bad usage) or leaves with code 1 on no."""
    if not sys.stdin.isatty():
        raise Failure("This needs a confirmation.", remedy="Repeat with --yes.", code=BAD_USAGE)
    try:
        sure = typer.confirm(question)
    except typer.Abort:  # Ctrl-C, or the end of the input
        console().print()
        raise KeyboardInterrupt from None
    if not sure:
        raise typer.Abort
