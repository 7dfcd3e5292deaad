"""Jobs of other systems from outside: submitted, explained, started whole, paused, ended by limits, over kill -9."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.workloads.podgroups import SYSTEMS
from t9ksched.workloads.registry import KINDS
from tests.acceptance.conftest import Up, queue, until
from tests.integration.scheduler.foreign import definition, jobs_of, kubeflow_pods

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  pytorchReplicaSpecs:
    Master:
      template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""
MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: walk}
spec:
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: main, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}
"""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: sweep}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


class Operator:
    """Plays the controllers of the other systems."""

    def __init__(self, up: Up) -> None:
        self.up = up

    def path(self, kind: str, name: str = "") -> str:
        resource = KINDS[kind].resource
        return resource.path("default", name or None)

    def get(self, kind: str, name: str) -> Json:
        found: Json = self.up.kube("GET", self.path(kind, name))[1]
        return found | {"kind": kind, "apiVersion": KINDS[kind].api_version}

    def train(self, name: str, *, most: int = 99) -> None:
        """The pods of a PyTorchJob, or none of them while it is suspended."""
        job = self.get("PyTorchJob", name)
        there = {pod["metadata"]["name"]: pod for pod in self.pods(name)}
        if (job["spec"].get("runPolicy") or {}).get("suspend"):
            for one in there:
                self.up.kube("DELETE", f"{PODS}/{one}?gracePeriodSeconds=0")
            return
        for pod in kubeflow_pods(job, "pytorchReplicaSpecs")[:most]:
            if pod["metadata"]["name"] not in there:
                assert self.up.kube("POST", PODS, pod)[0] == 201

    def sweep(self, name: str) -> None:
        """The Jobs of a JobSet."""
        for job in jobs_of(self.get("JobSet", name)):
            assert self.up.kube("POST", "/apis/batch/v1/namespaces/default/jobs", job)[0] == 201

    def pods(self, name: str) -> list[Json]:
        return [pod for pod in self.up.pods() if pod["metadata"]["name"].startswith(f"{name}-")]

    def bound(self, name: str) -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in self.pods(name))


def begun(data: Path) -> Up:
    """A service over a cluster that has the kinds since before it started; it is killed once on the way."""
    first = Up(data)
    groups = [system.resource for system in SYSTEMS if system.resource is not None]
    kinds = ("JobSet", "PyTorchJob", "MPIJob.kubeflow.org")
    for resource in (*(KINDS[name].resource for name in kinds), *groups):
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert first.kube("POST", crds, definition(resource))[0] == 201
    assert first.rest("POST", "/apis/v1/admin/queues", queue("a100", 32, "NVIDIA-A100-PCIE-80GB"))[0] == 201
    first.kill()
    return Up(data)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all tests that leave it running."""
    up = begun(tmp_path_factory.mktemp("foreign") / "data")
    yield up
    up.stop()


def phase(up: Up, name: str) -> str:
    items = json.loads(up.must("jobs", "-o", "json"))["items"]
    return str(next((job["phase"] for job in items if job["name"] == name), "none"))


def test_a_life(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    up = begun(tmp_path / "data")
    request.addfinalizer(up.stop)
    operator = Operator(up)
    text = PYTORCH.replace("NAME", "resnet")
    dry = up.must("submit", "-", "--queue", "a100", "--dry-run", stdin=text)
    assert "PyTorchJob/resnet" in dry
    assert "would start at once on a100-0, a100-1, a100-2" in dry
    large = yaml.safe_load(text)
    large["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 4
    told = up.cli("submit", "-", "--queue", "a100", "--dry-run", stdin=yaml.safe_dump(large))
    assert "40" in told.out + told.err  # the whole gang is judged: five times eight cards in a queue of 32
    up.must("submit", "-", "--queue", "a100", stdin=text)
    made = operator.get("PyTorchJob", "resnet")
    assert made["metadata"]["labels"] == {"scheduler.tensorstack.dev/queue": "a100"}
    operator.train("resnet", most=2)
    said = until(lambda: (out := up.must("explain", "pytorchjob/resnet")) and "2 of 3" in out and out, "a reason")
    assert operator.bound("resnet") == 0, said
    operator.train("resnet")
    up.must("wait", "pytorchjob/resnet", "--for", "running")
    assert (operator.bound("resnet"), up.held()) == (3, 24)
    (job,) = [one for one in json.loads(up.must("jobs", "-o", "json"))["items"] if one["name"] == "resnet"]
    assert (job["kind"], job["queue"], job["submitter"], job["members"]["min"]) == ("PyTorchJob", "a100", "admin", 3)
    status, pods = up.rest("GET", "/apis/v1/workloads/default/PyTorchJob/resnet/pods")
    assert (status, [(one["part"], one["rank"]) for one in pods["items"]]) == (
        200,
        [("master", 0), ("worker", 1), ("worker", 2)],
    )
    # Paused by the one field, and resumed.
    up.must("pause", "pytorchjob/resnet", "--yes")
    assert operator.get("PyTorchJob", "resnet")["spec"]["runPolicy"] == {"suspend": True}
    operator.train("resnet")
    until(lambda: up.held() == 0 and phase(up, "resnet") == "Paused", "a paused job")
    up.must("resume", "pytorchjob/resnet")
    operator.train("resnet", most=2)
    # Killed between the first pods and the last one.
    up.kill()
    again = Up(tmp_path / "data")
    try:
        operator = Operator(again)
        assert operator.bound("resnet") == 0
        operator.train("resnet")
        again.must("wait", "pytorchjob/resnet", "--for", "running")
        assert again.held() == 24
        assert again.audit().ok, str(again.audit())
        # A time limit suspends it, and nothing else.
        again.must("update", "pytorchjob/resnet", "--time-limit", "1s", "--yes")
        until(
            lambda: (operator.get("PyTorchJob", "resnet")["spec"].get("runPolicy") or {}).get("suspend") is True,
            "suspension",
        )
        operator.train("resnet")
        until(lambda: again.held() == 0, "free cards")
        assert "time limit" in again.must("explain", "pytorchjob/resnet")
        again.must("cancel", "pytorchjob/resnet", "--yes")
        until(lambda: phase(again, "resnet") == "none", "nothing left")

        def told() -> set[str]:
            page = json.loads(again.must("history", "pytorchjob/resnet", "-o", "json"))
            return {one["event"] for one in page["items"]}

        until(lambda: {"submitted", "job-paused", "job-resumed", "time-limit-exceeded"} <= told(), "its history")
    finally:
        again.stop()


def test_a_jobset_is_one_job(service: Up) -> None:
    up, operator = service, Operator(service)
    up.must("submit", "-", "--queue", "a100", stdin=JOBSET)
    operator.sweep("sweep")
    up.must("wait", "js/sweep", "--for", "running")
    names = [job["name"] for job in json.loads(up.must("jobs", "-o", "json"))["items"]]
    assert names == ["sweep"]
    status, pods = up.rest("GET", "/apis/v1/workloads/default/jobset/sweep/pods")
    assert (status, [one["rank"] for one in pods["items"]]) == (200, [0, 1, 2, 3]), pods
    assert up.audit().ok


def test_a_kind_with_its_group_is_a_kind_everywhere(service: Up) -> None:
    """Two projects have an MPIJob: the other one is named as lists name it, or as kubectl does."""
    up, operator, name = service, Operator(service), "mpijob.kubeflow.org/walk"
    up.must("submit", "-", "--queue", "a100", stdin=MPI)
    jobs = {job["kind"]: job["name"] for job in json.loads(up.must("jobs", "-o", "json"))["items"]}
    assert jobs["MPIJob.kubeflow.org"] == "walk"
    path = "/apis/v1/workloads/default/mpijobs.kubeflow.org/walk"
    for action, body in (("hold", None), ("release", None), ("update", {"timeLimit": "2h"})):
        status, told = up.rest("POST", f"{path}/actions/{action}", body)
        assert status == 200, (action, told)
    for pod in kubeflow_pods(operator.get("MPIJob.kubeflow.org", "walk") | {"kind": "MPIJob"}, "mpiReplicaSpecs"):
        labels = pod["metadata"]["labels"]
        labels["training.kubeflow.org/job-role"] = labels["training.kubeflow.org/replica-type"]
        assert up.kube("POST", PODS, pod)[0] == 201
    up.must("wait", name, "--for", "running")
    assert "Placed (3 of 3" in up.must("explain", name)
    assert "2h" in up.must("explain", name)
    up.must("logs", name)
    for below in ("", "/explanation", "/history", "/pods"):
        assert up.rest("GET", path + below)[0] == 200, below
    up.must("pause", name, "--yes")
    assert operator.get("MPIJob.kubeflow.org", "walk")["spec"]["runPolicy"] == {"suspend": True}
    up.must("cancel", name, "--yes")
    up.must("wait", name, "--for", "deleted")
    assert "submitted" in up.must("history", name)
    status, told = up.rest("GET", "/apis/v1/workloads/default/mpi_job.kubeflow.org/walk")
    assert (status, told["errors"][0]["path"]) == (422, "path.kind")


def test_what_is_wrong_is_told_with_its_path(service: Up) -> None:
    broken = yaml.safe_load(PYTORCH.replace("NAME", "broken"))
    broken["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
    done = service.cli("submit", "-", "--queue", "a100", stdin=yaml.safe_dump(broken))
    assert (done.code, "spec.pytorchReplicaSpecs.Worker.replicas" in done.err) == (1, True), done.err
    none = PYTORCH.replace("NAME", "x").replace("PyTorchJob", "TFJob").replace("pytorchReplicaSpecs", "tfReplicaSpecs")
    done = service.cli("submit", "-", "--queue", "a100", stdin=none)
    assert (done.code, "the cluster has no TFJob" in done.err) == (1, True), done.err
    held = yaml.safe_load(PYTORCH.replace("NAME", "queued"))
    held["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    service.must("submit", "-", "--queue", "a100", stdin=yaml.safe_dump(held))
    done = service.cli("pause", "pytorchjob/queued", "--yes")
    assert (done.code, "of Kueue" in done.err) == (1, True), done.err
    service.must("cancel", "pytorchjob/queued", "--yes")


def named(name: str, way: str) -> Json:
    """A pod that names the group `train` in that way."""
    sig = "pod-group.scheduling.sigs.k8s.io"
    labels, annotations, fields = {
        "scheduling.k8s.io": ({}, {}, {"schedulingGroup": {"podGroupName": "train"}}),
        "workload.scheduling.k8s.io": ({}, {}, {"workloadRef": {"name": "train", "podGroup": "workers"}}),
        "volcano.sh": ({}, {"scheduling.k8s.io/group-name": "train"}, {}),
        "scheduling.x-k8s.io": ({"scheduling.x-k8s.io/pod-group": "train"}, {}, {}),
        "scheduling.sigs.k8s.io": ({f"{sig}/name": "train", f"{sig}/min-available": "2"}, {}, {}),
        "kueue.x-k8s.io": (
            {"kueue.x-k8s.io/pod-group-name": "train"},
            {"kueue.x-k8s.io/pod-group-total-count": "2"},
            {},
        ),
    }[way]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "t9k-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            **fields,
        },
    }


def test_a_group_that_pods_name_is_a_job_by_its_name(service: Up) -> None:
    """Every way's: what the list calls a job, the commands and addresses take."""
    up, ways = service, [system.name for system in SYSTEMS]
    titles = [f"train~workers~{system.name}" if system.entries else f"train~{system.name}" for system in SYSTEMS]
    for number, way in enumerate(ways):
        assert up.kube("POST", PODS, named(f"way{number}-0", way))[0] == 201
    path = "/apis/v1/workloads/default/podgroup"

    def listed() -> set[str]:
        return {job["name"] for job in json.loads(up.must("jobs", "-o", "json"))["items"] if job["kind"] == "PodGroup"}

    until(lambda: listed() >= set(titles), "groups")
    for number, title in enumerate(titles):
        assert "PodGroup/" + title in up.must("explain", f"podgroup/{title}")
        for action, body in (("hold", None), ("release", None), ("update", {"timeLimit": "2h"})):
            status, told = up.rest("POST", f"{path}/{title}/actions/{action}", body)
            assert status == 200, (title, action, told)
        for action in ("pause", "resume", "resubmit"):
            status, told = up.rest("POST", f"{path}/{title}/actions/{action}")
            assert (status, "its pods name" in told["detail"]) == (409, True), (title, action, told)
        status, told = up.rest("GET", f"{path}/{title}/pods")
        assert (status, [one["name"] for one in told["items"]]) == (200, [f"way{number}-0"]), (title, told)
        assert up.rest("GET", f"{path}/{title}/history")[0] == 200
    # One of them from its second pod to its end, by commands.
    one = f"podgroup/{titles[-1]}"
    up.must("hold", one)
    assert up.rest("GET", f"{path}/{titles[-1]}")[1]["held"]
    up.must("release", one)
    assert up.kube("POST", PODS, named("way4-1", ways[-1]))[0] == 201
    up.must("wait", one, "--for", "running")
    up.must("update", one, "--time-limit", "3h", "--yes")
    until(lambda: "3h" in up.must("explain", one), "the limit")
    up.must("logs", one)
    done = up.cli("pause", one, "--yes")
    assert (done.code, "its pods name" in done.err) == (1, True), done.err
    for title in titles:
        up.must("cancel", f"podgroup/{title}", "--yes")
    up.must("wait", one, "--for", "deleted")
    until(lambda: not listed() & set(titles), "nothing left")
    assert up.cli("explain", one).code == 1
    status, told = up.rest("GET", f"{path}/train~nosuch.io")
    assert (status, told["errors"][0]["path"]) == (422, "path.name")
    status, told = up.rest("GET", "/apis/v1/workloads/default/job/train~kueue.x-k8s.io")
    assert (status, told["errors"][0]["path"]) == (422, "path.name")
