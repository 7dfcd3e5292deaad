"""What the scripts here share: CPU time beside wall time, and the line that is recorded.

CPU time of this process is what budgets are held against: on a machine with other work, wall time counts that work too.
"""

import gc
import json
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

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
