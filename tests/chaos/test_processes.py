"""`t9ksched up` killed with SIGKILL in the middle of its work, again and again, on one data directory.

Everything is in that process: cluster, kubelets, scheduler, controllers, REST. What was promised to users before a kill
must be there after it, no card may be held twice, no gang may be left in part.
"""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.acceptance.conftest import Json, Up, queue, until

NODES = """
nodes:
- name: gpu
  count: 2
  labels: {nvidia.com/gpu.product: X}
  allocatable: {cpu: 32, memory: 128Gi, nvidia.com/gpu: 8}
"""
GANGS = "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.tensorstack.dev/v1beta1/namespaces/default/pytorchtrainingjobs"
PODS = "/api/v1/namespaces/default/pods"
SCHEDULER = "scheduler.tensorstack.dev"


def pod(name: str, group: str, cards: int) -> Json:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(cards)}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {f"{SCHEDULER}/group-name": group}},
        "spec": {"schedulerName": "t9k-scheduler", "containers": [container]},
    }


def job(name: str, replicas: int, cards: int) -> Json:
    template = {"spec": {"containers": [pod("x", "x", cards)["spec"]["containers"][0] | {"name": "pytorch"}]}}
    worker = {"type": "worker", "replicas": replicas, "restartPolicy": "Always", "template": template}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": {"scheduler": {"t9kScheduler": {"queue": "q"}}, "replicaSpecs": [worker]},
    }


class KilledService:
    """What users ask for over several runs of a service that is killed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.asked: dict[str, int] = {}
        (folder / "nodes.yaml").write_text(NODES)

    def start(self) -> Up:
        return Up(self.folder / "data", "--nodes", str(self.folder / "nodes.yaml"))

    def disturb(self, up: Up) -> None:
        drop = self.random.choice(("before", "after", ""))
        if drop:
            rule = {"verb": "create", "resource": "pods/binding", "drop": drop, "probability": 0.5, "count": 6}
            assert up.kube("POST", "/_faults", {"seed": self.random.randrange(1000), "rules": [rule]})[0] < 300

    def ask(self, up: Up, number: int) -> None:
        """Submit a gang or a job; only what the cluster answered to counts as accepted."""
        size, cards = self.random.randint(1, 4), self.random.choice((1, 2, 4))
        if self.random.random() < 0.5:
            name = f"j{number}"
            assert up.kube("POST", JOBS, job(name, size, cards))[0] == 201
        else:
            name = f"g{number}"
            spec: dict[str, Any] = {"minMember": size, "queue": "q"}
            group = {"apiVersion": f"{SCHEDULER}/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
            assert up.kube("POST", GANGS, group)[0] == 201
            for index in range(size):
                assert up.kube("POST", PODS, pod(f"{name}-{index}", name, cards))[0] == 201
        self.asked[name] = size

    def settled(self, up: Up) -> bool:
        """Whether every job runs as a whole, or waits as a whole and says why."""
        told = {entry["name"]: entry for entry in json.loads(up.must("jobs", "-o", "json"))["items"]}
        if not self.asked.keys() <= told.keys():
            return False
        for name, size in self.asked.items():
            members, reason = told[name]["members"], told[name]["reason"]
            if members["running"] != size and not (members["bound"] == 0 and reason):
                return False
        return True


@pytest.mark.cluster
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 30))])
def test_a_service_that_is_killed_keeps_what_it_promised(tmp_path: Path, seed: int) -> None:
    service = KilledService(seed, tmp_path)
    for number in range(2):
        up = service.start()
        try:
            if not number:
                assert up.rest("POST", "/apis/v1/admin/queues", queue("q", 12, "X"))[0] == 201
            service.disturb(up)
            for each in range(3):
                service.ask(up, 10 * number + each)
            time.sleep(service.random.random())  # a kill comes at any time: this is the draw, not a wait for something
        finally:
            up.kill()
    up = service.start()
    try:
        until(lambda: service.settled(up), "rest")
        report = up.audit()
        assert report.ok, str(report)
        used = sum(
            int(found["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            for found in up.pods()
            if found["spec"].get("nodeName")
        )
        assert used <= 12
        assert used == up.held()
    finally:
        assert up.stop() == 0


def lone(name: str) -> Json:
    """A pod that is a job of its own."""
    made = pod(name, "", 1)
    return made | {"metadata": {"name": name, "labels": {f"{SCHEDULER}/queue": "q"}}}


@pytest.mark.cluster
@pytest.mark.parametrize("there", [1, 7])
def test_a_submission_that_is_killed_is_there_whole_or_not_at_all(tmp_path: Path, there: int) -> None:
    """When so many of ten objects exist the process is killed; the next one leaves none of them without a submitter."""
    service = KilledService(0, tmp_path)
    names = [f"p{number}" for number in range(10)]
    asked = {"apiVersion": "v1", "kind": "List", "items": [lone(name) for name in names]}
    up = service.start()
    try:
        assert up.rest("POST", "/apis/v1/admin/queues", queue("q", 12, "X"))[0] == 201
        rule = {"verb": "create", "resource": "pods", "latency": 0.1}
        assert up.kube("POST", "/_faults", {"rules": [rule]})[0] < 300

        def submit() -> None:
            with suppress(OSError):
                up.rest("POST", "/apis/v1/workloads", asked)

        submitting = threading.Thread(target=submit)
        submitting.start()
        until(lambda: len(up.pods()) >= there, "some objects")
    finally:
        up.kill()
    submitting.join()
    up = service.start()
    try:

        def settled() -> bool:
            left = {each["metadata"]["name"] for each in up.pods()}
            if left and left != set(names):
                return False
            jobs = [up.rest("GET", f"/apis/v1/workloads/default/Pod/{name}") for name in sorted(left)]
            return all(status == 200 and job["submitter"] == "admin" for status, job in jobs)

        until(settled, "rest")
        expected = 409 if up.pods() else 201
        status, answer = up.rest("POST", "/apis/v1/workloads", asked)
        assert (status, len(up.pods())) == (expected, 10), answer
    finally:
        assert up.stop() == 0
