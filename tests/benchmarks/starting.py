"""How soon `t9ksched up` says its first URL, and `t9ksched demo` shows its first map of nodes.

    uv run python tests/benchmarks/starting.py [--rounds 5]

Both are started as a user starts them, in data directories of their own: `first` on an empty one, `again` on what the
first start left there. CPU is that of the process with all its children, in milliseconds, until the line was printed.
Prints one JSON object with the best of the rounds.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from timing import Spent, report

COMMAND = (sys.executable, "-m", "t9ksched")
TICKS = os.sysconf("SC_CLK_TCK")


def spent_by(pid: int) -> float:
    """Seconds of CPU of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def until(shown: Callable[[str], bool], *arguments: str) -> Spent:
    """From the start of the command to its first line that satisfies `shown`; then it is interrupted.

    Raises:
        RuntimeError: the command ended without such a line.
    """
    began = perf_counter()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if shown(line):
                    return Spent(spent_by(process.pid), perf_counter() - began)
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
    raise RuntimeError(f"{' '.join(arguments)} ended early")


def up(folder: str) -> Spent:
    """To the line that names the server."""
    return until(lambda line: '"server"' in line, "up", "--port", "0", "--data-dir", folder, "-o", "json")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    found: dict[str, list[Spent]] = {"up_first": [], "up_again": [], "demo_map": []}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            found["up_first"].append(up(folder))
            found["up_again"].append(up(folder))
        found["demo_map"].append(until(lambda line: ". . . ." in line, "demo"))
    least = {name: min(rounds, key=lambda one: one.cpu).ms(0) for name, rounds in found.items()}
    report("starting", given.record, rounds=given.rounds, figures=least)


if __name__ == "__main__":
    main()
