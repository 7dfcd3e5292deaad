"""An upgrade from the program of one migration ago and back, with both on one database and one cluster."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from t9ksched.store import schema
from tests import forkserver
from tests.acceptance import previous
from tests.acceptance.conftest import EXAMPLES, Cluster, environment, queue, request, run, until
from tests.acceptance.test_soak import ADMIN_TOKEN, INTERNAL
from tests.forkserver import Process

pytestmark = pytest.mark.postgres
Json = dict[str, Any]
ROLES = {SCHEDULER: ("scheduler",), CONTROLLER: ("controller",), API: ("api", "--port", "0")}
Running = Process | subprocess.Popen[bytes]


class Installation:
    """Roles of the old and of the new program, each a process."""

    def __init__(self, folder: Path, tree: Path, cluster: Cluster, database: str) -> None:
        self.folder, self.tree, self.cluster, self.database = folder, tree, cluster, database
        self.running: dict[tuple[str, str], Running] = {}
        self._logs: dict[tuple[str, str], Path] = {}

    def start(self, version: str, account: str) -> None:
        log = self.folder / f"{version}-{account}-{len(self._logs)}.log"
        given = environment() | {
            "T9KSCHED_DB": self.database,
            "T9KSCHED_KUBECONFIG": str(self.cluster.kubeconfigs[account]),
            "T9KSCHED_INTERNAL_SECRET": INTERNAL,
            "T9KSCHED_ADMIN_TOKEN": ADMIN_TOKEN,
            "T9KSCHED_LOG_FORMAT": "json",
        }
        command = ROLES[account]
        if version == "old":
            self.running[version, account] = previous.start(self.tree, given, log, *command)
        else:
            with log.open("w") as lines:
                self.running[version, account] = forkserver.start(
                    "t9ksched", command, given, stdout=lines, stderr=lines
                )
        self._logs[version, account] = log

    def stop(self, version: str, account: str) -> None:
        process = self.running.pop((version, account))
        process.terminate()
        assert process.wait(60) == 0, self.log(version, account)[-2000:]

    def log(self, version: str, account: str) -> str:
        return self._logs[version, account].read_text()

    def url(self, version: str) -> str:
        """Where a version's REST answers, once it is ready."""

        def ready() -> str:
            lines = [line for line in self.log(version, API).splitlines() if '"serving"' in line]
            if not lines:
                assert self.running[version, API].poll() is None, self.log(version, API)[-2000:]
                return ""
            url = str(json.loads(lines[0])["url"])
            return url if request("GET", f"{url}/readyz", ADMIN_TOKEN)[0] == 200 else ""

        return str(until(ready, f"REST of the {version} program"))

    def leads(self, version: str) -> None:
        """Wait until a version's scheduler leads."""
        until(lambda: '"scheduling"' in self.log(version, SCHEDULER), f"the scheduler of the {version} program")

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(60)


@pytest.fixture
def installation(tmp_path: Path, postgres: str) -> Iterator[Installation]:
    tree = previous.previous(tmp_path)
    cluster = Cluster(tmp_path)
    made = Installation(tmp_path, tree, cluster, postgres)
    try:
        yield made
    finally:
        made.end()
        cluster.stop()


def pod(name: str) -> str:
    amounts = "{cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}"
    resources = f"{{requests: {amounts}, limits: {amounts}}}"
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\n"
        f"spec: {{containers: [{{name: main, image: i, resources: {resources}}}]}}\n"
    )


def submitted(url: str, name: str) -> None:
    """Submit a pod of one card to that REST, and see it run."""
    where = ("--server", url, "--token", ADMIN_TOKEN)
    done = run("submit", "-f", "-", "--queue", "a40", *where, stdin=pod(name))
    assert done.code == 0, done.err
    waited = run("wait", f"pod/{name}", "--for", "running", "--timeout", "100s", *where)
    assert waited.code == 0, waited.err


def holders(url: str) -> dict[tuple[str, int], tuple[str, str]]:
    """The pod on each card that is held, each once."""
    status, answer = request("GET", f"{url}/apis/v1/nodes", ADMIN_TOKEN)
    assert status == 200, answer
    found = {}
    for node in answer["items"]:
        for card in node["gpus"]:
            for holder in card["holders"]:
                assert (node["name"], card["index"]) not in found, "a card given twice"
                found[node["name"], card["index"]] = (holder["namespace"], holder["pod"])
    return found


def test_both_programs_on_one_database_and_back(installation: Installation) -> None:
    installation.start("new", CONTROLLER)  # it knows no database
    for account in (SCHEDULER, API):
        installation.start("old", account)
    old = installation.url("old")
    assert schema.current(installation.database) == previous.REVISION
    for name, cards, product in (("a100", 16, "NVIDIA-A100-PCIE-80GB"), ("a40", 8, "NVIDIA-A40-40GB")):
        body = queue(name, cards, product)
        assert request("POST", f"{old}/apis/v1/admin/queues", ADMIN_TOKEN, body)[0] == 201
    where = ("--server", old, "--token", ADMIN_TOKEN)
    assert run("submit", "-f", str(EXAMPLES / "pytorch.yaml"), *where).code == 0
    assert run("wait", "pj/resnet", "--for", "running", "--timeout", "100s", *where).code == 0
    waits = (EXAMPLES / "pytorch.yaml").read_text().replace("name: resnet", "name: waits")
    assert run("submit", "-f", "-", *where, stdin=waits).code == 0
    before = holders(old)
    assert len(before) == 16

    installation.start("new", API)  # migrates the tables, while the old scheduler leads
    new = installation.url("new")
    assert schema.current(installation.database) == schema.newest() != previous.REVISION
    installation.start("new", SCHEDULER)
    submitted(old, "by-old")
    submitted(new, "by-new")
    for url in (old, new):
        status, jobs = request("GET", f"{url}/apis/v1/workloads", ADMIN_TOKEN)
        assert (status, {job["name"] for job in jobs["items"]}) == (200, {"resnet", "waits", "by-old", "by-new"})
    assert '"scheduling"' not in installation.log("new", SCHEDULER)

    for account in (SCHEDULER, API):
        installation.stop("old", account)
    installation.leads("new")
    submitted(new, "after")
    held = holders(new)
    assert {card: pod for card, pod in held.items() if card in before} == before, "nothing was evicted or moved"

    for account in (API, SCHEDULER):
        installation.stop("new", account)
    assert run("db", "downgrade", previous.REVISION, "--db", installation.database).code == 0
    for account in (SCHEDULER, API):
        installation.start("old", account)
    back = installation.url("old")
    submitted(back, "back")
    assert {card: pod for card, pod in holders(back).items() if card in held} == held, "nor on the way back"
    waiting = request("GET", f"{back}/apis/v1/workloads/default/PyTorchTrainingJob/waits", ADMIN_TOKEN)[1]
    assert (waiting["phase"], waiting["reason"]["code"]) == ("Pending", "QuotaExceeded")
