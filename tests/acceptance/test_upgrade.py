"""A start on a database and on objects that an earlier release left: nothing is evicted, and everything goes on."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Json, Up, until

EARLIER = Path(__file__).parent / "earlier"
CARDS = "scheduler.tensorstack.dev/gpu-index-container-"


def installed(folder: Path) -> Path:
    """A data directory as the earlier release left it."""
    data = folder / "data"
    (data / "cluster").mkdir(parents=True)
    shutil.copy(EARLIER / "cluster.journal", data / "cluster")
    with closing(sqlite3.connect(data / "t9ksched.db")) as database:
        database.executescript((EARLIER / "database.sql").read_text())
    return data


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Up]:
    """Today's program on that directory."""
    up = Up(installed(tmp_path))
    yield up
    up.stop()
    assert "Traceback" not in up.log


def running(up: Up) -> dict[str, Json]:
    """Pods with a place that are not being deleted, by name."""
    return {
        pod["metadata"]["name"]: pod
        for pod in up.pods()
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    }


def places(pods: dict[str, Json]) -> dict[str, tuple[str, str, dict[str, str]]]:
    """UID, node and card indices of each pod, by its name."""
    return {
        name: (
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            {key: value for key, value in pod["metadata"].get("annotations", {}).items() if key.startswith(CARDS)},
        )
        for name, pod in pods.items()
    }


def job(up: Up, reference: str) -> Json:
    """A job as REST shows it."""
    status, answer = up.rest("GET", f"/apis/v1/workloads/default/{reference}")
    return answer if status == 200 else {"phase": None, "reason": None, "members": {}}


def test_what_runs_is_neither_evicted_nor_moved_and_what_waits_goes_on(upgraded: Up) -> None:
    before = places(running(upgraded))  # as the journal has them: the scheduler has decided nothing yet
    assert len(before) == 18

    waiting = until(lambda: job(upgraded, "PyTorchTrainingJob/waiting")["reason"], "the reason of the waiting job")
    assert (waiting["code"], "has 6 of 28 left" in waiting["message"]) == ("QuotaExceeded", True)

    # A job that is submitted now and runs shows that the scheduler has made decisions on everything it found.
    probe = upgraded.cli("submit", "-f", "-", "--queue", "a40", stdin=_POD)
    assert probe.code == 0, probe.err
    until(lambda: job(upgraded, "Pod/probe")["phase"] == "Running", "the probe")
    assert {name: place for name, place in places(running(upgraded)).items() if name != "probe"} == before
    assert str(upgraded.audit()) == "nothing found"
    assert job(upgraded, "PyTorchTrainingJob/paused")["phase"] == "Paused"
    for reference in ("PyTorchTrainingJob/elastic", "MPIJob/mpi", "Notebook/lab", "Job/batch", "PodGroup/hand"):
        assert job(upgraded, reference)["phase"] == "Running", reference

    upgraded.must("cancel", "pj/train", "--yes")
    until(lambda: job(upgraded, "PyTorchTrainingJob/waiting")["members"].get("running") == 4, "the job that waited")
    kept = {name: place for name, place in before.items() if not name.startswith("train-")}
    assert {name: place for name, place in places(running(upgraded)).items() if name in kept} == kept


def test_queues_keep_their_ordering_and_only_new_ones_get_the_default(upgraded: Up) -> None:
    """The earlier release wrote none, neither into the database nor into the objects."""
    path = "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/t9k-system/queues"
    before = {item["metadata"]["name"]: item for item in upgraded.kube("GET", path)[1]["items"]}
    assert sorted(before) == ["a100", "a40", "closed", "default"]
    assert not any("ordering" in item["spec"] for item in before.values())
    until(lambda: job(upgraded, "PyTorchTrainingJob/waiting")["reason"], "a decision")

    upgraded.must("queues", "create", "new", "--quota", "cpu=1")
    listed = json.loads(upgraded.must("queues", "list", "-o", "json"))["items"]
    orderings = {queue["name"]: queue["spec"]["ordering"] for queue in listed}
    assert orderings == dict.fromkeys(before, "BestEffort") | {"new": "Backfill"}

    def projected() -> Json | None:
        status, item = upgraded.kube("GET", f"{path}/new")
        return item if status == 200 else None

    assert until(projected, "its object")["spec"]["ordering"] == "Backfill"
    after = {item["metadata"]["name"]: item for item in upgraded.kube("GET", path)[1]["items"]}
    for name, item in before.items():
        kept = [
            (one["spec"], one["metadata"]["generation"], one["metadata"]["annotations"]) for one in (item, after[name])
        ]
        assert kept[0] == kept[1], name


def test_what_was_accepted_is_replaced_though_its_queue_is_closed(upgraded: Up) -> None:
    """Its acceptance was recorded for each pod, by a release that knew no other."""
    until(lambda: job(upgraded, "PyTorchTrainingJob/waiting")["reason"], "a decision")
    for prefix in ("batch-", "web-"):
        pods = running(upgraded)
        lost = next(pod for name, pod in sorted(pods.items()) if name.startswith(prefix))
        path = f"/api/v1/namespaces/default/pods/{lost['metadata']['name']}"
        assert upgraded.kube("DELETE", path, {"gracePeriodSeconds": 0})[0] == 200

        def whole(prefix: str = prefix, gone: str = lost["metadata"]["uid"]) -> bool:
            found = [pod for name, pod in running(upgraded).items() if name.startswith(prefix)]
            return len(found) == 2 and all(pod["metadata"]["uid"] != gone for pod in found)

        until(whole, f"the replacement of {prefix}…")


_POD = """
apiVersion: v1
kind: Pod
metadata: {name: probe, namespace: default}
spec:
  containers: [{name: main, image: busybox, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}]
"""
