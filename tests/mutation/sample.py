"""A sample of faults, each in a process of its own, against the invariants.

`python -m tests.mutation.sample COUNT SEED [ROOM]` prints a line a fault as it goes. Of those that survive, the ones
that were reviewed stand in `survivors.txt`, one a line, as `module|key|reason`.
"""

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.operators import faults
from tests.mutation.trial import SURVIVED

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("survivors.txt")
CPU_SECONDS = int(os.environ.get("T9KSCHED_MUTATION_CPU", "400"))
"""Several times what the suites need: a fault that takes longer, a loop without end, is noticed by that."""
_NOT_DECIDING = ("scheduler_conf", "plugins")
"""Of the engine: reading `scheduler.conf` and calling plugins."""
_STATE = (
    *("state", "node_events", "pod_events", "group_events", "job_events", "joining", "changes"),
    *("assumptions", "agreements", "records", "objects", "job_record", "charges", "cardbook"),
    *(
        "admission_pass",
        "standing",
        "snapshot",
        "progress",
        "refill",
        "reservations",
        "queue_attribution",
        "owners",
        "membership",
        "admission_gate",
    ),
    *("lastgate", "held", "new_work", "refusals", "outage", "node_backoff", "preemption_backoff"),
)
_DOOR = ("access", "entry", "forms", "judge", "request", "rules")


def modules() -> list[str]:
    """The modules into which faults are put: what decides, what it decides on, and the door."""
    engine = ROOT / "t9ksched/engine"
    names = sorted(".".join(path.relative_to(engine).with_suffix("").parts) for path in engine.rglob("*.py"))
    rooms = {
        "engine": [name for name in names if name not in _NOT_DECIDING],
        "scheduler.state": _STATE,
        "admission": _DOOR,
    }
    return [
        f"t9ksched.{room}.{name}" for room, those in rooms.items() for name in those if not name.endswith("__init__")
    ]


def all_faults() -> list[tuple[str, str]]:
    """Module and key of every fault there is."""
    sources = {name: (ROOT / f"{name.replace('.', '/')}.py").read_text() for name in modules()}
    return [(name, fault.key) for name, source in sources.items() for fault in faults(source)]


def listed() -> dict[tuple[str, str], str]:
    """The reviewed survivors: why no invariant has to notice them."""
    found = {}
    for line in LISTED.read_text().splitlines():
        if line and not line.startswith("#"):
            module, key, reason = line.split("|", 2) if line.count("|") == 2 else _split(line)
            found[module, key] = reason
    return found


def _split(line: str) -> tuple[str, str, str]:
    """A key may have the character that parts the columns."""
    module, _, rest = line.partition("|")
    key, _, reason = rest.rpartition("|")
    return module, key, reason


@dataclass(frozen=True)
class Outcome:
    """What became of a fault; `how` is the last line that its process wrote."""

    module: str
    key: str
    survived: bool
    cpu: float
    how: str

    def __str__(self) -> str:
        return f"{'SURVIVED' if self.survived else 'killed'} {self.cpu:5.0f} s  {self.module}|{self.key}  {self.how}"


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def attempt(fault: tuple[str, str]) -> Outcome:
    """Put one fault in and run the suites."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "tests.mutation.trial", *fault]
    wall = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, preexec_fn=_limits, timeout=20 * CPU_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(*fault, survived=False, cpu=time.monotonic() - wall, how="it stood still")
    how = [line for line in done.stdout.splitlines() if line.startswith(("E ", "FAILED", "history", "ERROR"))][:1]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    return Outcome(
        *fault, survived=done.returncode == SURVIVED, cpu=spent, how=(how or [f"rc {done.returncode}"])[0][:120]
    )


def attempts(chosen: Iterable[tuple[str, str]], at_once: int) -> Iterator[Outcome]:
    """Try these, so many at once."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(attempt, chosen)


def sample(count: int, seed: int, room: str = "") -> list[tuple[str, str]]:
    """So many of all faults, by chance, the same for a seed."""
    every = [fault for fault in all_faults() if room in fault[0]]
    return random.Random(f"faults {seed}").sample(every, min(count, len(every)))


if __name__ == "__main__":
    reasons, killed, total = listed(), 0, 0
    for outcome in attempts(
        sample(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]), int(os.environ.get("AT_ONCE", "1"))
    ):
        killed, total = killed + (not outcome.survived), total + 1
        why = reasons.get((outcome.module, outcome.key), "") if outcome.survived else ""
        print(f"{killed}/{total} {outcome} {why}", flush=True)  # noqa: T201
