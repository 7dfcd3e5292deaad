"""One benchmark on two states of the code, in turn.

    python -m tests.benchmarks.against main~20 waiting.py --nodes 5000
    python -m tests.benchmarks.against v0.1.0 --rounds 5 engine.py --nodes 1000

The script is this tree's; the packages that it imports are those of the older commit in one run and this tree's in the
next, so a script must not need what the older commit lacks. Both see the same load of the machine. Prints one JSON
object: under `figures`, for each number in the script's own JSON (`path.to.it`), the best of the rounds for the old
code and for the new code, and new / old. The best is the least, of rates (`…_per_…`) the greatest.
"""

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.timing import report

ROOT = Path(__file__).parents[2]
PACKAGES = ("t9ksched", "api", "migrations", "deploy", "examples")
"""What a benchmark may import or read of the program, as far as a commit has it; the REST service was `api` once."""
# A script may put this tree in front of the path: what is imported before it stays.
FIRST = """
import runpy, sys
import t9ksched
assert t9ksched.__file__.startswith(sys.argv[1]), t9ksched.__file__
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ABOUT_THE_RUN = {"at", "commit", "python", "numpy", "machine", "processors", "load_average"}


def unpack(commit: str, folder: Path) -> None:
    """The program as it was at `commit`, into `folder`."""
    listed = subprocess.run(["git", "ls-tree", commit, *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True)
    there = [line.partition("\t")[2] for line in listed.stdout.splitlines()]
    archive = subprocess.run(["git", "archive", commit, *there], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def compile_all(tree: Path) -> None:
    """Compile the program of a tree, so that no start of it does, whatever the environment says of writing."""
    for name in PACKAGES:
        if (tree / name).is_dir():
            compileall.compile_dir(tree / name, quiet=1)


def run(script: Path, arguments: list[str], tree: Path) -> dict[str, Any]:
    """What the script prints with the program of `tree`. Raises CalledProcessError where the script fails."""
    paths = os.pathsep.join([str(tree), str(ROOT), str(script.parent)])
    command = [sys.executable, "-P", "-c", FIRST, str(tree), str(script), *arguments]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout[("\n" + done.stdout).rindex("\n{") :])  # a log may come before
    return told


def numbers(told: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Each number of a script's JSON, with the path to it."""
    if isinstance(told, dict):
        for name, value in told.items():
            if path or name not in ABOUT_THE_RUN:
                yield from numbers(value, f"{path}.{name}" if path else name)
    elif isinstance(told, list):
        for index, value in enumerate(told):
            yield from numbers(value, f"{path}.{index}")
    elif isinstance(told, int | float) and not isinstance(told, bool):
        yield path, told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", help="the older state: anything that git understands")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("script", type=Path, help="a file of tests/benchmarks")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    script = (ROOT / "tests" / "benchmarks" / given.script).resolve()
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder)
        unpack(given.commit, old)
        for tree in (old, ROOT):
            compile_all(tree)
        for _ in range(given.rounds):
            for state, tree in (("old", old), ("new", ROOT)):
                for path, number in numbers(run(script, given.arguments, tree)):
                    figures = best.setdefault(path, {})
                    better = max if "_per_" in path else min
                    figures[state] = better(number, figures.get(state, number))
    for figures in best.values():
        if figures.get("old") and "new" in figures:
            figures["ratio"] = round(figures["new"] / figures["old"], 3)
    report(
        "against",
        given.record,
        script=given.script.name,
        arguments=given.arguments,
        old=given.commit,
        rounds=given.rounds,
        figures=best,
    )


if __name__ == "__main__":
    main()
