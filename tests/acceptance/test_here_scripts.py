"""Scripts with `#SBATCH` lines on `t9ksched up --here`, where what they start are processes of this machine."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up, until

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


SAVES = """#!/bin/bash
#SBATCH --ntasks=2 --signal=USR1@3 --time=0:{seconds}
cat >task.py <<'END'
import os, signal, time
def save(number, frame):
    time.sleep(0.5)
    print("saved", signal.Signals(number).name, file=open(f"saved-{{os.environ['SLURM_PROCID']}}", "a"))
    os._exit(0)
signal.signal(signal.SIGUSR1, save)
open(f"up-{{os.environ['SLURM_PROCID']}}", "w").close()
time.sleep(600)
END
srun --chdir=$PWD python3 task.py
echo next >next
"""


@pytest.mark.parametrize("ending", ["cancel", "time limit"])
def test_tasks_save_what_they_have_when_their_job_ends(here: Up, tmp_path: Path, ending: str) -> None:
    script = SAVES.format(seconds=10 if ending == "time limit" else 3600)
    job = submitted(here, script, "--workdir", str(tmp_path))
    until(lambda: {path.name for path in tmp_path.glob("up-*")} == {"up-0", "up-1"}, "both tasks")
    if ending == "cancel":
        here.must("cancel", job, "--yes")
    until(lambda: (tmp_path / "next").exists(), "the end of the script")
    assert [(tmp_path / f"saved-{task}").read_text() for task in (0, 1)] == ["saved SIGUSR1\n"] * 2
    until(lambda: here.pods() == [], "no pods")
    if ending == "time limit":
        assert "TIME_LIMIT" in here.must("explain", job).upper().replace(" ", "_").replace("TIMELIMIT", "TIME_LIMIT")
        here.must("cancel", job, "--yes")


def test_a_script_that_is_submitted_again_outlives_the_first_job(here: Up, tmp_path: Path) -> None:
    script = f"#!/bin/bash\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.1; done\n"
    first = submitted(here, script)
    second = here.must("resubmit", first).split()[0]
    here.must("wait", second, "--for", "running")
    here.must("cancel", first, "--yes")
    here.must("pause", second, "--yes")
    here.must("resume", second)
    (tmp_path / "go").touch()
    here.must("wait", second, "--for", "succeeded")
    here.must("cancel", second, "--yes")
    until(lambda: here.kube("GET", "/api/v1/namespaces/default/configmaps")[1]["items"] == [], "no files")


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
