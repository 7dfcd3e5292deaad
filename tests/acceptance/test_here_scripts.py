"""Scripts with `#SBATCH` lines on `t9ksched up --here`, where what they start are processes of this machine."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux")
SCRIPT = """#!/bin/bash
#SBATCH -J tasks -n 2
echo "$0 has $# arguments, the last is $2"
srun bash -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'
exit 3
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """This machine."""
    up = Up(tmp_path_factory.mktemp("scripts") / "data", "--here", fresh=True)
    yield up
    up.stop()


def submitted(up: Up, script: str, *words: str) -> str:
    """The job of a script."""
    out = up.must("submit", "-", "--image", "none", *words, stdin=script)
    return out.split()[0]


def test_a_script_runs(here: Up) -> None:
    job = submitted(here, SCRIPT, "--args", "one 'two words'")
    assert here.cli("wait", job, "--for", "succeeded").code == 1
    first, *tasks = here.must("logs", job).splitlines()
    assert first == "/t9ksched/script has 2 arguments, the last is two words"
    assert sorted(tasks) == ["task 0 of 2", "task 1 of 2"]
    (pod,) = here.pods()
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert not Path("/t9ksched").exists()
    here.must("cancel", job, "--yes")


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="rights are taken away by root alone")
def test_a_script_runs_where_processes_have_no_mounts(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--here", below=["setpriv", "--bounding-set=-sys_admin"])
    try:
        job = submitted(up, SCRIPT)
        assert up.cli("wait", job, "--for", "succeeded").code == 1
        first, *tasks = up.must("logs", job).splitlines()
        assert re.match(re.escape(str(tmp_path)) + ".*/script has 0 arguments", first)
        assert sorted(tasks) == ["task 0 of 2", "task 1 of 2"]
    finally:
        up.stop()
