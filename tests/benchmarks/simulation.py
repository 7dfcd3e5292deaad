"""How fast recorded jobs are replayed, alone, on one core: prints JSON.

    python tests/benchmarks/simulation.py [--jobs 100000] [--nodes 1000] [--policy easy]… [--record]

Jobs of 1, 2, 4, 8 cards and of 2 to 8 whole nodes (of 8 cards) run for 2 minutes to 10 hours, alike in the logarithm,
and come at such a rate that they ask for 90 % of the cards. Beside each policy stands how often the planner was asked
and what a job cost.
"""

import argparse
import math
import random
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.simulation.cluster import Cluster
from t9ksched.simulation.figures import figures
from t9ksched.simulation.job import Job, Replay
from t9ksched.simulation.policies import NAMED, named
from t9ksched.simulation.replay import replay
from tests.benchmarks.timing import best, report

SIZES = ((1, 50), (2, 15), (4, 12), (8, 17), (16, 3), (32, 2), (64, 1))
"""Cards of a job, and how common such jobs are."""
SHORTEST, LONGEST = 120.0, 36_000.0
LOAD = 0.9


def workload(count: int, capacity: int, seed: int) -> list[Job]:
    """So many jobs that ask for a fixed share of so many cards."""
    rng = random.Random(seed)
    sizes, weights = zip(*SIZES, strict=True)
    now, jobs = 0.0, []
    for at in range(count):
        runs = math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST)))
        jobs.append(Job(str(at), now, runs, rng.choices(sizes, weights)[0]))
        now += rng.expovariate(1.0) * _mean_work() / (LOAD * capacity)
    return jobs


def _mean_work() -> float:
    """Card-seconds of a job, on average."""
    runs = (LONGEST - SHORTEST) / math.log(LONGEST / SHORTEST)
    return runs * sum(size * weight for size, weight in SIZES) / sum(weight for _, weight in SIZES)


def _play(jobs: list[Job], cluster: Cluster, name: str, results: list[Replay]) -> None:
    results.append(replay(jobs, cluster, named(name)))


def main() -> None:
    """Replay once for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--policy", choices=list(NAMED), action="append", help="default: those that plan no starts")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    cluster = Cluster(options.nodes, 8)
    jobs = workload(options.jobs, cluster.capacity, seed=1)
    found = {}
    for name in options.policy or [name for name, one in NAMED.items() if one.policy.planning is None]:
        played: list[Replay] = []
        spent = best(partial(_play, jobs, cluster, name, played), rounds=1)
        sums = figures(played[0].runs, cluster.capacity)
        found[name] = {
            "cpu_s": round(spent.cpu, 1),
            "wall_s": round(spent.wall, 1),
            "plans": played[0].plans,
            "us_a_job": round(spent.cpu / len(jobs) * 1e6),
            "utilisation": round(sums.utilisation, 3),
            "mean_wait_s": round(sums.mean_wait),
        }
    report("simulation", options.record, jobs=len(jobs), nodes=options.nodes, load=LOAD, policies=found)


if __name__ == "__main__":
    main()
