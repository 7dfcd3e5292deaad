"""CPU of single commands: `t9ksched submit` in a shell loop, `t9ksched jobs` over 1,000 jobs, a key of completion.

    uv run python tests/benchmarks/commands.py [--rounds 20] [--record]

A service is started on a free port with the dev cluster's demo nodes, and 1,000 pods are submitted, of which most wait.
Each command is a process of its own, as a user starts it. Prints one JSON object: the mean and the best CPU of each.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from timing import report

COMMAND = (sys.executable, "-m", "t9ksched")
POD = """apiVersion: v1
kind: Pod
metadata: {generateName: p-}
spec:
  schedulerName: t9k-scheduler
  containers:
  - {name: main, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}
"""


def cpu(arguments: Sequence[str], **also: str) -> float:
    """Milliseconds of CPU of a command; what it prints goes nowhere."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *arguments], env=os.environ | also, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def figures(measure: Callable[[], float], rounds: int) -> dict[str, float]:
    """The mean and the best of so many rounds."""
    found = [measure() for _ in range(rounds)]
    return {"mean": round(sum(found) / rounds), "best": round(min(found))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["T9KSCHED_DATA_DIR"] = os.environ["XDG_CACHE_HOME"] = folder
        pod, hundred = Path(folder) / "pod.yaml", Path(folder) / "hundred.yaml"
        pod.write_text(POD)
        hundred.write_text("---\n".join([POD] * 100))
        with subprocess.Popen(
            [*COMMAND, "up", "--port", "0", "--data-dir", folder, "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as service:
            assert service.stdout is not None
            assert json.loads(service.stdout.readline())
            try:
                submit = figures(lambda: cpu(["submit", str(pod)]), given.rounds)
                for _ in range(10):
                    cpu(["submit", str(hundred)])
                jobs = figures(lambda: cpu(["jobs"]), given.rounds)
                asked = {"_T9KSCHED_COMPLETE": "complete_bash", "COMP_WORDS": "t9ksched explain p", "COMP_CWORD": "2"}
                completion = figures(lambda: cpu([], **asked), given.rounds)
            finally:
                service.terminate()
    found = {"submit_ms": submit, "jobs_1000_ms": jobs, "completion_ms": completion}
    report("commands", given.record, rounds=given.rounds, figures=found)


if __name__ == "__main__":
    main()
