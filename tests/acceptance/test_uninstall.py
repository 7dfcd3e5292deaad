"""An installation is taken off a cluster: jobs are told, what runs goes on, what waits runs, nothing is left."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import EXAMPLES, Cluster, Up, queue, run, until

Json = dict[str, Any]
AMOUNTS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
POD = {
    "schedulerName": "t9k-scheduler",
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "i", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}],
}
LABELS = {"scheduler.tensorstack.dev/queue": "a100", "app": "x"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}


def waiting(maker: Json) -> Iterator[tuple[str, Json]]:
    """A pod, a Job and a Deployment that wait because the quota is used up, and a pod that another object's operator
    made.
    """
    yield "/api/v1/namespaces/default/pods", {"metadata": {"name": "single", "labels": LABELS}, "spec": POD}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "t", "uid": maker["metadata"]["uid"], "controller": True}
    foreign = {"name": "foreign", "labels": LABELS, "ownerReferences": [owner]}
    yield "/api/v1/namespaces/default/pods", {"metadata": foreign, "spec": POD}
    job = {"metadata": {"name": "batch"}, "spec": {"template": TEMPLATE}}
    yield "/apis/batch/v1/namespaces/default/jobs", job
    deployment = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    deployment["template"] = TEMPLATE | {"spec": POD | {"restartPolicy": "Always"}}
    yield "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": deployment}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_nothing_is_lost_and_nothing_is_left(tmp_path: Path, cluster: Cluster) -> None:
    admin = cluster.kubeconfigs["admin"]
    up = Up(tmp_path / "data", "--kubeconfig", str(admin), admin=admin)
    uninstall = ("uninstall", "--kubeconfig", str(admin), "--save", str(tmp_path / "saved.yaml"), "--yes")
    try:
        assert up.rest("POST", "/apis/v1/admin/queues", queue("a100", 16, "NVIDIA-A100-PCIE-80GB"))[0] == 201
        up.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
        up.must("wait", "pj/resnet", "--for", "running", "--timeout", "150s")
        maker = up.kube("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "t"}})[1]
        for path, body in waiting(maker):
            assert up.kube("POST", path, body)[0] == 201, path
        for one in yaml.safe_load_all((EXAMPLES.parent / "deploy" / "rbac.yaml").read_text()):
            if one["kind"].startswith("ClusterRole"):
                path = f"/apis/rbac.authorization.k8s.io/v1/{one['kind'].lower()}s"
                assert up.kube("POST", path, one)[0] in (201, 409)
        until(lambda: len(up.pods()) >= 8, "all pods")
        until(
            lambda: "batch" in up.must("jobs") and "QuotaExceeded" in up.must("explain", "pod/single"), "their reasons"
        )
        refused = run(*uninstall, "--wait", "0")
        assert (refused.code, "is still at work: t9k-scheduler" in " ".join(refused.err.split())) == (1, True)
    finally:
        up.stop()

    def running() -> dict[str, tuple[str, str]]:
        pods = [pod for pod in up.pods() if pod["spec"].get("nodeName")]
        return {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for pod in pods}

    before, there = running(), {pod["metadata"]["name"] for pod in up.pods()}
    assert len(before) == 4
    tried = run(*uninstall, "--kinds", "--dry-run", "-o", "json").json
    assert {pod["metadata"]["name"] for pod in up.pods()} == there
    steps = {(one["step"], one["kind"], one["name"]) for one in tried["steps"]}
    assert {
        ("hand back", "Pod", "single"),
        ("leave", "Pod", "foreign"),
        ("hand back", "Job", "batch"),
        ("change", "Deployment", "web"),
        ("tell", "Event", "PyTorchTrainingJob/resnet"),
        ("tell", "Event", "Deployment/web"),
        ("release", "PyTorchTrainingJob", "resnet"),
        ("release", "Queue", "a100"),
        ("delete", "CustomResourceDefinition", "queues.scheduler.tensorstack.dev"),
        ("delete", "ClusterRole", "t9k-scheduler"),
        ("delete", "Lease", "t9k-scheduler"),
    } <= steps

    done = run(*uninstall, "--kinds")
    assert done.code == 0, done.err
    assert [one["kind"] for one in yaml.safe_load_all((tmp_path / "saved.yaml").read_text())] == ["Pod", "Job"]

    def placed(prefix: str) -> bool:
        return any(
            pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "default-scheduler"
            for pod in up.pods()
            if pod["metadata"]["name"].startswith(prefix)
        )

    for prefix in ("single", "batch-", "web-"):
        until(lambda prefix=prefix: placed(prefix), f"{prefix} on a node")  # type: ignore[misc]
    after = running()
    assert {name: after.get(name) for name in before} == before, "what ran goes on where it was"
    kept = [pod for pod in up.pods() if pod["metadata"]["name"] in before]
    assert not any(pod["metadata"].get("ownerReferences") for pod in kept)
    assert not any(pod["metadata"].get("finalizers") for pod in kept)
    events = up.kube("GET", "/api/v1/namespaces/default/events")[1]["items"]
    told = {one["involvedObject"]["name"] for one in events if one["reason"] == "SchedulerRemoved"}
    assert told == {"resnet", "single", "t", "batch", "web"}
    definitions = up.kube("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")[1]["items"]
    assert not [one["metadata"]["name"] for one in definitions if "tensorstack.dev" in one["metadata"]["name"]]
    roles = up.kube("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")[1]["items"]
    assert not [one["metadata"]["name"] for one in roles if one["metadata"]["name"].startswith("t9k")]
    again = run(*uninstall, "--dry-run", "-o", "json").json["steps"]
    assert [(one["step"], one["name"]) for one in again] == [("leave", "foreign")]
