"""DeepSpeedJob: its workers, what worker 0 starts and when, and what is refused."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, deepspeed

Object = dict[str, Any]
ELASTIC = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 3}


def pod(job: Object, index: int = 0) -> Object:
    found: Object = expand(job).pods[index]["spec"]
    return found


def first(job: Object, index: int = 0) -> Object:
    found: Object = pod(job, index)["containers"][0]
    return found


def hosts(job: Object) -> list[str]:
    lines: list[str] = expand(job).configmaps[0]["data"]["hostfile"].splitlines()
    return lines


def started(job: Object) -> World:
    world = World(job)
    world.settle()
    world.run_all()
    world.settle()
    return world


def test_the_hostfile_has_a_line_for_each_worker() -> None:
    assert hosts(deepspeed(3)) == [f"llm-worker-{index}.llm slots=2" for index in range(3)]
    assert hosts(deepspeed(1, gpu=0)) == ["llm-worker-0.llm slots=1"], "one process where there is no card"
    run = {"run": {"exec": ["x"]}}
    assert hosts(deepspeed(1, config={"slotsPerWorker": 7, **run})) == ["llm-worker-0.llm slots=7"]
    assert hosts(deepspeed(1, config={"slotPerWorker": 5, **run})) == ["llm-worker-0.llm slots=5"], "the older spelling"


def test_worker_0_starts_deepspeed_and_the_others_serve() -> None:
    job = deepspeed(2)
    leader, other = first(job), first(job, 1)
    assert leader["command"][:2] == ["/bin/sh", "-c"]
    assert leader["command"][2].endswith('exec deepspeed --hostfile /t9k/hostfile "$@"')
    assert leader["args"] == ["sft.py", "--epochs=1"]
    assert "exec /usr/sbin/sshd -D" in other["command"][2]
    assert "args" not in other


@pytest.mark.parametrize(
    ("config", "arguments"),
    [
        ({"run": {"python": ["a.py", "-x"]}}, ["a.py", "-x"]),
        ({"run": {"module": ["a.b", "-x"]}}, ["--module", "a.b", "-x"]),
        ({"run": {"exec": ["./a", "-x"]}}, ["--no_python", "./a", "-x"]),
        ({"run": {"python": ["a.py"]}, "localRank": False}, ["--no_local_rank", "a.py"]),
        ({"run": {"python": ["a.py"]}, "localRank": True, "autotune": "none"}, ["a.py"]),
        ({"run": {"python": ["a.py"]}, "autotune": "tune"}, ["--autotuning", "tune", "a.py"]),
        ({"run": {"python": ["a.py"]}, "otherArgs": ["--no_ssh_check"]}, ["--no_ssh_check", "a.py"]),
        ({"run": {"python": ["a.py"]}, "otherArgs": ["--launcher", "PDSH"]}, ["--launcher", "PDSH", "a.py"]),
    ],
)
def test_what_is_started(config: Object, arguments: list[str]) -> None:
    assert first(deepspeed(config=config))["args"] == arguments


@pytest.mark.parametrize(
    ("config", "path", "told"),
    [
        ({}, "run", "is missing: say what to start"),
        ({"run": {}}, "run", "is missing: say what to start"),
        ({"run": {"python": []}}, "run.python", "is empty"),
        ({"run": {"python": ["a"], "exec": ["b"]}}, "run", "names python and exec: give exactly one"),
        ({"run": {"ruby": ["a"]}}, "run.ruby", "is unknown: give exactly one of"),
        ({"run": {"python": "a.py"}}, "run.python", "must be a list"),
        ({"run": {"exec": ["a"]}, "slotsPerWorker": 0}, "slotsPerWorker", "out of range"),
        ({"run": {"exec": ["a"]}, "autotune": "yes"}, "autotune", "use one of none, run, tune"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--no_local_rank"]}, "otherArgs[0]", "is set by spec.config.localRank"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["x", "--autotuning=run"]}, "otherArgs[1]", "spec.config.autotune"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--module"]}, "otherArgs[0]", "spec.config.run.module"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--no_python"]}, "otherArgs[0]", "spec.config.run.exec"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--hostfile=/x"]}, "otherArgs[0]", "the controller"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--launcher", "OpenMPI"]}, "otherArgs[0]", "pdsh alone"),
        ({"run": {"exec": ["a"]}, "otherArgs": ["--launcher=slurm"]}, "otherArgs[0]", "the launcher 'slurm'"),
        ({"customCommand": ["a"]}, "customCommand", "must be a text"),
    ],
)
def test_configurations_that_cannot_be(config: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(deepspeed(config=config))}
    assert told in faults[f"spec.config.{path}"]


def test_of_a_job_to_be_debugged_nothing_need_be_said() -> None:
    debug = {"runMode": {"debug": {"enabled": True}}}
    for config in ({}, {"run": {"python": []}}):
        job = deepspeed(config=config, **debug)
        assert validate(job) == []
        for index in (0, 1):
            shell, _, line = first(job, index)["command"]
            assert (shell, "args" in first(job, index)) == ("/bin/sh", False)
            assert line.startswith("mkdir -p /run/sshd && exec /usr/sbin/sshd -D"), "images may lack the folder"
            assert "AuthorizedKeysFile=/root/.ssh/authorized_keys" in line
    given = {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["sleep", "inf"]}]}}
    leader = first(deepspeed(config={}, runMode=given))
    assert leader["command"] == ["sleep", "inf"]
    assert "args" not in leader


@pytest.mark.parametrize("path", ["/root/.ssh", "/root/.ssh/id", "/t9k/hostfile", "/root/.deepspeed_env/"])
def test_places_where_the_job_has_files_of_its_own_cannot_be_mounted(path: str) -> None:
    (fault,) = validate(deepspeed(worker={"volumeMounts": [{"name": "v", "mountPath": path}]}))
    assert fault.path == "spec.worker.template.spec.containers[0].volumeMounts[0].mountPath"
    assert "cannot be mounted" in fault.message


def test_other_places_can() -> None:
    for path in ("/t9k/mnt", "/root", "/root/.sshx", "/dev/shm"):
        assert validate(deepspeed(worker={"volumeMounts": [{"name": "v", "mountPath": path}]})) == []


def test_a_job_needs_a_worker() -> None:
    (fault,) = validate(deepspeed(0))
    assert (fault.path, "worker 0 starts the job" in fault.message) == ("spec.worker.replicas", True)


def test_an_elastic_job_needs_its_minimum_and_asks_for_what_is_expected() -> None:
    job = deepspeed(1, elastic=ELASTIC)
    assert (read(job).replicas, read(job).min_totals["nvidia.com/gpu"]) == (3, 2)
    assert expand(job).podgroup["spec"]["minMember"] == 1  # type: ignore[index]
    assert len(hosts(job)) == len(expand(job).pods) == 3


def test_an_elastic_job_of_another_size_starts_worker_0_anew_and_no_other() -> None:
    world = started(deepspeed(1, elastic=ELASTIC))
    before = {name: world.pod(name)["metadata"]["uid"] for name in world.pods()}
    world.obj["spec"]["elastic"] = {**ELASTIC, "expectedReplicas": 2}
    world.settle()
    after = {name: world.pod(name)["metadata"]["uid"] for name in world.pods()}
    assert after.keys() == {"llm-worker-0", "llm-worker-1"}
    assert after["llm-worker-0"] != before["llm-worker-0"]
    assert after["llm-worker-1"] == before["llm-worker-1"]
    assert len(world.objects["ConfigMap", "llm-deepspeed"]["data"]["hostfile"].splitlines()) == 2
    assert world.status["backoffCount"] == 0


def test_worker_0_ends_the_job_and_a_worker_that_is_lost_fails_it() -> None:
    world = started(deepspeed(3))
    world.set_phase("llm-worker-0", "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    for elastic, phase in ((None, "Failed"), (ELASTIC, "Running")):
        job = deepspeed(3, **({"elastic": elastic} if elastic else {}))
        job["spec"]["worker"]["restartPolicy"] = "Never"
        world = started(job)
        world.set_phase("llm-worker-2", "Failed", 1)
        world.settle()
        assert world.status["phase"] == phase


def test_keys_lie_in_the_home_of_root_beside_the_settings_of_ssh() -> None:
    job = deepspeed()
    mounts = {each["mountPath"]: each["name"] for each in first(job)["volumeMounts"]}
    volumes = {each["name"]: each for each in pod(job)["volumes"]}
    sources = volumes[mounts["/root/.ssh"]]["projected"]["sources"]
    files = [item["path"] for source in sources for each in source.values() for item in each["items"]]
    assert sorted(files) == ["authorized_keys", "config", "id_ed25519"]
    assert volumes[mounts["/t9k/hostfile"]]["configMap"]["name"] == "llm-deepspeed"
    (secret,) = expand(job).secrets
    assert secret["metadata"]["name"] == sources[0]["secret"]["name"] == "llm-uid-llm-ssh"


class Container:
    """The script of worker 0, run on this machine with stand-ins for ssh, sshd and deepspeed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("sshd", 'echo "sshd $*" >> $HERE/log')
        self.program("deepspeed", 'echo "deepspeed $*" >> $HERE/log')
        self.program("ssh", 'case "$*" in *worker-2*) exit 1;; esac; echo "ssh $*" >> $HERE/log')
        self.program("sleep", ":")
        self.program("mkdir", ":")

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, job: Object, env: dict[str, str] | None = None) -> list[str]:
        """The log of what was called, after the container has run."""
        made = first(job)
        (self.folder / "hostfile").write_text(expand(job).configmaps[0]["data"]["hostfile"])
        script = made["command"][2]
        for path, here in (
            ("/usr/sbin/sshd", f"{self.bin}/sshd"),
            ("/root/.deepspeed_env", f"{self.folder}/env"),
            ("/t9k/hostfile", f"{self.folder}/hostfile"),
            ("/tmp/hostfile", f"{self.folder}/present"),
        ):
            script = script.replace(path, here)
        around = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HERE": str(self.folder), **(env or {})}
        command = [*made["command"][:2], script, *made["command"][3:], *made["args"]]
        done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return (self.folder / "log").read_text().splitlines()


@pytest.fixture
def here(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_the_script_serves_waits_and_starts(here: Container) -> None:
    log = here.run(deepspeed(2, config={"run": {"python": ["a.py", "two words"]}}))
    assert log[0].startswith("sshd -e -p 22 -h /root/.ssh/id_ed25519")
    assert log[1:] == [
        "ssh -n llm-worker-0.llm true",
        "ssh -n llm-worker-1.llm true",
        f"deepspeed --hostfile {here.folder}/hostfile a.py two words",
    ]


def test_the_script_runs_a_command_of_ones_own(here: Container) -> None:
    command = 'deepspeed --x "$(echo a b)"; deepspeed again'
    assert here.run(deepspeed(1, config={"customCommand": command}))[2:] == ["deepspeed --x a b", "deepspeed again"]


def test_variables_of_the_template_reach_the_other_workers(here: Container) -> None:
    names = ("PLAIN", "SPACED", "QUOTED", "LINES", "FROM_SECRET", "EMPTY")
    env = [{"name": name, "value": "x"} for name in (*names, "not.a.name")]
    job = deepspeed(1, worker={"env": env})
    values = {
        "PLAIN": "/a/b:c=1",
        "SPACED": "two words",
        "QUOTED": "it's $HOME",
        "LINES": "a\nb",
        "FROM_SECRET": "s3cr$t",
        "EMPTY": "",
    }
    here.run(job, values)
    written = (here.folder / "env").read_text()
    assert "LINES" not in written, "a value of several lines has no place in the file"
    shown = subprocess.run(
        ["/bin/sh", "-c", f'. "$1"; for n in {" ".join(names)}; do eval "echo \\"\\$n=\\${{$n-}}\\""; done', "sh",
         str(here.folder / "env")],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert shown.stdout.splitlines() == [f"{n}={values[n] if n != 'LINES' else ''}" for n in names]
    assert "PLAIN=/a/b:c=1\n" in written


def test_variables_stay_where_they_are_if_the_job_says_so(here: Container) -> None:
    here.run(deepspeed(1, worker={"env": [{"name": "A", "value": "x"}]}, disableCustomEnv=True))
    assert not (here.folder / "env").exists()


def test_the_script_of_an_elastic_job_starts_with_those_that_answer(here: Container) -> None:
    log = here.run(deepspeed(1, elastic=ELASTIC))
    assert log[-1] == f"deepspeed --hostfile {here.folder}/present sft.py --epochs=1"
    assert (here.folder / "present").read_text() == "llm-worker-0.llm slots=2\nllm-worker-1.llm slots=2\n"
    here.program("ssh", ":")
    log = here.run(deepspeed(1, elastic=ELASTIC))
    assert len((here.folder / "present").read_text().splitlines()) == 3
