"""How much of a cluster's cards the packing rules fill, and how fast, alone, on one core: a table and JSON.

    python tests/benchmarks/fill.py FOLDER [--seeds 10] [--list default]… [--policy default]… [--whole [--cards-only]]

FOLDER has the openb trace: `openb_node_list_gpu_node.csv`, `openb_pod_list_*.csv` and, if it is there, what was
published (`fgd_paper_results.csv`). Told are the percentages of 6,212 cards that are allocated when pods have arrived
that ask for 100 % and for 130 % of them, means over the seeds, and pods placed a second of CPU. With `--whole` pods
that ask for parts of cards are left out, and nodes give whole ones; with `--cards-only` pods without cards are left
out, too. Policies besides those of `simulate fill`: `binpack` is that of the scheduler without a scheduler.conf,
`cards` one with the plugin of that name in place of `binpack`.
"""

import argparse
import csv
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.engine.policy import Policy
from t9ksched.model.cards import CORES
from t9ksched.simulation.fill import POLICIES, capacity_of, drawn, fgd, fill, ordered
from t9ksched.simulation.openb import FillNode, FillPod, read_nodes, read_pods
from tests.benchmarks.timing import report

MORE = {
    "binpack": replace(Policy(), cardless_weight=0, starvation=None),
    "cards": replace(POLICIES["default"], model_weight=1),
}
NAMES = ("default", "fgd", "first-fit", "best-fit", "spread", *MORE)
PREFIX = "openb_pod_list_"


def published(folder: Path) -> dict[str, dict[str, float]]:
    """What FGD reached by its authors, by list."""
    path = folder / "fgd_paper_results.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["policy"].endswith("FGD")]
    return {
        row["workload"].removeprefix(PREFIX): {"100": float(row["alloc100_mean"]), "130": float(row["alloc130_mean"])}
        for row in rows
    }


def draw(nodes: list[FillNode], pods: list[FillPod], seed: int) -> tuple[list[FillNode], list[FillPod]]:
    """The order of nodes, and pods for 130 % of the cards."""
    demand = -(-capacity_of(nodes) * 130 // 100)
    return ordered(nodes, Random(f"nodes {seed}")), drawn(pods, demand, Random(f"pods {seed}"))


def asked(pod: FillPod, options: argparse.Namespace) -> bool:
    """Whether pods of this kind are taken."""
    if not pod.cards:
        return not options.cards_only
    return pod.each == CORES or not options.whole


def main() -> None:
    """Fill the cluster for each list, policy and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--list", action="append", help="default: all that there are")
    parser.add_argument("--policy", action="append", choices=NAMES)
    parser.add_argument("--whole", action="store_true", help="only pods and nodes with whole cards")
    parser.add_argument("--cards-only", action="store_true", help="no pods without cards")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with (options.folder / "openb_node_list_gpu_node.csv").open(encoding="utf-8") as lines:
        nodes = read_nodes(lines)
    known = published(options.folder)
    every = sorted(path.stem.removeprefix(PREFIX) for path in options.folder.glob(f"{PREFIX}*.csv"))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.list or every:
        with (options.folder / f"{PREFIX}{name}.csv").open(encoding="utf-8") as lines:
            pods = [one for one in read_pods(lines) if asked(one, options)]
        found[name] = {"published FGD": known[name]} if name in known and not options.whole else {}
        for policy in options.policy or NAMES:
            contender = fgd(Counter(pods)) if policy == "fgd" else (POLICIES | MORE)[policy]
            begun = process_time()
            runs = [fill(*draw(nodes, pods, seed), contender, whole=options.whole) for seed in range(options.seeds)]
            took = process_time() - begun
            found[name][policy] = {
                "100": round(fmean(run.at[100] for run in runs), 3),
                "130": round(fmean(run.at[130] for run in runs), 3),
                "placedPerSecond": round(sum(run.placed for run in runs) / took),
            }
        told = ", ".join(f"{policy} {one['100']:.2f}/{one['130']:.2f}" for policy, one in found[name].items())
        print(f"{name:>12}: {told}", flush=True)
    kinds = {"whole": options.whole, "cards_only": options.cards_only}
    report("fill", options.record, seeds=options.seeds, **kinds, lists=found)


if __name__ == "__main__":
    main()
