"""What the scripts here share: CPU time beside wall time, and the line that is recorded.

CPU time of this process is what budgets are held against: on a machine with other work, wall time counts that work too.
"""

import gc
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from t9ksched.engine.memory import Memory
from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.scheduler.observe.heap import SELDOM

_WORK_A_STEP = 100_000
"""As in the loop of the scheduler."""
RECORD = Path(__file__).parent / "record.jsonl"


@dataclass(frozen=True)
class Spent:
    """Seconds of CPU and on the clock."""

    cpu: float
    wall: float

    def ms(self, digits: int = 2) -> dict[str, float]:
        """In milliseconds, as figures are written."""
        return {"cpu_ms": round(self.cpu * 1e3, digits), "wall_ms": round(self.wall * 1e3, digits)}

    def rates(self, **counts: int) -> dict[str, Any]:
        """The counts, the times, and each count by second of CPU."""
        each = {f"{name}_per_cpu_s": round(number / self.cpu) for name, number in counts.items()}
        return counts | self.ms() | each


def best(run: Callable[[], object], rounds: int) -> Spent:
    """The round that took the least CPU."""
    found = []
    for _ in range(rounds):
        gc.collect()
        wall, cpu = perf_counter(), process_time()
        run()
        found.append(Spent(process_time() - cpu, perf_counter() - wall))
    return min(found, key=lambda spent: spent.cpu)


@contextmanager
def calm() -> Iterator[None]:
    """In the block objects that are there are frozen, and collections come as seldom as in a service."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def stepped(view: View, policy: Policy, memory: Memory, now: int = 0) -> tuple[Plan, dict[str, float]]:
    """The plan of a cycle that is made step by step, as the loop of the scheduler does; CPU milliseconds of all of it
    and of its longest step.
    """
    began = last = process_time()
    planner = Planner(view, policy, now, memory)
    steps = [process_time() - last]
    done = False
    while not done:
        last = process_time()
        done = planner.step(_WORK_A_STEP)
        steps.append(process_time() - last)
    last = process_time()
    plan = planner.result()
    steps.append(process_time() - last)
    return plan, {"cpu_ms": (process_time() - began) * 1e3, "longest_step_ms": max(steps) * 1e3}


def least(cycle: Callable[[], dict[str, float]], change: Callable[[int], None], rounds: int) -> dict[str, float]:
    """The least of a few cycles, each after a change, which is told the number of its round."""
    found = []
    for nth in range(rounds):
        change(nth)
        found.append(cycle())
    return {name: round(min(one[name] for one in found), 2) for name in found[0]}


def report(benchmark: str, record: bool, **result: Any) -> None:
    """Print the result as JSON, with commit, machine and load; append it to `record.jsonl` if asked."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    line = {
        "benchmark": benchmark,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        **result,
    }
    print(json.dumps(line, indent=2))
    if record:
        with RECORD.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
