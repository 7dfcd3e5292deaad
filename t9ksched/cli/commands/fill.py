"""`t9ksched simulate fill`: how much of a cluster's cards policies fill. It needs no service."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.progress import Progress
from rich.text import Text

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.options import OutputOption
from t9ksched.cli.output import Output, console, paragraph, print_json, print_table, table
from t9ksched.cli.textfiles import ENCODING, below, read_text
from t9ksched.model.errors import Invalid

if TYPE_CHECKING:
    from t9ksched.engine.policy import Policy
    from t9ksched.simulation.fill import Filled, Unplaceable
    from t9ksched.simulation.openb import FillNode, FillPod

T = TypeVar("T")
_POLICIES: Final = ("default", "fgd", "first-fit", "best-fit", "spread")
_COLUMNS: Final = ("POLICY", "AT 100 %", "AT DEMAND", "FRAGMENTED", "PLACED/S")
_MOST_SEEDS: Final = 1000
_MOST_NAMED: Final = 8


def fill_command(
    nodes: Annotated[
        Path, typer.Option("--nodes", metavar="CSV", help="Nodes: sn,cpu_milli,memory_mib,gpu,model (openb).")
    ],
    pods: Annotated[
        Path,
        typer.Option("--pods", metavar="CSV", help="Pods: cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME|FILE",
            help=f"{', '.join(_POLICIES)}, or a scheduler.conf file; may be given repeatedly. Default: all names.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="So many draws of pods.", min=1, max=_MOST_SEEDS)
    ] = 1,
    demand: Annotated[
        float, typer.Option("--demand", metavar="X", help="Pods arrive until they ask for X times the cards.")
    ] = 1.3,
    image: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw what is allocated (t9ksched[plots]).")
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Let pods arrive that never end, and see how much of the cards each policy gives out."""
    from t9ksched.cli import plot
    from t9ksched.simulation.fill import fill, unplaceable
    from t9ksched.simulation.openb import read_nodes, read_pods

    if image is not None:
        plot.check(image)
    if not 1 <= demand <= 10:
        raise Failure(f"--demand {demand:g}: write a number from 1 to 10", code=BAD_USAGE)
    mark = round(demand * 100)
    try:
        read = _read(nodes, read_nodes), _read(pods, read_pods)
        contenders = {name: _policy(name, read[1]) for name in policy or _POLICIES}
    except Invalid as error:
        raise Failure("this cannot be simulated", details=[*map(str, error.errors)], code=BAD_USAGE) from error
    without = unplaceable(*read)
    _warn(without, len(read[1]))
    marks = tuple(sorted({*range(50, mark, 5), 100, mark}))
    found: dict[str, list[Filled]] = {}
    for name, contender in contenders.items():
        with _bar(name, seeds * len(read[1])) as progress:
            found[name] = []
            for seed in range(seeds):
                order, arrivals = _draw(*read, mark, seed)
                found[name].append(fill(order, arrivals, contender, marks, time.perf_counter, progress))
    if image is not None:
        plot.plot_filled(image, {name: [one.at for one in runs] for name, runs in found.items()})
    if output is Output.json:
        told = {"pods": without.pods, "unknownModels": without.unknown_models, "tooLarge": without.too_large}
        print_json({"policies": {name: _shape(runs, mark) for name, runs in found.items()}, "unplaceable": told})
    else:
        _print(found, mark)


def _draw(
    nodes: "Sequence[FillNode]", pods: "Sequence[FillPod]", mark: int, seed: int
) -> "tuple[list[FillNode], list[FillPod]]":
    """The order of nodes, and the pods that arrive, with a seed; `mark` is their demand in percent."""
    from t9ksched.simulation.fill import capacity_of, drawn, ordered

    demand = -(-capacity_of(nodes) * mark // 100)
    return ordered(nodes, Random(f"nodes {seed}")), drawn(pods, demand, Random(f"pods {seed}"))


def _read(path: Path, reader: Callable[[Iterable[str]], T]) -> T:
    try:
        with path.open(encoding=ENCODING, newline="") as lines:
            return reader(lines)
    except Invalid as error:
        raise below(path, error) from error
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Invalid.at(str(path), "it is no text in UTF-8") from error


def _policy(name: str, pods: "Sequence[FillPod]") -> "Policy":
    from t9ksched.engine.scheduler_conf import parse_conf
    from t9ksched.simulation.fill import POLICIES, fgd

    if name == "fgd":
        return fgd(Counter(pods))
    if name in POLICIES:
        return POLICIES[name]
    path = Path(name)
    if not path.is_file():
        raise Invalid.at("policy", f"{name!r} is unknown: use {', '.join(_POLICIES)}, or a scheduler.conf file")
    try:
        return parse_conf(read_text(path))
    except Invalid as error:
        raise below(name, error) from error


@contextmanager
def _bar(name: str, pods: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while a person looks; what it gives is told how many more pods were decided about."""
    if not sys.stderr.isatty():
        yield lambda decided: None
        return
    with Progress(console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task(name, total=pods)
        yield lambda decided: progress.advance(task, decided)


def _warn(without: "Unplaceable", pods: int) -> None:
    """Say on stderr which pods of the list no policy can place."""
    found = []
    if without.unknown_models:
        models = list(without.unknown_models)
        listed = ", ".join(models[:_MOST_NAMED]) + (", …" if len(models) > _MOST_NAMED else "")
        asking = sum(without.unknown_models.values())
        found.append(f"{asking} of {pods} pods may use only models that no node with GPUs has ({listed})")
    if without.too_large:
        found.append(
            f"{without.too_large} of {pods} pods ask for more cores, memory or GPUs than any node has that they may use"
        )
    out = console(sys.stderr)
    for what in found:
        paragraph(out, Text.assemble(("warning", "bold yellow"), f": --pods: {what}: they are dropped by every policy"))


def _shape(runs: "Sequence[Filled]", mark: int) -> dict[str, Any]:
    return {
        "allocatedAt100": [round(one.at[100], 4) for one in runs],
        f"allocatedAt{mark}": [round(one.at[mark], 4) for one in runs],
        "fragmentationAt100": [round(one.fragmentation, 4) for one in runs],
        "placed": [one.placed for one in runs],
        "dropped": [one.dropped for one in runs],
        "placementsPerSecond": round(sum(one.placed for one in runs) / max(sum(one.seconds for one in runs), 1e-9)),
    }


def _print(found: "dict[str, list[Filled]]", mark: int) -> None:
    rows = []
    for name, runs in found.items():
        seconds = max(sum(one.seconds for one in runs), 1e-9)
        rows.append(
            [
                name,
                f"{fmean(one.at[100] for one in runs):.2f} %",
                f"{fmean(one.at[mark] for one in runs):.2f} %",
                f"{fmean(one.fragmentation for one in runs):.2f} %",
                f"{sum(one.placed for one in runs) / seconds:,.0f}",
            ]
        )
    print_table(console(), table(_COLUMNS, rows, right=_COLUMNS[1:]))
