"""A user's day and an administrator's, by the commands they would type."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

from t9ksched.api import meters as rest
from t9ksched.controller import meters as controllers
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.scheduler.report import families
from tests.acceptance.conftest import EXAMPLES, Json, Up, until

EXAMPLE_JOBS = [
    ("pytorch.yaml", "pj/resnet", 16),
    ("mpi.yaml", "mj/benchmarks", 8),
    ("notebook.yaml", "nb/lab", 1),
    ("pod.yaml", "pod/nvidia-smi", 1),
    ("podgroup.yaml", "podgroup/simulation", 2),
    ("job.yaml", "job/sweep", 4),
]


@pytest.mark.parametrize(("file", "name", "cards"), EXAMPLE_JOBS)
def test_each_example_from_submission_to_the_end(up: Up, file: str, name: str, cards: int) -> None:
    up.must("submit", "-f", str(EXAMPLES / file))
    running = json.loads(up.must("wait", name, "--for", "running", "--timeout", "150s", "-o", "json"))
    assert running["queue"] in ("a100", "a40")
    assert until(lambda: up.held() == cards, f"{cards} cards")

    def seen() -> Json:
        listed: list[Json] = json.loads(up.must("jobs", "-o", "json"))["items"]
        (job,) = [job for job in listed if (job["kind"], job["name"]) == (running["kind"], running["name"])]
        return job

    assert seen()["gpus"] == cards
    # What its controller says of it and what is seen of its pods may come apart, by some moments.
    assert until(lambda: seen()["members"]["running"] >= seen()["members"]["min"] > 0, "pods that run")
    explained = json.loads(up.must("explain", name, "-o", "json"))
    assert (explained["verdict"], explained["reasons"]) == ("Placed", [])
    assert up.audit().ok, str(up.audit())
    up.must("cancel", name, "--yes")
    up.must("wait", name, "--for", "deleted", "--timeout", "150s")
    assert until(lambda: up.held() == 0, "free cards")


def test_cards_are_given_by_index(up: Up) -> None:
    up.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
    up.must("wait", "pj/resnet", "--for", "running", "--timeout", "150s")
    pods = [pod for pod in up.pods() if pod["metadata"]["name"].startswith("resnet-")]
    given = [
        (pod["spec"]["nodeName"], index)
        for pod in pods
        for index in pod["metadata"]["annotations"][f"{GPU_INDEX_PREFIX}pytorch"].split(",")
    ]
    assert len(given) == len(set(given)) == 16
    table = up.must("nodes")
    assert "default/PyTorchTrainingJob/resnet ×16" in table
    assert table.count("A A A A A A A A") == 2
    up.must("cancel", "pj/resnet", "--yes")
    assert until(lambda: up.held() == 0, "free cards")


def test_a_gang_that_does_not_fit_waits_whole_with_a_reason(up: Up, tmp_path: Path) -> None:
    foreign = _pod("foreign", 4, {"nvidia.com/gpu.product": "NVIDIA-A40-40GB"})
    assert up.kube("POST", "/api/v1/namespaces/default/pods", foreign)[0] == 201
    assert until(lambda: up.held() == 4, "foreign cards charged")
    file = tmp_path / "big.yaml"
    file.write_text((EXAMPLES / "pytorch.yaml").read_text().replace("resnet", "big"))
    up.must("submit", "-f", str(file), "--queue", "a40", "--priority", "7")
    waited = up.cli("wait", "pj/big", "--for", "running", "--timeout", "1s")
    assert waited.code == 1
    assert "InsufficientResources" in waited.err
    assert "explain" in waited.err
    explained = json.loads(up.must("explain", "pytorchtrainingjob/big", "-o", "json"))
    assert explained["verdict"] == "Waiting"
    assert explained["reasons"][0]["code"] == "InsufficientResources"
    assert explained["job"]["members"]["bound"] == 0
    assert explained["job"]["priority"] == 7
    assert up.kube("DELETE", "/api/v1/namespaces/default/pods/foreign")[0] == 200
    up.must("wait", "pj/big", "--for", "running", "--timeout", "150s")
    up.must("cancel", "pj/big", "--yes")
    assert until(lambda: up.held() == 0, "free cards")


def test_a_job_without_a_scheduler_block_is_left_to_the_default_scheduler(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "foreign.json"
    file.write_text(json.dumps(_pod("nobodys", 2, {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-80GB"})))
    assert "default scheduler" in up.must("submit", "-f", str(file))
    assert until(lambda: up.held() == 2, "foreign cards charged")
    (pod,) = [pod for pod in up.pods() if pod["metadata"]["name"] == "nobodys"]
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    queues = json.loads(up.must("queues", "list", "-o", "json"))
    assert not any((queue["status"]["allocated"] or {}).get("nvidia.com/gpu", "0") != "0" for queue in queues["items"])
    up.must("cancel", "pod/nobodys", "--yes")
    assert until(lambda: up.held() == 0, "free cards")


def test_a_dry_run_judges_tells_the_start_and_creates_nothing(up: Up) -> None:
    told = up.must("submit", "--dry-run", "-f", str(EXAMPLES / "pytorch.yaml"))
    assert "would be accepted" in told
    assert "PyTorchTrainingJob/resnet would start at once on a100-" in told
    found = json.loads(up.must("submit", "--dry-run", "-f", str(EXAMPLES / "pytorch.yaml"), "-o", "json"))
    (job,) = found["simulation"]["jobs"]
    assert (job["verdict"], job["start"], found["problems"]) == ("Starts", found["simulation"]["at"], [])
    assert up.rest("GET", "/apis/v1/workloads/default/PyTorchTrainingJob/resnet")[0] == 404


def test_the_life_of_a_queue(up: Up) -> None:
    up.must(
        "queues",
        "create",
        "night",
        "--quota",
        "nvidia.com/gpu=4",
        "--for-namespace",
        "default",
        "--priority",
        "3",
        "--everyone",
        "--for-user",
        "ann",
        "--for-group",
        "ml",
    )
    up.must("queues", "edit", "night", "--quota", "cpu=10", "--priority", "4")
    night = json.loads(up.must("queues", "get", "night", "-o", "json"))
    assert night["members"] == {"everyone": True, "users": ["ann"], "groups": ["ml"], "maxPriority": None}
    assert night["spec"]["quota"]["requests"] == {"cpu": "10", "nvidia.com/gpu": "4"}
    assert night["spec"]["priority"] == 4
    again = up.cli("queues", "create", "night")
    assert (again.code, "AlreadyExists" in again.err) == (1, True)
    up.must("queues", "close", "night")
    refused = up.cli("submit", "-f", str(EXAMPLES / "pod.yaml"), "--queue", "night")
    assert (refused.code, "QueueClosed" in refused.err) == (1, True)
    up.must("queues", "open", "night")
    up.must("queues", "delete", "night", "--yes")
    assert "night" not in up.must("queues", "list")


def test_tokens(up: Up) -> None:
    secret = up.must("token", "create", "alice").strip()
    assert up.cli("queues", "list", "--token", secret).code == 0
    refused = up.cli("queues", "create", "mine", "--token", secret)
    assert (refused.code, "Forbidden" in refused.err) == (1, True)
    assert secret not in up.must("token", "list")
    up.must("token", "revoke", "alice")
    refused = up.cli("queues", "list", "--token", secret)
    assert (refused.code, "Unauthenticated" in refused.err) == (1, True)


def _pod(name: str, gpus: int, selector: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": selector,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
    }


@pytest.mark.parametrize(("accept", "parse"), [("text/plain", text), ("application/openmetrics-text", openmetrics)])
def test_one_page_has_the_metrics_of_all_roles(up: Up, accept: str, parse: Callable[[str], Iterable[Metric]]) -> None:
    headers = {"Authorization": f"Bearer {up.token}", "Accept": accept}
    with urlopen(Request(f"{up.server}/metrics", headers=headers), timeout=60) as answer:
        found = {family.name: family for family in parse(answer.read().decode())}
    every = (*families.FAMILIES, *rest.FAMILIES, *controllers.FAMILIES)
    assert found.keys() == {family.name.removesuffix("_total") for family in every}
    for name in ("t9ksched_leading", "t9ksched_controller_leading"):
        assert [one.value for one in found[name].samples] == [1]
