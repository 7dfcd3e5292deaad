"""The program as it was one migration ago, from this repository: what a rolling upgrade has beside the new one.

There is no earlier release. The tree of a commit is taken out of the history, and its program runs from there with the
libraries of today, which are those of its lock file or newer.
"""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "b0e6e22ccfa7ff0f09daf2e239aee6578e073ef9"
REVISION = "0033"
"""Of its tables."""


def previous(folder: Path) -> Path:
    """The tree of that commit, in a folder of its own; skips where the history is not at hand."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "archive",
        "--format=zip",
        COMMIT,
        "t9ksched",
        "api",
        "migrations",
        "deploy",
        "examples",
    ]
    try:
        done = subprocess.run([*command, "pyproject.toml"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the history of the repository is not at hand ({error}), so there is no earlier program")
    tree = folder / "previous"
    with zipfile.ZipFile(io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree)
    return tree


def start(tree: Path, given: dict[str, str], log: Path, *command: str) -> subprocess.Popen[bytes]:
    """A role of the earlier program."""
    with log.open("w") as lines:
        return subprocess.Popen(
            [sys.executable, "-m", "t9ksched", *command],
            env=given | {"PYTHONPATH": str(tree)},
            cwd=tree,
            stdout=lines,
            stderr=lines,
        )
