"""`t9ksched up --here` from outside: pods are processes of this machine, and nothing that becomes of them is lost."""

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import EXAMPLES, Json, Up, run, until
from tests.acceptance.nvml import library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux")
PODS = "/api/v1/namespaces/default/pods"
GANG = EXAMPLES / "local" / "gang.yaml"


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of modules with a library that sees cards."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "pynvml.py").write_text(library(4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("SOMEBODYS_SECRET", "hush")
        yield folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, cards: Path) -> Iterator[Up]:
    """This machine with four cards."""
    up = Up(tmp_path_factory.mktemp("here") / "data", "--here", fresh=True)
    try:
        yield up
        assert up.process.poll() is None, up.log
        assert up.audit().ok, str(up.audit())
        until(lambda: up.held() == 0, "free cards")
        assert mine(up) == []
    finally:
        close(up)


def close(up: Up) -> None:
    """End a service, and what a failed test left of its jobs."""
    up.stop()
    for pid in mine(up):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def mine(up: Up) -> list[int]:
    """All processes of jobs on this machine that this service started."""
    folders = {str(path) for path in (up.data_dir / "machine" / "pods").glob("*")}
    uids = [Path(folder).name.encode() for folder in folders]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "environ").read_bytes()
            except OSError:
                continue
            if any(b"T9K_CONTAINER_ID=local://" + uid in text for uid in uids):
                found.append(int(entry.name))
    return found


def pod(name: str, script: str, *, restart: str = "Never", grace: int = 5, **container: Any) -> Json:
    spec = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "main", "image": "none", "command": ["bash", "-c", script], **container}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def get(up: Up, name: str) -> Json:
    code, obj = up.kube("GET", f"{PODS}/{name}")
    return dict(obj) if code == 200 else {}


def start(up: Up, obj: Json) -> None:
    code, told = up.kube("POST", PODS, obj)
    assert code == 201, told


def ended(up: Up, name: str) -> Json:
    """The pod once it has ended."""
    return until(lambda: (seen := get(up, name))["status"].get("phase") in ("Succeeded", "Failed") and seen, name)


def log(up: Up, name: str, query: str = "") -> str:
    """The whole log of a pod's container."""
    import asyncio

    from t9ksched.kube.transport.config import connect

    async def read() -> str:
        async with connect(up.kubeconfig) as client:
            return (await client.request("GET", f"{PODS}/{name}/log{query}")).decode()

    return asyncio.run(read())


def remove(up: Up, *names: str) -> None:
    for name in names:
        up.kube("DELETE", f"{PODS}/{name}")
    until(lambda: not any(get(up, name) for name in names), "no pods")


def state(obj: Json, which: str = "containerStatuses") -> Json:
    return dict(obj["status"][which][0]["state"])


def holding(folder: Path, words: bytes) -> list[Path]:
    """The files below `folder` with these words, but for those that go meanwhile."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and words in path.read_bytes():
                found.append(path)
    return found


def ran(up: Up, obj: Json) -> tuple[Json, str]:
    """What became of a pod and what it wrote; it is gone afterwards."""
    name = obj["metadata"]["name"]
    start(up, obj)
    seen, text = ended(up, name), log(up, name)
    remove(up, name)
    return seen, text


# -- a gang ------------------------------------------------------------------------------------------------------------


def submitted_gang(up: Up, name: str, steps: int, cards: int = 0) -> str:
    """The example, with so many steps and cards for each."""
    obj = yaml.safe_load(GANG.read_text())
    obj["metadata"]["name"] = name
    (container,) = obj["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    container["env"] = [{"name": "STEPS", "value": str(steps)}]
    container["resources"]["limits"] = {"nvidia.com/gpu": cards} if cards else {}
    up.must("submit", "-f", "-", stdin=yaml.safe_dump(obj))
    return f"pj/{name}"


def heard(up: Up, job: str) -> list[re.Match[str]]:
    """The newest line of each rank."""
    lines = up.cli("logs", job, "--all", "--tail", "1").out.splitlines()  # fails while a pod takes another's place
    pattern = r" *(\d) \| rank \1 of 4, process (\d+), cards ([\d,]+|none): step (\d+), sum 10 by (.*)"
    return [found for line in lines if (found := re.fullmatch(pattern, line))]


def all_heard(up: Up, job: str) -> list[re.Match[str]]:
    return until(lambda: len(found := heard(up, job)) == 4 and found, f"all ranks of {job}")


def test_the_script_of_the_example_is_in_its_job() -> None:
    (container,) = yaml.safe_load(GANG.read_text())["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    assert container["command"] == ["python3", "-c", (EXAMPLES / "local" / "gang.py").read_text()]


def test_four_processes_exchange_data_each_on_its_card(here: Up) -> None:
    job = submitted_gang(here, "talks", 3, cards=1)
    here.must("wait", job, "--for", "succeeded")
    found = heard(here, job)
    assert [line[4] for line in found] == ["3"] * 4
    assert sorted(line[3] for line in found) == ["0", "1", "2", "3"]
    until(lambda: here.held() == 0, "free cards")
    here.must("cancel", job, "--yes")


def test_one_that_is_killed_comes_back_and_two_gangs_do_not_meet(here: Up) -> None:
    one, two = submitted_gang(here, "one", 10_000, cards=1), submitted_gang(here, "two", 10_000)
    here.must("wait", one, "--for", "running")
    before = all_heard(here, one)
    all_heard(here, two)
    os.kill(int(before[2][2]), signal.SIGKILL)
    os.kill(int(before[0][2]), signal.SIGKILL)

    def back() -> bool:
        now = heard(here, one)
        return len(now) == 4 and all(now[rank][2] != before[rank][2] for rank in (0, 2))

    until(back, "the killed ones")
    now = all_heard(here, one)
    assert [now[rank][2] for rank in (1, 3)] == [before[rank][2] for rank in (1, 3)], "the others run on"
    assert sorted(line[3] for line in now) == ["0", "1", "2", "3"]
    assert here.held() == 4
    here.must("cancel", one, two, "--yes")
    until(lambda: here.pods() == [], "no pods")


def test_a_job_waits_for_the_cards_of_another(here: Up) -> None:
    first = submitted_gang(here, "first", 10_000, cards=1)
    here.must("wait", first, "--for", "running")
    here.must(
        "run", "--image", "none", "--gpus", "2", "--name", "second", "--", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES"
    )
    assert "InsufficientResources" in until(
        lambda: "Insufficient" in (text := here.must("explain", "job/second")) and text, "a reason"
    )
    here.must("cancel", first, "--yes")
    here.must("wait", "job/second", "--for", "succeeded")
    assert re.fullmatch(r"\d,\d\n", here.must("logs", "job/second"))
    here.must("cancel", "job/second", "--yes")


def test_kill_9_of_the_service_and_another_start(tmp_path: Path, cards: Path) -> None:
    up = Up(tmp_path / "data", "--here", fresh=True)
    try:
        job = submitted_gang(up, "stays", 10_000, cards=1)
        up.must("wait", job, "--for", "running")
        before = all_heard(up, job)
        begun, go = tmp_path / "begun", tmp_path / "go"
        start(
            up,
            pod(
                "ends",
                f"echo $$ >{begun}.new; mv {begun}.new {begun}; while [ ! -e {go} ]; do sleep 0.05; done; exit 7",
            ),
        )
        until(begun.exists, "the process that ends")
        up.kill()
        assert len(mine(up)) >= 5, "they run on"
        go.touch()
        until(lambda: not Path("/proc", begun.read_text().strip()).exists(), "its end")
        up = Up(up.data_dir, "--here", fresh=True)
        assert state(ended(up, "ends"))["terminated"]["exitCode"] == 7, "what ended meanwhile is told"
        now = all_heard(up, job)
        assert [line[2] for line in now] == [line[2] for line in before], "none was started again"
        assert int(until(lambda: heard(up, job), "a step")[1][4]) >= int(before[1][4])
        assert up.held() == 4

        up.kill()
        lost = [before[rank][2] for rank in (0, 2)]
        for path in (up.data_dir / "machine" / "pods").glob("*/containers/python/*/state.json"):
            if str((known := json.loads(path.read_text()))["pid"]) in lost:
                os.kill(known["supervisor"], signal.SIGKILL)
        up = Up(up.data_dir, "--here", fresh=True)
        until(
            lambda: not {line[2] for line in all_heard(up, job)} & set(lost),
            "processes in place of those that were lost",
        )
        assert not [pid for pid in lost if Path("/proc", pid).exists()], "nothing of the lost ones is left"
        assert up.held() == 4
        up.must("cancel", job, "--yes")
        until(lambda: not up.held() and not mine(up), "free cards")
        assert up.audit().ok
    finally:
        close(up)


# -- one container -----------------------------------------------------------------------------------------------------


def test_exit_codes_and_logs(here: Up) -> None:
    seen, text = ran(here, pod("fails", "echo out; echo err >&2; exit 3"))
    assert (seen["status"]["phase"], sorted(text.split())) == ("Failed", ["err", "out"])
    end = state(seen)["terminated"]
    assert (end["exitCode"], end["reason"]) == (3, "Error")
    seen, text = ran(here, pod("good", "printf 'no end'"))
    assert (seen["status"]["phase"], text) == ("Succeeded", "no end\n")
    end = state(ran(here, pod("signalled", "kill -9 $$"))[0])["terminated"]
    assert (end["exitCode"], end["signal"]) == (137, 9)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["no-such-command"], 'exec: "no-such-command": executable file not found in $PATH'),
        (["/no/such/file"], 'exec: "/no/such/file": no such file or directory'),
        (["/etc/hosts"], 'exec: "/etc/hosts": permission denied'),
    ],
)
def test_a_command_that_cannot_be_started(here: Up, command: list[str], told: str) -> None:
    obj = pod("unstartable", "", command=command)
    start(here, obj)
    end = state(ended(here, "unstartable"))["terminated"]
    assert (end["exitCode"], end["reason"], end["message"]) == (128, "StartError", told)
    remove(here, "unstartable")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda spec: spec.update(securityContext={"runAsUser": 4321}),
            "the pod has runAsUser: 4321, and processes of",
        ),
        (lambda spec: spec["containers"][0].pop("command"), "container main has no command: images are not used"),
        (
            lambda spec: spec.update(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
            "volume v is a nfs, which this node cannot mount: use emptyDir",
        ),
        (
            lambda spec: spec["containers"][0].update(lifecycle={"preStop": {"httpGet": {"port": 80}}}),
            "container main has lifecycle.preStop.httpGet, which this node does not do: use exec or sleep",
        ),
    ],
)
def test_what_this_machine_cannot_do_is_refused(here: Up, change: Callable[[Any], Any], told: str) -> None:
    obj = pod("refused", "true")
    change(obj["spec"])
    start(here, obj)
    status = ended(here, "refused")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "PodFeatureUnsupported")
    assert told in status["message"]
    remove(here, "refused")


def test_environment(here: Up) -> None:
    here.kube(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        {"metadata": {"name": "settings"}, "data": {"RATE": "0.1", "1st": "x"}},
    )
    here.kube(
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "key"}, "stringData": {"token": "hush"}},
    )
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)-$(RATE)-$(NONE)-$$(A)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
        {"name": "NOT", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k", "optional": True}}},
    ]
    obj = pod(
        "tells",
        "env",
        env=env,
        envFrom=[{"configMapRef": {"name": "settings"}}],
        resources={"requests": {"cpu": "250m"}},
        workingDir="/tmp",
    )
    seen, text = ran(here, obj)
    told = dict(line.partition("=")[::2] for line in text.splitlines())
    assert (told["B"], told["POD"], told["CPU"], told["KEY"], told["PWD"]) == (
        "a-0.1-$(NONE)-$(A)",
        "tells",
        "250",
        "hush",
        "/tmp",
    )
    assert told["IP"] == seen["status"]["podIP"]
    assert told["IP"].startswith("127.")
    assert told["CUDA_VISIBLE_DEVICES"] == "", "no cards were asked for"
    assert told["PATH"] == os.environ["PATH"]
    assert not {name for name in told if name.startswith("T9KSCHED_")} | told.keys() & {
        "1st",
        "SOMEBODYS_SECRET",
    }
    until(lambda: not holding(here.data_dir / "machine", b"hush"), "a disk without the secret")


def test_a_container_waits_for_its_settings(here: Up) -> None:
    start(
        here,
        pod("waits", "echo $X", env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]),
    )
    waiting = until(
        lambda: (get(here, "waits")["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting")
    )
    until(lambda: state(get(here, "waits"))["waiting"].get("message"))
    assert state(get(here, "waits"))["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "late" not found',
    }, waiting
    here.kube("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "late"}, "data": {"x": "here"}})
    assert ended(here, "waits")["status"]["phase"] == "Succeeded"
    assert log(here, "waits") == "here\n"
    remove(here, "waits")


def test_signals_and_grace(here: Up, tmp_path: Path) -> None:
    mark = tmp_path / "told"
    hook = {"preStop": {"exec": {"command": ["bash", "-c", f"echo first >>{mark}; sleep 0.2"]}}}
    script = f"trap 'echo term >>{mark}; exit 0' TERM; (setsid sleep 1000 &); echo up; while :; do sleep 0.05; done"
    start(here, pod("polite", script, grace=60, lifecycle=hook))
    until(lambda: get(here, "polite")["status"].get("phase") == "Running" and log(here, "polite"))
    remove(here, "polite")
    assert mark.read_text() == "first\nterm\n"
    assert mine(here) == []

    start(here, pod("deaf", "trap '' TERM; while :; do sleep 0.05; done", grace=1))
    until(lambda: get(here, "deaf")["status"].get("phase") == "Running")
    remove(here, "deaf")
    assert mine(here) == []


def test_restarts_deadlines_and_init_containers(here: Up, tmp_path: Path) -> None:
    mark = tmp_path / "tries"
    obj = pod("tries", f"echo x >>{mark}; echo try; [ $(wc -l <{mark}) = 2 ]", restart="OnFailure")
    obj["spec"]["initContainers"] = [
        {"name": "before", "image": "none", "command": ["bash", "-c", f"[ ! -e {mark} ] && echo ready"]}
    ]
    start(here, obj)
    seen = ended(here, "tries")
    assert seen["status"]["phase"] == "Succeeded"
    (entry,) = seen["status"]["containerStatuses"]
    assert (entry["restartCount"], entry["lastState"]["terminated"]["exitCode"]) == (1, 1)
    assert log(here, "tries", "?container=before") == "ready\n"
    assert log(here, "tries", "?previous=true&container=main") == "try\n"
    remove(here, "tries")

    late = pod("late", "sleep 1000")
    late["spec"]["activeDeadlineSeconds"] = 1
    start(here, late)
    status = ended(here, "late")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    remove(here, "late")


def test_who_outlives_its_supervisor_is_ended_and_told(here: Up) -> None:
    start(here, pod("lost", "(setsid sleep 1000 &); sleep 1000"))
    until(lambda: len(mine(here)) >= 2)
    uid = get(here, "lost")["metadata"]["uid"]
    place = here.data_dir / "machine" / "pods" / uid / "containers" / "main" / "0" / "state.json"
    os.kill(json.loads(place.read_text())["supervisor"], signal.SIGKILL)
    end = state(ended(here, "lost"))["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "ContainerStatusUnknown")
    assert "was ended from outside" in end["message"]
    assert mine(here) == []
    remove(here, "lost")


def test_volumes(here: Up, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("given")
    here.kube("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "files"}, "data": {"a.txt": "A"}})
    claim = {
        "metadata": {"name": "kept"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    here.kube("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "files", "configMap": {"name": "files"}},
        {"name": "host", "hostPath": {"path": str(tmp_path)}},
        {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}},
    ]
    mounts = [
        {"name": "scratch", "mountPath": "/t9k-test/scratch"},
        {"name": "files", "mountPath": "/t9k-test/files", "readOnly": True},
        {"name": "host", "mountPath": "/t9k-test/host"},
        {"name": "kept", "mountPath": "/t9k-test/kept"},
    ]
    script = (
        "cd /t9k-test; echo s >scratch/s; cat files/a.txt scratch/s host/in; echo >files/x; echo k >>kept/k; cat kept/k"
    )
    for turn in (1, 2):
        obj = pod("mounts", script, volumeMounts=mounts)
        obj["spec"]["volumes"] = volumes
        seen, text = ran(here, obj)
        assert seen["status"]["phase"] == "Succeeded", text
        assert re.sub("bash: .*\n", "", text) == "As\ngiven" + "k\n" * turn
        assert "Read-only file system" in text
    assert not Path("/t9k-test").exists()


def test_pods_find_each_other_by_name(here: Up) -> None:
    for index in (0, 1):
        obj = pod(f"peer-{index}", "sleep 1000")
        obj["spec"] |= {"hostname": f"peer-{index}", "subdomain": "peers"}
        start(here, obj)
    asks = (
        "for n in peer-0.peers peer-1.peers.default.svc.cluster.local localhost; do getent ahostsv4 $n | head -1; done"
    )
    obj = pod("asks", asks)
    obj["spec"]["subdomain"] = "peers"
    _, text = ran(here, obj)
    addresses = [line.split()[0] for line in text.splitlines()]
    assert addresses == [get(here, f"peer-{index}")["status"]["podIP"] for index in (0, 1)] + ["127.0.0.1"]
    assert "peer-0.peers" not in Path("/etc/hosts").read_text()
    remove(here, "peer-0", "peer-1")


def test_logs_are_followed_and_cut(here: Up, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lines = "for i in 2 3 4 5; do echo line $i; sleep 0.1; done"
    start(here, pod("writes", f"echo line 1; while [ ! -e {go} ]; do sleep 0.05; done; {lines}"))
    until(lambda: get(here, "writes")["status"].get("phase") == "Running")
    later = threading.Timer(0.5, go.touch)
    later.start()
    assert log(here, "writes", "?follow=true") == "".join(f"line {i}\n" for i in range(1, 6))
    later.join()
    ended(here, "writes")
    assert log(here, "writes", "?tailLines=2") == "line 4\nline 5\n"
    assert log(here, "writes", "?tailLines=0") == ""
    assert log(here, "writes", "?limitBytes=8") == "line 1\nl"
    stamp, _, text = log(here, "writes", "?tailLines=1&timestamps=true").partition(" ")
    assert (bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", stamp)), text) == (True, "line 5\n")
    assert log(here, "writes", f"?sinceTime={stamp}") == "line 5\n"
    remove(here, "writes")


# -- the service -------------------------------------------------------------------------------------------------------


def test_a_directory_is_of_a_machine_or_of_a_simulated_cluster(here: Up, tmp_path: Path) -> None:
    machine, simulated = Up(tmp_path / "machine", "--here"), Up(tmp_path / "simulated", "--nodes", "small")
    machine.stop()
    simulated.stop()
    done = run("up", "--port", "0", "--data-dir", str(machine.data_dir))
    assert (done.code, "is that of a machine" in done.err, "up --here" in done.err) == (1, True, True)
    done = run("up", "--here", "--port", "0", "--data-dir", str(simulated.data_dir))
    assert (done.code, "has other nodes: a100-0" in done.err) == (1, True)


@pytest.mark.parametrize("words", [("--nodes", "small"), ("--kubeconfig", "x"), ("--observe",)])
def test_a_machine_is_a_cluster_of_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run("up", "--here", "--data-dir", str(tmp_path), *words)
    assert (done.code, "--here is a cluster of its own" in done.err) == (2, True)


def test_others_on_the_network_reach_no_machine(tmp_path: Path) -> None:
    done = run("up", "--here", "--data-dir", str(tmp_path), also={"T9KSCHED_HOST": "0.0.0.0"})
    assert (done.code, "start processes as you" in done.err) == (2, True)
