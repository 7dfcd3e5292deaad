"""`t9ksched wait`: come back when a job has got as far as asked; exit code 1 when it cannot, or does not in time."""

import time
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from t9ksched.cli.arrays import elements_named, wait_for_array
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import Teller, Watch
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json
from t9ksched.client import goals
from t9ksched.model.duration import parse_duration
from t9ksched.model.job import FINISHED, TERMINATING


class Goal(StrEnum):
    """How far a job must have got."""

    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    finished = "finished"
    deleted = "deleted"


@with_service
def wait(
    service: Service,
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    goal: Annotated[
        Goal | None, typer.Option("--for", help="What to wait for (default: its end, which must be a success).")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Such as 90s, 10m or 1h.")] = "1h",
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Wait for a job; on a terminal, tell meanwhile why it waits and what changes. `running` is also reached by a job
    that has already succeeded, `finished` by one that failed, too. The name of an array means all of its elements.
    """
    must_succeed, goal = goal is None, goal or Goal.finished
    wanted = parse_target(target, namespace)
    end = time.monotonic() + _seconds(timeout)
    job: dict[str, Any] | None = None
    out = console()
    told = output is Output.table and out.is_terminal
    client = service()
    if jobs := elements_named(client, wanted):
        ended = wait_for_array(client, wanted, jobs, partial(_element_reached, goal), end, tell=told)
        if ended is None:
            text = f"The array {wanted} is not {goal.value} after {timeout}."
            raise Failure(text, remedy=f"See why: t9ksched explain {wanted} -n {namespace}")
        if must_succeed and (bad := next((job for job in ended if job.get("phase") != "Succeeded"), None)):
            raise _ended(bad)
        if output is Output.json:
            print_json({"array": wanted.name, "items": ended})
        elif not told:
            out.print(f"{wanted} is {goal.value}")
        return
    watch = Watch(client, wanted, Teller(out) if told else None)
    while True:
        try:
            seen = watch.look()
        except Failure as failure:
            if failure.name == "NotFound" and goal is Goal.deleted:
                job = None
                break
            raise
        job = seen or job
        if seen is not None and reached(goal, seen):
            break
        left = end - time.monotonic()
        if left <= 0:
            reason = (job or {}).get("reason") or {}
            raise Failure(
                f"{wanted} is not {goal.value} after {timeout}; it is {(job or {}).get('phase')}.",
                details=[f"{reason['code']}: {reason['message']}"] if reason.get("code") else [],
                remedy=f"See why: t9ksched explain {wanted} -n {namespace}",
            )
        watch.wait(left)
    if must_succeed and job is not None and job.get("phase") != "Succeeded":
        raise _ended(job)
    if output is Output.json:
        print_json(job)
    elif job is None or not told:
        out.print(f"{wanted} is {goal.value}" if job is None else f"{wanted} is {job.get('phase')}")


def _element_reached(goal: Goal, job: dict[str, Any], *, there: bool) -> bool:
    """Whether an element is where `goal` says; `there` is false for one that was deleted, as it was seen last."""
    if not there:
        if goal is Goal.deleted:
            return True
        if job.get("phase") not in FINISHED:
            raise Failure(f"{_name(job)} was deleted and will not be {goal.value} any more.")
    return reached(goal, job)


def reached(goal: Goal, job: dict[str, Any]) -> bool:
    """Whether the job is where `goal` says. Raises Failure when it can no longer get there."""
    phase = str(job.get("phase"))
    there = goals.reached(goal, phase)
    if there is not None:
        return there
    if phase == TERMINATING:
        raise Failure(f"{_name(job)} is being deleted and will not be {goal.value} any more.")
    raise _ended(job, f" and will not be {goal.value} any more")


def _ended(job: dict[str, Any], more: str = "") -> Failure:
    reason = job.get("reason") or {}
    details = [str(reason["message"])] if reason.get("message") else []
    return Failure(f"{_name(job)} ended as {job.get('phase')}{more}.", details=details)


def _name(job: dict[str, Any]) -> str:
    return f"{job.get('kind')}/{job.get('name')}"


def _seconds(text: str) -> float:
    """A timeout as people write it; a bare number counts seconds."""
    try:
        if text.isdigit():
            return float(text)
        duration = parse_duration(text)
    except ValueError as error:
        raise Failure(f"--timeout {text}: {error}", remedy="Write it as 90s, 10m or 1h.", code=BAD_USAGE) from error
    return duration.total_seconds() if duration else 0.0
