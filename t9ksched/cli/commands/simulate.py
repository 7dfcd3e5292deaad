"""`t9ksched simulate`: what policies would have made of a recorded workload. It needs no service."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import Progress

from t9ksched.cli.commands.fill import fill_command
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import OutputOption
from t9ksched.cli.output import Output, console, print_json, print_table, table
from t9ksched.cli.textfiles import ENCODING, below, read_bytes, read_text
from t9ksched.model.errors import Invalid
from t9ksched.simulation.figures import Figures, figures
from t9ksched.simulation.job import Run
from t9ksched.simulation.traces import FORMATS, SNAPSHOT, Trace, read

if TYPE_CHECKING:
    from t9ksched.simulation.cluster import Cluster
    from t9ksched.simulation.policies import Contender

app = typer.Typer(name="simulate", help="Try policies on recorded workloads, without a cluster.", no_args_is_help=True)
_POLICIES: Final = ("fcfs", "besteffort", "priority", "sjf", "easy", "conservative", "sjf-easy", "srtf", "srsf")
"""The names of `simulation.policies`, which imports the engine: to show the help needs none."""
_OWN: Final = "current"
_COMPARED: Final = _POLICIES[:5]
"""What is compared unless said otherwise: not those that may take minutes."""
_WINDOW: Final = re.compile(r"([0-9]{0,9}):([0-9]{0,9})")
_COLUMNS: Final = (
    "POLICY",
    "JOBS",
    "MEAN WAIT",
    "MEAN COMPLETION",
    "P99",
    "SLOWDOWN",
    "MAKESPAN",
    "UTILISATION",
    "PREEMPTED",
)


@app.callback()
def _simulate() -> None:
    """Try policies on recorded workloads, without a cluster."""


app.command("fill")(fill_command)


@app.command("replay")
def replay_command(
    jobs: Annotated[Path, typer.Option("--jobs", metavar="FILE", help="The recorded jobs.")],
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=f"{', '.join(sorted([*FORMATS, SNAPSHOT]))}.")
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NxM|FILE",
            help="So many nodes with so many cards, such as 64x8; or a file of nodes, as `up --nodes` takes it. A"
            " snapshot has its own.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help=f"{', '.join(_POLICIES)}, or a scheduler.conf file; may be given repeatedly. Default: the first five;"
            f" of a snapshot {_OWN}, its own policy.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="START:END", help="Count the jobs at these positions only, from 0."),
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.png", help="Draw completions and cards in use (t9ksched[plots])."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Play recorded jobs through the scheduler's engine on virtual time, once for each policy, and compare."""
    from t9ksched.cli import plot

    if image is not None:
        plot.check(image)
    try:
        counted = _window(window)
        if form == SNAPSHOT:
            compared = _from_snapshot(jobs, cluster, policy, counted)
        else:
            compared = _from_trace(jobs, form, cluster, policy, counted)
    except Invalid as error:
        raise Failure("this cannot be simulated", details=[*map(str, error.errors)], code=BAD_USAGE) from error
    except ValueError as error:
        raise Failure(f"there is nothing to count: {error}", code=BAD_USAGE) from error
    if image is not None:
        plot.plot(image, {name: one.runs[counted] for name, one in compared.found.items()}, compared.capacity)
    if output is Output.json:
        print_json(_document(compared))
    else:
        _print(compared)


@dataclass(frozen=True, slots=True)
class _One:
    """What came of one policy; `apart` are jobs that are not counted, by why."""

    sums: Figures
    runs: Sequence[Run]
    wall: float
    apart: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Compared:
    """The policies, by name; `apart` are jobs that none was asked about."""

    found: dict[str, _One]
    capacity: int
    apart: dict[str, int] = field(default_factory=dict)


_WORDS: Final = {
    "leftOut": "have no cards or no run time: they are left out",
    "tooLarge": "need more cards than there are: they are left out",
    "never": "start at no time: they are left out",
    "endless": "start, and nothing says how long they run: they are left out",
}


def _from_trace(jobs: Path, form: str, cluster: str | None, policies: list[str] | None, counted: slice) -> _Compared:
    from t9ksched.simulation.replay import replay

    if cluster is None:
        raise Invalid.at("cluster", "--cluster NxM says what the jobs are to run on")
    shape = _cluster(cluster)
    contenders = {name: _contender(name) for name in policies or _COMPARED}
    trace = _trace(jobs, form)
    found: dict[str, _One] = {}
    for name, contender in contenders.items():
        with _bar(name, len(trace.jobs)) as progress:
            begun = time.perf_counter()
            played = replay(trace.jobs, shape, contender, progress)
            wall = time.perf_counter() - begun
        found[name] = _One(
            figures(played.runs, shape.capacity, counted), played.runs, wall, {"tooLarge": played.too_large}
        )
    return _Compared(found, shape.capacity, {"leftOut": trace.left_out})


def _from_snapshot(path: Path, cluster: str | None, policies: list[str] | None, counted: slice) -> _Compared:
    from t9ksched.scheduler.decide.plugins import installed
    from t9ksched.simulation import snapshot

    if cluster is not None:
        raise Invalid.at("cluster", "a snapshot has its own nodes: leave --cluster out")
    contenders = {name: None if name == _OWN else _contender(name, _OWN) for name in policies or (_OWN,)}
    known = snapshot.load(read_bytes(path), installed)
    capacity = snapshot.capacity(known.present)
    found: dict[str, _One] = {}
    for name, contender in contenders.items():
        begun = time.perf_counter()
        played = snapshot.play(known, contender)
        wall = time.perf_counter() - begun
        apart = {"never": played.never, "endless": played.endless}
        found[name] = _One(snapshot.sums(played, capacity, counted), played.runs, wall, apart)
    return _Compared(found, capacity)


def _trace(path: Path, form: str) -> Trace:
    try:
        with path.open(encoding=ENCODING, newline="") as lines:
            return read(form, lines)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Invalid.at(str(path), "it is no text in UTF-8") from error


def _cluster(text: str) -> "Cluster":
    from t9ksched.cli.nodecards import cards_of_nodes
    from t9ksched.simulation.cluster import Cluster

    path = Path(text)
    if not path.is_file():
        return Cluster.parse(text)
    try:
        return Cluster.of(cards_of_nodes(read_text(path)))
    except Invalid as error:
        raise below(text, error) from error


def _contender(name: str, *others: str) -> "Contender":
    """The policy of that name, or of that file; `others` are names that are known beside those."""
    from t9ksched.engine.scheduler_conf import parse_conf
    from t9ksched.simulation.policies import Contender, named

    path = Path(name)
    if name in _POLICIES or not path.is_file():
        return named(name, others)
    try:
        found = parse_conf(read_text(path))
    except Invalid as error:
        raise below(name, error) from error
    if "preempt" in found.actions:
        raise Invalid.at(f"{name}: actions", "preemption is not simulated yet: leave preempt out")
    return Contender(policy=found, by_priority=True, named=False)


def _window(text: str | None) -> slice:
    """`START:END` as a slice; either may be left out."""
    if text is None:
        return slice(None)
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise Invalid.at("window", f"{text!r} must be START:END, positions of jobs from 0, such as 1000:2000")
    first, last = (int(part) if part else None for part in found.groups())
    return slice(first, last)


@contextmanager
def _bar(name: str, jobs: int) -> Iterator[Any]:
    """A bar on stderr while a person looks; what it gives is told how many jobs have ended."""
    if not sys.stderr.isatty():
        yield lambda ended: None
        return
    with Progress(console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task(name, total=jobs)
        yield lambda ended: progress.update(task, completed=ended)


def _document(compared: _Compared) -> dict[str, Any]:
    return compared.apart | {
        "policies": {
            name: {
                "jobs": one.sums.jobs,
                **one.apart,
                "makespan": one.sums.makespan,
                "meanWait": one.sums.mean_wait,
                "meanCompletion": one.sums.mean_completion,
                "p99Completion": one.sums.p99_completion,
                "meanBoundedSlowdown": one.sums.mean_bounded_slowdown,
                "utilisation": one.sums.utilisation,
                "preemptions": one.sums.preemptions,
                "wallSeconds": one.wall,
            }
            for name, one in compared.found.items()
        },
    }


def _print(compared: _Compared) -> None:
    rows = [
        [
            name,
            str(sums.jobs),
            *(f"{value:,.0f} s" for value in (sums.mean_wait, sums.mean_completion, sums.p99_completion)),
            f"{sums.mean_bounded_slowdown:,.1f}",
            f"{sums.makespan:,.0f} s",
            f"{sums.utilisation:.1%}",
            f"{sums.preemptions:,}",
        ]
        for name, sums in ((name, one.sums) for name, one in compared.found.items())
    ]
    out = console()
    print_table(out, table(_COLUMNS, rows, right=_COLUMNS[1:]))
    told = [compared.apart] + [one.apart for one in compared.found.values()]
    for why, words in _WORDS.items():
        if count := max(apart.get(why, 0) for apart in told):
            out.print(f"{count} jobs {words}.")
