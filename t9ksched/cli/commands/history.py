"""`t9ksched history`: the jobs that were, and what happened to one of them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from t9ksched.cli.cards import number
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.messages import translated
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, console, print_json, print_table, table
from t9ksched.model.duration import parse_duration
from t9ksched.model.job import FINISHED
from t9ksched.model.wall_clock import parse_moment

_CANCELLED: Final = "Cancelled"
_SHOWN: Final = ("pod", "node", "message", "code", "from", "to", "priority", "limit", "waitedSeconds", "phase", "by")
"""What of the detail of an event is told in a table, in this order."""


@with_service
def history(
    service: Service,
    target: Annotated[
        str | None, typer.Argument(metavar="[KIND/NAME]", help="What happened to it (default: a list of jobs).")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Of the job, or only this one.")
    ] = None,
    queue: Annotated[list[str] | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", metavar="USER", help="Only of this user.")] = None,
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only such as Failed or Succeeded.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Submitted since: 7d, or a moment with its zone.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    output: OutputOption = Output.table,
) -> None:
    """Jobs, the newest first, those that are gone too; or what happened to one, also when it is gone."""
    client = service()
    if target is not None:
        given = {"--queue": queue, "--user": user, "--phase": phase, "--since": since}
        if wrong := [name for name, value in given.items() if value]:
            raise Failure(f"{wrong[0]} is about a list of jobs, not about one.", code=BAD_USAGE)
        wanted = parse_target(target, namespace or "default")
        answer = client.get(f"{wanted.path}/history", limit=limit)
        _show(answer, _events(answer["items"]), output)
        return
    query: dict[str, Any] = {
        "namespace": namespace,
        "queue": queue,
        "user": user,
        "phase": phase,
        "since": _moment(since),
    }
    query |= {"deleted": "true", "order": "newest", "limit": limit}
    answer = client.call("GET", "/apis/v1/workloads", query=query).body
    _show(answer, [_job(one) for one in answer["items"]], output)


_COLUMNS: Final = {
    6: ("JOB", "USER", "GPUS", "SUBMITTED", "RAN", "END"),
    4: ("TIME", "EVENT", "BY", "WHAT"),
}


def _show(answer: dict[str, Any], rows: list[list[str | Text]], output: Output) -> None:
    if output is Output.json:
        print_json(answer)
    elif not rows:
        console().print("Nothing happened here.")
    else:
        print_table(console(), table(_COLUMNS[len(rows[0])], rows, right=("GPUS", "RAN")))


def _job(job: Mapping[str, Any]) -> list[str | Text]:
    phase = str(job.get("phase") or "–")
    if job.get("deletedAt") and phase not in FINISHED:
        phase = _CANCELLED
    return [
        f"{job.get('kind')}/{job.get('name')}",
        str(job.get("submitter") or "–"),
        number(dict(job)),
        _time(job.get("submittedAt")),
        _ran(job),
        Text(phase, style=PHASE_STYLES.get(phase, "")),
    ]


def _ran(job: Mapping[str, Any]) -> str:
    """How long its last run took, or takes."""
    started = _read(job.get("startedAt"))
    if started is None:
        return "–"
    ended = _read(job.get("finishedAt")) or _read(job.get("deletedAt")) or datetime.now(UTC)
    seconds = max(0, int((ended - started).total_seconds()))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def _events(events: list[dict[str, Any]]) -> list[list[str | Text]]:
    return [
        [_time(one.get("at")), str(one.get("event")), str(one.get("actor") or "–"), _detail(one.get("detail") or {})]
        for one in events
    ]


def _detail(detail: Mapping[str, Any]) -> str:
    told = [f"{key} {translated(str(detail[key]))}" for key in _SHOWN if detail.get(key) not in (None, "", {}, [])]
    if nodes := detail.get("nodes"):
        told.insert(0, "on " + ", ".join(nodes) if isinstance(nodes, Mapping | list) else f"nodes {nodes}")
    return ", ".join(told)


def _time(moment: str | None) -> str:
    """A moment in the time zone of this machine."""
    then = _read(moment)
    return "–" if then is None else then.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _read(moment: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(moment)) if moment else None
    except ValueError:
        return None


def _moment(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        if text[:4].isdigit() and "-" in text:
            return parse_moment(text).isoformat()
        duration = parse_duration(text)
    except ValueError as error:
        remedy = "Write it as 12h or 7d, or as a moment such as 2031-05-01T10:00:00Z."
        raise Failure(f"--since {text}: {error}", remedy=remedy, code=BAD_USAGE) from None
    return (datetime.now(UTC) - (duration or timedelta())).isoformat(timespec="seconds")
