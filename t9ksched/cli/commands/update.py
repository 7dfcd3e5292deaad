"""`t9ksched update`: another time limit, priority, size or queue for jobs that were submitted."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from t9ksched.cli.arrays import WAITING, Chosen, chosen
from t9ksched.cli.client import Client
from t9ksched.cli.commands.cancel import confirm, failed, refused
from t9ksched.cli.consequences import of_limiting, of_moving, of_scaling
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, paragraph, print_json, print_warnings
from t9ksched.cli.progress import Steps, counting
from t9ksched.model.names import ARRAY_LABEL
from t9ksched.model.timelimit import limit_seconds

Json = dict[str, Any]


@dataclass(frozen=True)
class _Wish:
    """What is to be changed; None is left as it is."""

    time_limit: str | None
    priority: int | None
    replicas: int | None
    queue: str | None


@with_service
def update(
    service: Service,
    targets: Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", metavar="T", help="The new limit, such as 2h; 0 for none.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option("-p", "--priority", metavar="N", min=0, max=100, help="Of a job that waits.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="N", min=0, help="Of an elastic job or a batch Job.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="QUEUE", help="Submit a waiting job again there, and cancel it here."),
    ] = None,
    namespace: NamespaceOption = "default",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Change jobs. Of yours you may shorten the time limit and lower the priority; managers of the queue do more. The
    name of an array stands for its elements that wait.
    """
    wish = _Wish(time_limit, priority, replicas, queue)
    if wish == _Wish(None, None, None, None):
        raise Failure(
            "Nothing is to be changed.",
            remedy="Say what: --time-limit, --priority, --replicas or --queue.",
            code=BAD_USAGE,
        )
    client = service()
    found: list[Chosen] = []
    failures = refused(
        [parse_target(text, namespace) for text in targets], lambda target: found.append(chosen(client, target))
    )
    if len(targets) == 1 and failures:
        raise failures[0]
    if queue is not None and (array := next(filter(None, map(_array, found)), None)):
        remedy = f"Cancel it, and submit it there: t9ksched cancel job/{array}"
        raise Failure(f"The elements of the array {array} keep their queue.", remedy=remedy, code=BAD_USAGE)
    asked = [line for one in found for line in _consequences(one, wish)]
    if asked and not yes:
        for line in asked:
            paragraph(console(), line)
        confirm("Change this?")
    done: list[Json] = []
    for one in found:
        told = one.array is None and output is Output.table
        lost = _changed(client, one.waiting, wish, done, _tell if told else None)
        if one.array is not None and output is Output.table:
            _tell_array(one, len(one.waiting) - len(lost))
        failures += lost
    if output is Output.json:
        single = len(targets) == 1 and found[0].array is None
        print_json(done[0] if single and done else {"items": done})
    if failures:
        count = sum(len(one.waiting) for one in found) + len(targets) - len(found)
        if count == 1:
            raise failures[0]
        raise failed(f"{len(failures)} of {count} jobs were not changed", failures, "")


def _array(one: Chosen) -> str | None:
    """The array whose name was given, or one of whose elements was named."""
    return one.array.name if one.array is not None else (one.jobs[0].get("labels") or {}).get(ARRAY_LABEL)


def _consequences(one: Chosen, wish: _Wish) -> list[str]:
    """What is to be known before, in sentences."""
    try:
        seconds = limit_seconds(wish.time_limit or "")
    except ValueError:
        seconds = None  # the service says what is wrong with it
    told = [line for job in one.waiting for line in (of_limiting(job, seconds) if seconds else ())]
    for job in one.waiting:
        if wish.replicas is not None and wish.replicas < ((job.get("members") or {}).get("total") or 0):
            told += of_scaling(job, wish.replicas)
        if wish.queue is not None and job.get("queue") != wish.queue:
            told += of_moving(job, wish.queue)
    return told


def _changed(
    client: Client,
    jobs: Sequence[Json],
    wish: _Wish,
    done: list[Json],
    tell: Callable[[str, Json, str], None] | None,
) -> list[Failure]:
    """Change jobs; the failures. What was answered is added to `done`."""

    def change(target: Target) -> None:
        job, name = known[target], str(target)
        answer = {"namespace": target.namespace, "kind": target.kind, "name": target.name}
        if moves := wish.queue is not None and job.get("queue") != wish.queue:
            job = _move(client, target, job, wish)
            target = Target(target.namespace, target.kind, str(job["name"]))
            answer |= {"name": job["name"], "queue": job["queue"]}
            if tell is not None:
                tell(name, {}, f"is {target} in queue {job['queue']} now")
        elif wish.queue is not None and tell is not None:
            tell(name, {}, f"is in queue {wish.queue} already")
        for action, body, says in _steps(replace(wish, time_limit=None, priority=None) if moves else wish):
            options = {"replicas": "--replicas", "priority": "--priority", "timeLimit": "--time-limit"}
            address = f"{target.path}/actions/{action}"
            told = client.call("POST", address, body=body | {"uid": job["uid"]}, options=options).body
            answer |= told
            if tell is not None:
                tell(str(target), told, says)
        done.append(answer)
        steps.step()

    known = {Target(str(job["namespace"]), str(job["kind"]), str(job["name"])): job for job in jobs}
    with counting(len(known)) if tell is None else nullcontext(Steps()) as steps:
        return refused(known, change)


def _steps(wish: _Wish) -> list[tuple[str, Json, str]]:
    """The action, its body and what is said of it, for each thing that is to be changed."""
    steps: list[tuple[str, Json, str]] = []
    if wish.time_limit is not None:
        own = (
            "has no time limit of its own now"
            if wish.time_limit == "0"
            else f"has the time limit {wish.time_limit} now"
        )
        steps.append(("update", {"timeLimit": wish.time_limit}, own))
    if wish.priority is not None:
        steps.append(("prioritise", {"priority": wish.priority}, f"has priority {wish.priority} now"))
    if wish.replicas is not None:
        steps.append(("scale", {"replicas": wish.replicas}, f"is scaled to {wish.replicas}"))
    return steps


def _move(client: Client, target: Target, job: Json, wish: _Wish) -> Json:
    """Submit a waiting job again in another queue, with the limit and the priority that are asked for, and cancel it in
    its own; the new one.
    """
    queue, limit = wish.queue, wish.time_limit
    if (job.get("members") or {}).get("bound") or job.get("phase") not in WAITING:
        raise Failure(
            f"{target} is {job.get('phase')}: only a job that waits gets another queue.",
            remedy=f"Submit it again there, and cancel this one: t9ksched resubmit {target} --queue {queue}",
        )
    own = job.get("timeLimit") or {}
    if limit is None and own.get("source") == "job" and own.get("seconds"):
        limit = f"{own['seconds']}s"
    query = {"queue": queue, "timeLimit": limit, "priority": wish.priority}
    options = {"queue": "--queue", "timeLimit": "--time-limit", "priority": "--priority"}
    answer = client.call("POST", f"{target.path}/actions/resubmit", query=query, options=options)
    print_warnings(answer.body["warnings"], f"{target}: ")
    client.delete(target.path)
    moved: Json = answer.body["items"][0]
    return moved


def _tell(target: str, answer: Json, says: str) -> None:
    print_warnings(answer.get("warnings") or (), f"{target}: ")
    console().print(f"{target} {says}", highlight=False)


def _tell_array(one: Chosen, changed: int) -> None:
    paragraph(console(), f"{changed} waiting jobs of the array {one.array} are changed")
    if left := len(one.jobs) - len(one.waiting):
        paragraph(console(), f"{left} that do not wait are as before")
