"""Workloads that nobody uses, from outside and in real time: some minutes, as short as a policy can be."""

import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Json, Up, until
from tests.acceptance.nvml import library
from tests.acceptance.test_here import close

pytestmark = [pytest.mark.soak, pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs it")]
SHORT = {"T9KSCHED_IDLE_AFTER_SECONDS": "60", "T9KSCHED_IDLE_CHECK_SECONDS": "5"}
BLOCK = "{scanInterval: 10, idleTimeout: 60, warnBefore: 20}"
POLICY = f"policy: {{notebook: {BLOCK}, tensorboard: {BLOCK}, explorer: {BLOCK}}}"
PLATFORM = "/apis/tensorstack.dev/v1beta1/namespaces/default"
KEEP, USED = "scheduler.tensorstack.dev/keep-until", "scheduler.tensorstack.dev/last-activity"


class Lab:
    """Workloads of a service, and what becomes of them."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.options = options
        self.folder = data_dir.parent
        self.up = Up(data_dir, *options, fresh=True, also=SHORT)
        self.up.kube("POST", "/api/v1/namespaces", {"metadata": {"name": "t9k-system"}})
        told = {"metadata": {"name": "resource-keeper-policy-config"}, "data": {"policy.yaml": POLICY}}
        assert self.up.kube("POST", "/api/v1/namespaces/t9k-system/configmaps", told)[0] == 201

    def again(self) -> None:
        """The whole service dies, and another one begins."""
        self.up.kill()
        self.up = Up(self.up.data_dir, *self.options, fresh=True, also=SHORT)

    def make(self, kind: str, name: str, notes: dict[str, str] | None = None, **spec: Any) -> None:
        head = {"apiVersion": "tensorstack.dev/v1beta1", "kind": kind}
        meta = {"name": name, "namespace": "default", "annotations": notes or {}}
        whole = {"scheduler": {"t9kScheduler": {"queue": "default"}}, **spec}
        self.up.must("submit", "-f", "-", stdin=yaml.safe_dump({**head, "metadata": meta, "spec": whole}))

    def book(self, name: str, mood: str, **notes: str) -> None:
        """A Notebook whose Jupyter is a process in that mood."""
        self.mood(name, mood)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [sys.executable, str(Path(__file__).with_name("jupyter.py")), str(port), str(self.folder / name)]
        amounts = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"nvidia.com/gpu": 1}}
        main = {"name": "notebook", "image": "none", "command": words, "resources": amounts}
        pod = {"spec": {"containers": [{**main, "ports": [{"containerPort": port}]}]}}
        self.make("Notebook", name, notes, type="jupyter", template=pod)

    def mood(self, name: str, mood: str) -> None:
        (self.folder / f"{name}.new").write_text(mood)
        (self.folder / f"{name}.new").rename(self.folder / name)

    def get(self, name: str, kind: str = "notebooks") -> Json:
        return dict(self.up.kube("GET", f"{PLATFORM}/{kind}/{name}")[1])

    def condition(self, name: str, which: str, kind: str = "notebooks") -> tuple[str, str]:
        found = self.get(name, kind).get("status", {}).get("conditions", ())
        return next(((each["status"], each["reason"]) for each in found if each["type"] == which), ("", ""))

    def idle(self, name: str, kind: str = "notebooks") -> tuple[str, str]:
        return self.condition(name, "Idle", kind)

    def suspended(self, name: str, kind: str = "notebooks") -> bool:
        return bool(self.get(name, kind)["spec"].get("suspend"))

    def told(self, reason: str) -> dict[str, int]:
        """How often each object was told this."""
        events = self.up.kube("GET", "/api/v1/namespaces/default/events")[1]["items"]
        found: dict[str, int] = {}
        for each in events:
            if each["reason"] == reason:
                name = each["involvedObject"]["name"]
                found[name] = found.get(name, 0) + (each.get("count") or 1)
        return found

    def history(self, name: str, kind: str = "nb") -> list[str]:
        found = self.up.cli("history", f"{kind}/{name}", "-o", "json").json["items"]
        return [str(one["event"]) for one in found]

    def hours(self, name: str) -> tuple[float, float]:
        report = self.up.rest("GET", "/apis/v1/usage?by=job")[1]["items"]
        found = next(each for each in report if str(each["job"]).endswith(f"/{name}"))
        return float(found["idleHours"]), float(found["freeHours"])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """This machine, with cards."""
    (tmp_path / "pynvml.py").write_text(library(16))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lab = Lab(tmp_path / "data", "--here")
    try:
        yield lab
        assert lab.up.process.poll() is None, lab.up.log
    finally:
        close(lab.up)


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path / "data", "--nodes", "small")
    try:
        yield lab
        assert lab.up.process.poll() is None, lab.up.log
    finally:
        lab.up.stop()


ODD = {"slow": "NotReachable", "away": "NotReachable", "huge": "NotReachable", "login": "LoginRequired"}
ODD |= {"rubbish": "NotJupyter"}


def test_notebooks_are_asked_warned_suspended_and_resumed(here: Lab) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    for name, mood in (("quiet", "quiet"), ("back", "quiet"), ("busy", "busy"), *zip(ODD, ODD, strict=True)):
        here.book(name, mood)
    here.book("kept", "quiet", **{KEEP: tomorrow})
    names = ("quiet", "back", "busy", "kept", *ODD)
    until(lambda: all(here.condition(name, "Ready")[0] == "True" for name in names), "all pods")
    assert here.up.held() == len(names)
    until(lambda: here.idle("quiet") == ("False", "Active"), "an answer")
    for name, reason in ODD.items():
        until(lambda name=name, reason=reason: here.idle(name) == ("Unknown", reason), f"{name}: {here.idle(name)}")
    here.again()  # before anybody is warned
    until(lambda: here.idle("quiet") == ("True", "NoActivity"), "an hour of a minute")
    until(lambda: {"quiet", "back"} <= here.told("SuspensionNear").keys(), "the warning")
    assert not here.suspended("quiet")
    assert here.idle("busy")[0] == "False"
    until(lambda: here.idle("kept")[0] == "True", "one that is kept, though nobody uses it")
    here.mood("back", "used")
    here.again()  # between warning and suspension
    until(lambda: here.suspended("quiet"), "the suspension")
    until(lambda: "quiet" in here.told("SuspendedIdle"), "the event")
    assert here.told("SuspensionNear")["quiet"] >= 2, "the next leader tells once more"
    until(lambda: here.up.held() == len(names) - 1, "its card to come free")
    until(lambda: here.condition("quiet", "Suspended") == ("True", "WhileIdle"), "the condition")
    until(lambda: "suspended-idle" in here.history("quiet"), "history")
    assert here.up.cli("explain", "nb/quiet").code == 0
    until(lambda: here.hours("quiet")[0] > 0, "idle hours")
    assert "IDLE" in here.up.must("usage", "--by", "job")
    here.up.must("resume", "nb/quiet")
    until(lambda: here.condition("quiet", "Ready")[0] == "True", "its pod")
    until(lambda: here.idle("quiet") == ("False", "Active"), "it is used")
    assert here.up.held() == len(names)
    idle, free = here.hours("quiet")
    assert 0 < idle < 0.2
    assert 0 < free < 0.2
    assert [name for name in names if here.suspended(name)] == []
    here.mood("slow", "quiet")
    until(lambda: here.suspended("slow"), "one that answers again, and is idle")


def test_what_reports_tell_alone(simulated: Lab) -> None:
    lab, claim = simulated, {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    lab.up.kube("POST", "/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "x", "path": "/"}}
    lab.up.kube("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    now = {USED: datetime.now(UTC).isoformat(timespec="seconds")}
    main = {"name": "notebook", "image": "i", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}
    ssh = {"enabled": True, "authorized_keys": ["ssh-ed25519 AAAA ann"]}
    lab.make("TensorBoard", "board", now, logDir={"pvc": [{"name": "c"}]})
    lab.make("Explorer", "files", now, storageType="pvc", storageName="c")
    lab.make("Notebook", "ssh", now, type="jupyter", ssh=ssh, template={"spec": {"containers": [main]}})
    lab.make("TensorBoard", "unknown", logDir={"pvc": [{"name": "c"}]})
    all_ = (("board", "tensorboards"), ("files", "explorers"), ("ssh", "notebooks"))
    for name, kind in all_:
        until(lambda name=name, kind=kind: lab.idle(name, kind) == ("False", "Active"), f"{name} to be used")
    assert lab.idle("unknown", "tensorboards") == ("Unknown", "NotMeasured")
    until(lambda: {"board", "files", "ssh"} <= lab.told("SuspensionNear").keys(), "warnings")
    book = lab.get("ssh")
    book["metadata"]["annotations"][USED] = datetime.now(UTC).isoformat(timespec="seconds")
    assert lab.up.kube("PUT", f"{PLATFORM}/notebooks/ssh", book)[0] == 200
    lab.again()
    for name, kind in all_[:2]:
        until(lambda name=name, kind=kind: lab.suspended(name, kind), f"the end of {name}")
    assert not lab.suspended("ssh")
    assert not lab.suspended("unknown", "tensorboards")
    until(lambda: lab.condition("files", "Suspended", "explorers") == ("True", "WhileIdle"), "the condition")
    until(lambda: not any(pod["metadata"]["name"] == "managed-explorer-files-0" for pod in lab.up.pods()), "its pod")
    lab.up.must("resume", "tb/board")
    until(lambda: lab.condition("board", "Ready", "tensorboards")[0] == "True", "its pod")
    until(lambda: lab.suspended("ssh"), "the end of the session, a minute later")
