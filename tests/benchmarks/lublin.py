"""A workload of the Lublin-Feitelson model on 256 slots under three policies: prints a table and JSON.

    python tests/benchmarks/lublin.py [--jobs 5000] [--seed 1] [--exact] [--swf FILE] [--record]

Sizes, run times and arrivals are drawn as in "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs" (Lublin and Feitelson, Journal of Parallel and Distributed Computing 63, 2003), with the parameters for jobs
of one type and a machine of 256 processors. Jobs ask for one to five times as long as they run, or with `--exact` for
just as long. `--swf` writes the workload in the Standard Workload Format and plays nothing.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.simulation.cluster import Cluster
from t9ksched.simulation.figures import figures
from t9ksched.simulation.policies import named
from t9ksched.simulation.replay import replay
from t9ksched.simulation.traces import read
from tests.benchmarks.timing import report

Floats = NDArray[np.float64]
SLOTS = 256
SERIAL, POWER_OF_TWO = 0.244, 0.576
"""Shares of jobs that need one processor, and a power of two of them."""
LOW, HIGH, FIRST = 0.8, math.log2(SLOTS), 0.86
MEDIUM = HIGH - 2.5
"""The logarithm of a size is uniform from LOW to MEDIUM with probability FIRST, else from MEDIUM to HIGH."""
SHORT, LONG = (4.2, 0.94), (312.0, 0.03)
SLOPE, INTERCEPT = -0.0054, 0.78
"""The logarithm of a run time has one of two gamma distributions; the probability of the first falls with the size."""
GAP = (10.2303 * 1.0225, 0.4871)
"""The gamma distribution of the logarithm of the time between jobs."""
CYCLE, CYCLE_BEGINS = (8.1737, 3.9631), 11
"""That of the half-hour in which a job comes, counted from the half-hour of the day in which the fewest do."""
LONGEST_RUN, LONGEST_GAP = 12.0, 13.0
"""Larger logarithms are drawn again."""
BUCKET, BUCKETS = 1800.0, 48
POLICIES = ("fcfs", "easy", "conservative")


def sizes(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Processors of each job."""
    logs = np.where(rng.random(count) < FIRST, rng.uniform(LOW, MEDIUM, count), rng.uniform(MEDIUM, HIGH, count))
    kind = rng.random(count)
    logs = np.where(kind < SERIAL + POWER_OF_TWO, np.floor(logs + 0.5), logs)
    found = np.where(kind < SERIAL, 1, np.floor(2**logs + 0.5))
    return found.astype(np.int64)


def run_times(rng: np.random.Generator, of: NDArray[np.int64]) -> Floats:
    """Whole seconds of each job, at least 1."""
    first = np.clip(SLOPE * of + INTERCEPT, 0.0, 1.0)
    found = np.full(len(of), np.inf)
    while (wrong := found > LONGEST_RUN).any():
        count = int(wrong.sum())
        short = rng.random(count) < first[wrong]
        found[wrong] = np.where(short, rng.gamma(*SHORT, count), rng.gamma(*LONG, count))
    return np.maximum(1.0, np.floor(np.exp(found)))


def weights() -> Floats:
    """How many jobs come in each half-hour of the day, against the mean."""
    shape, scale = CYCLE
    found = np.zeros(BUCKETS)
    for at in range(CYCLE_BEGINS, BUCKETS + CYCLE_BEGINS):
        x = np.linspace(at - 0.5, at + 0.5, 201)
        found[(at - 1) % BUCKETS] = np.mean(x ** (shape - 1) * np.exp(-x / scale))
    normal: Floats = found / found.mean()
    return normal


def arrivals(rng: np.random.Generator, count: int) -> Iterator[float]:
    """Seconds from midnight to each job: a gap is longer where the day has fewer jobs."""
    weight, now = weights(), 0.0
    for _ in range(count):
        while (gap := rng.gamma(*GAP)) > LONGEST_GAP:
            pass
        left = math.exp(gap)
        while left > 0:
            bucket = int(now // BUCKET)
            share, ends = weight[bucket % BUCKETS], (bucket + 1) * BUCKET
            if left / share < ends - now:
                now, left = now + left / share, 0.0
            else:
                now, left = ends, left - (ends - now) * share
        yield now


def workload(count: int, seed: int, *, exact: bool) -> list[str]:
    """The lines of a file in the Standard Workload Format."""
    rng = np.random.default_rng(seed)
    of = sizes(rng, count)
    runs = run_times(rng, of)
    asked = runs * (1.0 if exact else rng.uniform(1.0, 5.0, count))
    lines = [f"; MaxProcs: {SLOTS}\n"]
    for nth, at in enumerate(arrivals(rng, count)):
        lines.append(
            f"{nth + 1} {at:.0f} -1 {runs[nth]:.0f} {of[nth]} -1 -1 {of[nth]} {math.ceil(asked[nth])} "
            "-1 1 -1 -1 -1 -1 -1 -1 -1\n"
        )
    return lines


def main() -> None:
    """Replay once for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--swf", type=Path)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    lines = workload(options.jobs, options.seed, exact=options.exact)
    if options.swf is not None:
        options.swf.write_text("".join(lines))
        return
    jobs = read("swf", lines).jobs
    load = sum(job.cards * job.runs for job in jobs) / (SLOTS * jobs[-1].submitted)
    print(f"{len(jobs)} jobs, load {load:.2f}")
    found = {}
    for name in POLICIES:
        begun = time.process_time()
        sums = figures(replay(jobs, Cluster(SLOTS, 1), named(name)).runs, SLOTS)
        found[name] = {
            "mean_wait_s": round(sums.mean_wait),
            "mean_bounded_slowdown": round(sums.mean_bounded_slowdown, 2),
            "utilisation": round(sums.utilisation, 3),
            "cpu_s": round(time.process_time() - begun, 1),
        }
        print(
            f"{name:>12}  wait {sums.mean_wait:10,.0f} s  slowdown {sums.mean_bounded_slowdown:8,.1f}  "
            f"in use {sums.utilisation:.1%}",
            flush=True,
        )
    settings = {"jobs": len(jobs), "seed": options.seed, "exact": options.exact, "load": round(load, 3)}
    report("lublin", options.record, **settings, policies=found)


if __name__ == "__main__":
    main()
