"""The command blocks of the pages, as a reader would type them.

A block marked `sh` holds commands; blocks without a language are what they print, others are files. All blocks of a
page run in order in one shell, in a folder with the files of the checkout, until one fails.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import forkserver
from tests.acceptance.conftest import environment

ROOT: Final = Path(__file__).parents[2]
SHIPPED: Final = ("examples", "deploy")
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN: Final = re.compile(r"`(t9ksched [^`]+)`")

NOT_RUN: Final = {
    "make demo": "test_demo plays the demo",
    "make test": "that is this very run",
    "docker build": "test_image carries out the same steps",
    "helm install": "test_tools renders the chart with Helm",
    "pip wheel": "needs a package index",
    "pg_dump": "needs the client programs of PostgreSQL",
    ".venv/bin/pip install": "the unit tests of plugins install the example",
    "kubectl apply": "test_kubectl and test_roles apply the same files",
    "t9ksched db copy": "the tests of backups copy a database to PostgreSQL",
    "t9ksched uninstall": "test_uninstall takes an installation off a cluster",
    "kubectl -n t9k-system": "needs the objects of an installed release",
}
"""Blocks that begin with these commands are not run, and why."""

_SHELL: Final = """set -eu
t9ksched() {
    if [ "$1" = up ]; then
        shift
        "$PYTHON" -I -S "$FORKED" "$FORKS" t9ksched up --port 0 "$@" >up.log 2>&1 &
        echo $! >up.pid
        while [ ! -f "$T9KSCHED_DATA_DIR/client.json" ]; do kill -0 $(cat up.pid); sleep 0.1; done
        return
    fi
    "$PYTHON" -I -S "$FORKED" "$FORKS" t9ksched "$@"
}
python() { "$PYTHON" "$@"; }
"""
"""`up` goes on in the background on a free port, as in a terminal of its own; everything else runs as it is written, in
processes that need not import the program anew.
"""


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """Line, language and text of each fenced block."""
    text = page.read_text()
    return [(text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in _BLOCK.finditer(text)]


def commands(page: Path) -> list[tuple[int, str]]:
    """Line and text of each block that is run."""
    return [
        (line, text)
        for line, language, text in blocks(page)
        if language == "sh" and not text.startswith(tuple(NOT_RUN))
    ]


def spans(page: Path) -> list[str]:
    """Commands that stand in the middle of a sentence or a table."""
    return _SPAN.findall(_BLOCK.sub("", page.read_text()))


@dataclass
class Shell:
    """A folder to run blocks in, with a data directory of its own."""

    folder: Path

    def __post_init__(self) -> None:
        for name in SHIPPED:
            (self.folder / name).symlink_to(ROOT / name)

    def run(self, page: str, text: str) -> subprocess.CompletedProcess[str]:
        """Run a text of commands to its end; what it printed, errors among it."""
        variables = environment(self.folder / "data") | {
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "FORKED": str(Path(__file__).with_name("forked.py")),
            "FORKS": forkserver.address(),
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "EDITOR": "true",
            "KUBECONFIG": str(self.folder / "data" / "kubeconfig"),
        }
        script = _SHELL + text.replace(".venv/bin/t9ksched", "t9ksched").replace("~/.kube/config", "$KUBECONFIG")
        return subprocess.run(
            [shutil.which("bash") or "sh", "-c", script],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=360,
            check=False,
        )
