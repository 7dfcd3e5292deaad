"""What planned starts do for gangs among single jobs: prints a table and JSON.

    python tests/benchmarks/gangs.py [--days 30] [--seeds 10] [--pods 8] [--record]

128 nodes of 8 cards under a load of 0.95: one-card jobs of 1 to 4 hours, and every 6 hours a gang of 64 cards for 2
hours, 8 pods of 8 cards or with `--pods 64` as many of one card. All run as long as their limits, which are enforced.
Two days of warm-up go before. Compared are the service's planned starts (its default `planning`) and none. A gang that
has not started in the end counts its wait until then. Told are how many gangs started later than first planned, what is
in use, and the mean waits. 30 days are about 290,000 jobs: minutes a seed.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.engine.policy import Planning, Policy
from t9ksched.simulation.cluster import Cluster
from t9ksched.simulation.job import Job, Run
from t9ksched.simulation.policies import Contender, named
from t9ksched.simulation.replay import replay
from tests.benchmarks.timing import report

NODES, CARDS, LOAD = 128, 8, 0.95
HOUR, DAY = 3600.0, 86_400.0
GANG, EVERY, GANG_RUNS = 64, 6 * HOUR, 2 * HOUR
SHORTEST, LONGEST = HOUR, 4 * HOUR
WARM_UP = 2 * DAY
POLICIES = {
    "besteffort": named("besteffort"),
    "planned": Contender(Policy(planning=Planning()), "Backfill"),
}


def workload(days: float, pods: int, seed: int) -> list[Job]:
    """Jobs of so many days and those of warm-up."""
    rng, end = random.Random(seed), WARM_UP + days * DAY
    singles = (LOAD * NODES * CARDS - GANG * GANG_RUNS / EVERY) / ((SHORTEST + LONGEST) / 2)
    jobs, now = [], rng.expovariate(singles)
    while now < end:
        runs = rng.uniform(SHORTEST, LONGEST)
        jobs.append(Job("single", now, runs, 1, limit=runs))
        now += rng.expovariate(singles)
    for nth in range(int(end / EVERY)):
        jobs.append(Job("gang", nth * EVERY + 1, GANG_RUNS, GANG, limit=GANG_RUNS, pods=pods))
    return sorted(jobs, key=lambda job: job.submitted)


def measure(runs: Sequence[Run], days: float) -> dict[str, float]:
    """The figures of one replay, without the warm-up."""
    end = WARM_UP + days * DAY
    late = [run for run in runs if run.planned is not None and run.job.name == "gang" and run.started > run.planned]
    waits: dict[str, list[float]] = {"gang": [], "single": []}
    for run in runs:
        if run.job.submitted >= WARM_UP:
            waits[run.job.name].append(min(run.started, end) - run.job.submitted)
    held = sum(run.ran(WARM_UP, end) * run.job.cards for run in runs)
    return {
        "gangs": len(waits["gang"]),
        "not_started": sum(run.job.name == "gang" and run.started >= end for run in runs),
        "late": len(late),
        "most_late_s": max((run.started - run.planned for run in late if run.planned is not None), default=0.0),
        "gang_wait_s": fmean(waits["gang"]),
        "single_wait_s": fmean(waits["single"]),
        "utilisation": held / (NODES * CARDS * days * DAY),
    }


def main() -> None:
    """Replay each seed with and without planned starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--pods", type=int, choices=(8, 64), default=8)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in POLICIES}
    print(f"{'seed':>4} {'policy':>10} {'gang wait':>10} {'single':>8} {'in use':>7} {'not started':>11} {'late':>5}")
    for seed in range(options.first, options.first + options.seeds):
        jobs = workload(options.days, options.pods, seed)
        for name, contender in POLICIES.items():
            one = measure(replay(jobs, Cluster(NODES, CARDS), contender).runs, options.days)
            found[name].append(one)
            print(
                f"{seed:4} {name:>10} {one['gang_wait_s']:8,.0f} s {one['single_wait_s']:6,.0f} s "
                f"{one['utilisation']:7.2%} {one['not_started']:5} of {one['gangs']:3} {one['late']:5}",
                flush=True,
            )
    means = {name: {key: round(fmean(one[key] for one in ones), 4) for key in ones[0]} for name, ones in found.items()}
    ratio = means["planned"]["gang_wait_s"] / means["besteffort"]["gang_wait_s"]
    settings = {"days": options.days, "seeds": options.seeds, "pods": options.pods}
    report("gangs", options.record, **settings, means=means, ratio_of_gang_waits=round(ratio, 4))


if __name__ == "__main__":
    main()
