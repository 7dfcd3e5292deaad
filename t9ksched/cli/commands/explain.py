"""`t9ksched explain`: why a job waits, which jobs hold what it needs, and what would let it start."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.arrays import elements, index_of, ranges, tell_counts
from t9ksched.cli.cards import number
from t9ksched.cli.commands.stops import note
from t9ksched.cli.failure import Failure
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.messages import translated, word
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, with_service
from t9ksched.cli.output import Output, ahead, console, paragraph, print_json, print_table, table
from t9ksched.model.timelimit import written

_NODES_NAMED = 8
_LINKS_SHOWN = 16
_SOURCES = {"queue": "its queue's maxDuration", "reservation": "the rest of its reservation"}
VERDICT_STYLES = {"Waiting": "yellow", "Placed": "green", "Refused": "red", "Finished": "blue"}


@with_service
def explain(
    service: Service,
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet, mj/walk or nb/lab.")],
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """Say why a job is where it is, with the numbers, and what would unblock it; of an array how far elements are."""
    wanted = parse_target(target, namespace)
    client = service()
    try:
        answer = client.get(f"{wanted.path}/explanation")
    except Failure as failure:
        jobs = elements(client, namespace, wanted.kind, wanted.name) if failure.name == "NotFound" else []
        if not jobs:
            raise
        if output is Output.json:
            print_json({"array": wanted.name, "items": jobs})
        else:
            show_array(wanted.name, jobs, console())
        return
    if output is Output.json:
        print_json(answer)
    else:
        show(answer, console())


def show_array(array: str, jobs: Sequence[dict[str, Any]], out: Console) -> None:
    """Print how far the elements of an array are, and why those wait that do; alike ones together."""
    tell_counts(array, Counter(str(job.get("phase")) for job in jobs))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        groups.setdefault((str(job.get("phase")), (job.get("reason") or {}).get("code") or "–"), []).append(job)
    rows: list[list[str | Text]] = []
    for (phase, code), alike in sorted(groups.items(), key=lambda group: _first(array, group[1])):
        starts = [at for job in alike if (at := _starts(job)) is not None]
        indices = [index for job in alike if (index := index_of(array, job["name"])) is not None]
        words = Text(phase, PHASE_STYLES.get(phase, ""))
        rows.append([ranges(indices), str(len(alike)), words, ahead(min(starts, default=None)), code])
    out.print()
    print_table(out, table(("ELEMENTS", "COUNT", "PHASE", "START", "REASON"), rows, right=("COUNT",)))
    waiting = next((job for job in jobs if (job.get("reason") or {}).get("code")), None)
    if waiting is not None:
        out.print()
        reason = waiting["reason"]
        paragraph(out, Text.assemble((str(waiting["name"]), "bold"), f": {reason['code']}: {reason['message']}"))


def _first(array: str, jobs: Sequence[dict[str, Any]]) -> int:
    return min((index for job in jobs if (index := index_of(array, job["name"])) is not None), default=0)


def _starts(job: dict[str, Any]) -> str | None:
    """When it is planned to start, or expected."""
    plan, expected = job.get("plannedStart") or {}, job.get("expectedStart") or {}
    return plan.get("at") or expected.get("latest")


def show(answer: dict[str, Any], out: Console) -> None:
    """Print an explanation shape as paragraphs, and what is stopped unless a reason says so."""
    job = answer.get("job") or {}
    verdict = str(answer.get("verdict") or "–")
    members = job.get("members") or {}
    phase = str(job.get("phase") or "")
    out.print(
        Text.assemble(
            (f"{job.get('kind')}/{job.get('name')}", "bold"),
            f" in {job.get('namespace')}, queue {job.get('queue') or '–'}: ",
            (verdict, VERDICT_STYLES.get(verdict, "")),
            f" ({members.get('running', 0)} of "
            f"{max(members.get('total', 0), members.get('min', 0))} members running, "
            f"{number(job)} GPUs, ",
            (phase, PHASE_STYLES.get(phase, "")),
            ")",
        )
    )
    if seconds := (limit := job.get("timeLimit") or {}).get("seconds"):
        whose = _SOURCES.get(limit.get("source", ""), "its own")
        if limit.get("source") == "learned":
            paragraph(out, f"Expected to run: {written(seconds)} at most, as jobs like it did (nothing enforces it)")
        else:
            out.print(f"Time limit: {written(seconds)} ({whose})")
    if plan := job.get("plannedStart"):
        paragraph(out, _plan(plan))
    if (position := answer.get("position")) is not None and verdict == "Waiting":
        out.print(f"Place in its queue: {position}")
    for reason in answer.get("reasons") or ():
        out.print()
        paragraph(out, Text.assemble((f"{reason.get('code')}", "yellow"), f": {reason.get('message')}"))
        if needs := reason.get("needs"):
            paragraph(out, f"  needs  {_amount(needs)}")
        if has := reason.get("has"):
            paragraph(out, f"  has    {_amount(has)}")
        if nodes := reason.get("nodes"):
            paragraph(out, f"  nodes  {', '.join(_nodes(nodes))}")
    if holders := answer.get("holders"):
        _show_holders(holders, out)
    _show_links(answer.get("links") or [], out)
    for warning in answer.get("warnings") or ():
        out.print()
        paragraph(out, Text.assemble(("Note", "yellow"), f": {warning.get('message')}"))
    if unblocks := answer.get("unblocks"):
        out.print("\nWhat would let it start:")
        for line in unblocks:
            paragraph(out, Text.assemble(("  → ", "bold"), _sentence(line)))
    told = any(reason.get("code") == "SchedulingStopped" for reason in answer.get("reasons") or ())
    note((stop for stop in answer.get("stopped") or () if not (told and stop["what"] == "scheduling")), out)


def _plan(plan: dict[str, Any]) -> str:
    """When and where it is to start."""
    nodes = [str(name) for name in plan.get("nodes") or ()]
    more = f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else ""
    where = f", on {', '.join(nodes[:_NODES_NAMED])}{more}" if nodes else ""
    when = f"{plan.get('at')}, {ahead(plan.get('at'))}{where}"
    if plan.get("firm"):
        return f"Planned start: {when}"
    return f"Expected to start: {when} (tentative: it relies on ends that nothing enforces)"


def _show_holders(holders: list[dict[str, Any]], out: Console) -> None:
    """Who holds what it needs now, and who is to have it later."""
    rows = [
        [str(h.get("queue") or "–"), str(h.get("job") or "–"), _holds(h), str(h.get("until") or word("unknown"))]
        for h in holders
        if not (h.get("from") or h.get("reservation"))
    ]
    if rows:
        out.print("\nJobs that hold what it needs:")
        print_table(out, table(("QUEUE", "JOB", "HOLDS", "UNTIL"), rows, right=("HOLDS",)))
    planned = [
        [
            str(h.get("queue") or "–"),
            str(h.get("job") or "–"),
            _holds(h),
            str(h["from"]),
            str(h.get("until") or word("unknown")),
        ]
        for h in holders
        if h.get("from") and not h.get("reservation")
    ]
    if planned:
        out.print("\nJobs that are to start there:")
        print_table(out, table(("QUEUE", "JOB", "NEEDS", "FROM", "UNTIL"), planned, right=("NEEDS",)))
    reserved = [
        [
            str(h["reservation"]),
            str(h.get("nodes")),
            str(h.get("gpus")),
            str(h["from"]),
            str(h["until"]),
        ]
        for h in holders
        if h.get("reservation")
    ]
    if reserved:
        out.print("\nReservations that keep room there:")
        columns = ("RESERVATION", "NODES", "GPUS", "FROM", "UNTIL")
        print_table(out, table(columns, reserved, right=("NODES", "GPUS")))


def _show_links(links: list[dict[str, Any]], out: Console) -> None:
    """Pods with their cards: `resnet-0 on a100-0: cards 0,1,2,3 linked NV12`."""
    for one in links[:_LINKS_SHOWN]:
        cards = ",".join(map(str, one.get("cards") or ()))
        paragraph(out, f"{one.get('pod')} on {one.get('node')}: cards {cards} linked {one.get('linked')}")
    if len(links) > _LINKS_SHOWN:
        out.print(f"… and {len(links) - _LINKS_SHOWN} more pods: -o json has them")


def _holds(holder: dict[str, Any]) -> str:
    cards, holds = holder.get("gpus"), holder.get("holds") or {}
    if (count := holds.get("cards")) is not None:
        return f"{count} cards"
    return f"{cards} GPU{'' if cards == 1 else 's'}" if cards else _amount(holder.get("holds") or {}) or "–"


def _nodes(counts: dict[str, Any]) -> Iterator[str]:
    """How many nodes match and have room, and how many each cause takes away."""
    for what, count in counts.items():
        if what == "match":
            yield translated(f"{count} match")
        elif what == "fit":
            yield translated(f"{count} have room")
        else:
            yield f"{count} {what}"


def _amount(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_amount(item)} {key}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_amount(item) for item in value)
    return str(value)


def _sentence(value: Any) -> str:
    return str(value.get("message") or _amount(value)) if isinstance(value, dict) else str(value)
