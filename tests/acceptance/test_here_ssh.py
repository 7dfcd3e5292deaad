"""Jobs that start processes on their workers by ssh, with real processes: an mpirun of Open MPI, and stand-ins for
deepspeed and colossalai, which have nothing but the hostfile, the keys and the settings that the controller made.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Json, Up, run, until
from tests.acceptance.test_here import close, log

BIN = Path(sys.executable).parent
NEEDED = ("/etc/mpi", "/etc/colossalai", "/root/.ssh")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux"),
    pytest.mark.skipif(os.geteuid() != 0, reason="port 22, and places below /etc and /root"),
    pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh client"),
]
LAUNCH = """#!/bin/sh
# Starts a process on each host of the file, as the tool does.
while [ "$1" != --hostfile ]; do shift; done
while read -r host _; do ssh CONFIG -n "$host" 'echo started on $HOSTNAME'; done < "$2"
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sshd and the tools."""
    folder = tmp_path_factory.mktemp("programs")
    server = Path(__file__).with_name("sshserver.py")
    texts = {
        "sshd": f'#!/bin/sh\nexec {sys.executable} {server} "$@"\n',
        "deepspeed": LAUNCH.replace("CONFIG ", ""),
        "colossalai": LAUNCH.replace("CONFIG", "-F /etc/colossalai/ssh_config"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """This machine, with the places at which these jobs mount what they need."""
    made = [Path(name) for name in NEEDED if not os.path.lexists(name)]
    for folder in made:
        folder.mkdir()
    up = Up(tmp_path_factory.mktemp("ssh") / "data", "--here", fresh=True)
    try:
        yield up
        assert up.process.poll() is None, up.log
    finally:
        close(up)
        for folder in made:
            folder.rmdir()


def template(programs: Path, name: str, **more: Any) -> Json:
    requests = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    env = [{"name": "PATH", "value": f"{programs}:{BIN}:/usr/local/bin:/usr/bin:/bin"}]
    return {"spec": {"containers": [{"name": name, "image": "none", "env": env, "resources": requests, **more}]}}


def ended(here: Up, folder: Path, kind: str, name: str, **spec: Any) -> None:
    """Submit a job, and wait until it has succeeded."""
    head = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": kind}
    whole = {"scheduler": {"t9kScheduler": {"queue": "default"}}, **spec}
    asked = {**head, "metadata": {"name": name, "namespace": "default"}, "spec": whole}
    (folder / "job.yaml").write_text(yaml.safe_dump(asked))
    made = run("submit", "-f", str(folder / "job.yaml"), data_dir=here.data_dir)
    assert made.code == 0, made.err
    done = run("wait", f"{kind}/{name}", "--for", "succeeded", "--timeout", "50s", data_dir=here.data_dir)
    assert done.code == 0, (done.err, run("explain", f"{kind}/{name}", data_dir=here.data_dir).out, here.pods())


@pytest.mark.skipif(not (BIN / "mpirun").exists(), reason="Open MPI has no package for this machine")
def test_mpirun_starts_the_ranks_on_the_workers(here: Up, programs: Path, tmp_path: Path) -> None:
    worker = {
        "replicas": 2,
        "cmd": ["sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $HOSTNAME"],
        "template": template(programs, "mpi-worker"),
    }
    ssh = {"sshdPath": str(programs / "sshd"), "sshAuthMountPath": "/root/.ssh"}
    ended(here, tmp_path, "MPIJob", "walk", worker=worker, ssh=ssh)
    said = ["rank 0 of 2 on walk-worker-0", "rank 1 of 2 on walk-worker-1"]
    until(lambda: sorted(said_of(log(here, "walk-launcher-0"), "rank ")) == said, "both ranks")


def test_colossalai_reaches_the_workers_of_its_hostfile(here: Up, programs: Path, tmp_path: Path) -> None:
    """The launcher, in whose place a program stands that starts one process on each host."""
    types = [
        {"type": "launcher", "template": template(programs, "launcher")},
        {"type": "worker", "replicas": 2, "template": template(programs, "worker")},
    ]
    ssh = {"sshdPath": str(programs / "sshd")}
    ended(here, tmp_path, "ColossalAIJob", "palm", replicaSpecs=types, ssh=ssh, torchConfig={"script": ["train.py"]})
    said = [f"started on palm-worker-{index}" for index in range(2)]
    until(lambda: log(here, "palm-launcher-0").splitlines() == said, "both workers")


def test_deepspeed_reaches_all_workers_itself_included(here: Up, programs: Path, tmp_path: Path) -> None:
    """Worker 0 runs sshd too; its folder of system programs has but that."""
    pod = template(programs, "worker", volumeMounts=[{"name": "sbin", "mountPath": "/usr/sbin"}])
    pod["spec"]["volumes"] = [{"name": "sbin", "hostPath": {"path": str(programs)}}]
    config = {"slotsPerWorker": 1, "run": {"python": ["train.py"]}}
    worker = {"replicas": 3, "template": pod}
    ended(here, tmp_path, "DeepSpeedJob", "llm", config=config, worker=worker, disableCustomEnv=True)
    said = [f"started on llm-worker-{index}" for index in range(3)]
    until(lambda: said_of(log(here, "llm-worker-0"), "started on ") == said, "all workers")


def said_of(text: str, start: str) -> list[str]:
    """What the processes wrote: beside it stands what ssh says while worker 0 waits for the sshd of a worker, its own
    among them, and mpirun's word that a process was quicker than its parent.
    """
    return [line for line in text.splitlines() if line.startswith(start)]
