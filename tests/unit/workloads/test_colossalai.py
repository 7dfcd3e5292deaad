"""ColossalAIJob, both generations: its launcher, its workers, and what is refused."""

from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, colossal_v1, colossal_v2, container, template

Object = dict[str, Any]
RUN = ["colossalai", "run", "--hostfile", "/etc/colossalai/hostfile", "--nproc_per_node", "2"]


def pods(job: Object) -> tuple[Object, Object]:
    """The launcher and the first worker."""
    launcher, worker, *_ = expand(job).pods
    return launcher["spec"], worker["spec"]


@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
def test_the_launcher_waits_and_runs_the_program_on_all_workers(make: Any) -> None:
    job = make(3)
    launcher, worker = pods(job)
    assert launcher["containers"][0]["command"] == [*RUN, "train.py", "-x"]
    assert launcher["containers"][0]["workingDir"] == "/w"
    waiting = launcher["initContainers"][-1]
    assert "ssh -F /etc/colossalai/ssh_config" in waiting["command"][2]
    assert "exec /usr/sbin/sshd -D" in worker["containers"][0]["command"][2]
    data = expand(job).configmaps[0]["data"]
    assert data["hostfile"] == "".join(f"palm-worker-{index}.palm\n" for index in range(3))
    assert [each["metadata"]["name"] for each in expand(job).pods] == [
        "palm-launcher-0", *(f"palm-worker-{index}" for index in range(3))
    ]  # fmt: skip
    group = expand(job).podgroup
    assert group is not None
    assert group["spec"]["minMember"] == 4


@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
def test_commands_of_workers_are_ignored(make: Any) -> None:
    job = make(1)
    own = template(container("worker", command=["python"], args=["x"]))
    (job["spec"].get("worker") or job["spec"]["replicaSpecs"][1])["template"] = own
    worker = pods(job)[1]["containers"][0]
    assert "sshd" in worker["command"][2]
    assert "args" not in worker


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--rdzv_backend=c10d"], "rdzv_backend=c10d"),
        (["--rdzv_backend", "c10d", "--standalone"], "rdzv_backend=c10d,standalone"),
        (["-standalone"], "standalone"),
    ],
)
def test_options_of_torchrun_are_written_as_colossalai_takes_them(words: list[str], option: str) -> None:
    older, newer = colossal_v1(1), colossal_v2(1)
    older["spec"]["worker"]["torchArgs"] = words
    newer["spec"]["torchConfig"]["extraArgs"] = words
    for job in (older, newer):
        command = pods(job)[0]["containers"][0]["command"]
        assert command == [*RUN, "--extra_launch_args", option, "train.py", "-x"]


def test_the_launcher_of_the_first_generation_is_like_a_worker_but_for_what_is_given() -> None:
    given = {
        "image": "example/cai:1",
        "workingDir": "/w",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    }
    job = colossal_v1(1, given)
    shared = template(container("worker", gpu=2, env=[{"name": "A", "value": "0"}, {"name": "B", "value": "0"}]))
    job["spec"]["worker"]["template"] = {**shared, "spec": {**shared["spec"], "nodeSelector": {"zone": "a"}}}
    launcher = pods(job)[0]
    (made,) = launcher["containers"]
    assert (made["name"], made["image"], made["resources"]) == ("launcher", "example/cai:1", given["resources"])
    assert made["env"] == [{"name": "B", "value": "0"}, {"name": "A", "value": "1"}]
    assert launcher["nodeSelector"] == {"zone": "a"}
    assert read(job).totals == {"cpu": 3000, "memory": 2 << 30, "nvidia.com/gpu": 2}
    (made,) = pods(colossal_v1(1, {}))[0]["containers"]
    assert (made["image"], made["resources"]["limits"]) == ("busybox", {"cpu": "200m", "memory": "200Mi"})


@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
def test_in_debug_mode_all_sleep_and_no_program_is_needed(make: Any) -> None:
    job = make(1, runMode={"debug": {"enabled": True}})
    for part in ("worker", "torchConfig"):
        job["spec"].get(part, {}).pop("command", None)
        job["spec"].get(part, {}).pop("script", None)
    assert validate(job) == []
    for spec in pods(job):
        assert spec["containers"][0]["command"] == ["sleep", "inf"]
        assert "initContainers" not in spec, "no worker would answer"


@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_the_job_ends_as_its_launcher_and_keeps_it(make: Any, code: int, phase: str) -> None:
    world = World(make(2, runPolicy={"cleanUpWorkers": True}))
    world.settle()
    world.run_all()
    world.settle()
    world.set_phase("palm-launcher-0", "Failed" if code else "Succeeded", code)
    world.settle()
    assert (world.status["phase"], world.pods()) == (phase, ["palm-launcher-0"])


@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
def test_a_worker_that_fails_cannot_come_back(make: Any) -> None:
    world = World(make(2))
    world.settle()
    world.run_all()
    world.settle()
    world.set_phase("palm-worker-1", "Failed", 1)
    world.settle()
    assert (world.status["phase"], world.created.count("palm-worker-1")) == ("Failed", 1)


@pytest.mark.parametrize(
    ("job", "path", "told"),
    [
        (colossal_v2(torchConfig={}), "spec.torchConfig.script", "is missing: write the program"),
        (colossal_v2(torchConfig={"script": ["a"], "procPerWorker": 0}), "spec.torchConfig.procPerWorker", "out of"),
        (
            colossal_v2(torchConfig={"script": ["a"], "extraArgs": ["--a=b,c"]}),
            "spec.torchConfig.extraArgs[0]",
            "has a comma",
        ),
        (colossal_v2(ssh={"sshdPath": "sshd"}), "spec.ssh.sshdPath", "is not absolute"),
        (colossal_v1(launcher={"image": 1}), "spec.launcher.image", "must be a text"),
        (colossal_v1(launcher={"env": "A=1"}), "spec.launcher.env", "must be a list"),
        (
            colossal_v1(launcher={"resources": {"requests": {"cpu": "x"}}}),
            "spec.launcher.resources.requests.cpu",
            "'x'",
        ),
    ],
)
def test_what_cannot_be(job: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(job)}
    assert told in faults[path]
