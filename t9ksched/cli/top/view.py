"""What `top` shows: read from the service, and written as lines and cells. Nothing here knows the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.text import Text

from t9ksched.cli.cards import Palette, draw
from t9ksched.cli.client import Client
from t9ksched.cli.commands.nodes import held, state
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.joblist import COLUMNS, Job, short_name, why
from t9ksched.cli.messages import translated, word
from t9ksched.model.job import FINISHED

JOB_COLUMNS: Final = ("JOB", "USER", "QUEUE", "PHASE", "READY", "GPUS", "POS", "START", "WHY")
_WAITING: Final = ("Pending", "Resuming")


@dataclass(frozen=True, slots=True)
class View:
    """What there is at one moment. `fault` is why it could not be read; the rest is then as it was."""

    nodes: Sequence[Mapping[str, Any]] = ()
    queues: Sequence[Mapping[str, Any]] = ()
    jobs: Sequence[Job] = ()
    stopped: Sequence[Mapping[str, Any]] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which jobs are shown: filters of the list, and whether also those that have ended."""

    filters: Mapping[str, Any] = field(default_factory=dict)
    ended: bool = False


def read(client: Client, asked: Asked) -> View:
    """What there is now. Raises Failure."""
    answer = client.get("/apis/v1/workloads", **asked.filters)
    jobs = [job for job in answer["items"] if asked.ended or job.get("phase") not in FINISHED]
    return View(
        client.get("/apis/v1/nodes")["items"],
        client.get("/apis/v1/queues")["items"],
        sorted(jobs, key=_order),
        answer.get("stopped") or (),
    )


def _order(job: Job) -> tuple[bool, str, int, str]:
    """Jobs that wait behind those that run, in the order of their queues."""
    position = job.get("position")
    return position is not None, str(job.get("queue") or ""), position or 0, str(job.get("submittedAt") or "")


def summary(view: View) -> Text:
    """One line of numbers, and what is stopped or wrong."""
    cards = [card for node in view.nodes for card in node.get("gpus") or ()]
    used = sum(bool(card.get("holders")) for card in cards)
    waiting = sum(job.get("phase") in _WAITING for job in view.jobs)
    running = sum(job.get("phase") == "Running" for job in view.jobs)
    ready = sum(bool(node.get("ready")) for node in view.nodes)
    counts = (
        f"{ready}/{len(view.nodes)} nodes ready  {used}/{len(cards)} cards held  {running} running  {waiting} waiting"
    )
    text = Text.assemble(("t9ksched ", "bold"), translated(counts))
    for stop in view.stopped:
        text.append("  ").append(translated(f"{stop.get('what')} is stopped"), "yellow")
    if view.fault:
        text.append("  ").append(translated(view.fault), "red")
    return text


def node_lines(view: View, palette: Palette) -> Text:
    """A line a node: its name, its cards, how many are held, and its state where that is not Ready."""
    width = max((len(str(node.get("name"))) for node in view.nodes), default=0)
    lines = []
    for node in view.nodes:
        gpus, counted = node.get("gpus") or [], node.get("counted") or []
        line = Text.assemble(
            f"{node.get('name')!s:<{width}}  ", draw(gpus, palette, unknown=bool(node.get("cardsUnknown")))
        )
        if held(gpus, counted) != "–":
            line.append(f"  {held(gpus, counted)}", "dim")
        if (how := state(dict(node))).plain != "Ready":
            line.append("  ").append_text(how)
        lines.append(line)
    return Text("\n").join(lines)


def queue_lines(view: View) -> Text:
    """A line a queue: what it holds of its quota, and whether it is closed."""
    width = max((len(str(queue.get("name"))) for queue in view.queues), default=0)
    lines = []
    for queue in view.queues:
        status, spec = queue.get("status") or {}, queue.get("spec") or {}
        quota = (spec.get("quota") or {}).get("requests") or {}
        allocated = status.get("allocated") or {}
        names = [name for name in dict.fromkeys((*quota, *allocated)) if "gpu" in name or name == "cards"]
        shown = ", ".join(f"{name} {allocated.get(name, '0')}/{quota.get(name, '∞')}" for name in names)
        line = Text(f"{queue.get('name')!s:<{width}}  {shown or '–'}")
        if spec.get("closed") or queue.get("draining"):
            line.append("  ").append(word("draining") if queue.get("draining") else word("closed"), "yellow")
        lines.append(line)
    return Text("\n").join(lines)


def cells(job: Job) -> list[Text]:
    """The cells of a job's row."""
    phase = str(job.get("phase"))
    found = []
    for name in JOB_COLUMNS:
        column = COLUMNS[name]
        text = short_name(job) if name == "JOB" else translated(why(job) if name == "WHY" else column.shown(job))
        style = PHASE_STYLES.get(phase, "") if name == "PHASE" else ""
        found.append(Text(text, style=style, justify="right" if column.right else "left", no_wrap=True))
    return found
