"""Each trouble on a cluster is found, says where it is, and has a remedy."""

from typing import Any

import pytest

from t9ksched.kube.setup.crds import VERSION_LABEL
from t9ksched.kube.setup.doctor import Finding, Level, judge_definitions, judge_nodes, judge_pods, judge_version

GPU = "nvidia.com/gpu"
PCI = {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}
PRODUCT = {"nvidia.com/gpu.product": "A100"}


def node(gpus: int = 0, *, ready: str = "True", cordoned: bool = False, labels: Any = None, **notes: str) -> Any:
    return {
        "metadata": {
            "name": "n",
            "labels": labels or {},
            "annotations": {k.replace("__", "/"): v for k, v in notes.items()},
        },
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": "8", GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    for finding in findings:
        assert finding.subject
        assert bool(finding.remedy) == (finding.level is not Level.OK), "what is not well has a remedy"
    return [(str(finding.level), finding.message) for finding in findings]


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (node(8, labels=PCI | PRODUCT), "ok", "1 nodes offer 8 cards"),
        (node(0, labels=PCI), "warning", "offers no nvidia.com/gpu"),
        (node(0, labels={"feature.node.kubernetes.io/pci-10de.present": "true"}), "warning", "offers no"),
        (node(0, labels={"feature.node.kubernetes.io/pci-8086.present": "true"}), "warning", "no node offers cards"),
        (node(8), "note", "no label nvidia.com/gpu.product"),
        (node(65, labels=PRODUCT), "note", "offers 65 of nvidia.com/gpu: of more than 64 cards none has an index"),
        (node(8, labels=PRODUCT, ready="Unknown"), "warning", "is not ready"),
        (node(8, labels=PRODUCT, cordoned=True), "note", "is cordoned"),
        (node(8, labels=PRODUCT, **{"hami.io__node-nvidia-register": "[]"}), "warning", "HAMi"),
    ],
)
def test_nodes(given: Any, level: str, words: str) -> None:
    assert any(found == level and words in message for found, message in told(judge_nodes([given])))


def test_a_healthy_node_has_no_other_finding() -> None:
    assert told(judge_nodes([node(8, labels=PCI | PRODUCT)])) == [("ok", "1 nodes offer 8 cards")]


def pod(scheduler: str, gpus: int, at: str = "n", phase: str = "Running") -> Any:
    container = {"name": "c", "resources": {"limits": {GPU: gpus} if gpus else {}}}
    spec = {"schedulerName": scheduler, "nodeName": at, "containers": [container]}
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "level", "words"),
    [
        ([pod("t9k-scheduler", 8), pod("default-scheduler", 0)], "ok", "no other scheduler"),
        ([pod("volcano", 4), pod("volcano", 2, at="m")], "warning", "2 pods with 6 cards on 2 of the nodes"),
        ([pod("default-scheduler", 1, at="")], "warning", "1 pod with 1 cards that wait"),
        ([pod("volcano", 4, phase="Succeeded")], "ok", "no other scheduler"),
        ([{"metadata": {}, "spec": 7}], "ok", "no other scheduler"),
    ],
)
def test_who_else_places_cards(pods: list[Any], level: str, words: str) -> None:
    ((found, message),) = told(judge_pods(pods))
    assert found == level
    assert words in message


def kind(name: str, version: str) -> Any:
    return {"metadata": {"name": name, "labels": {VERSION_LABEL: version}}}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("0.2.0", [("ok", "are installed and current")]),
        ("0.10.0", [("ok", "are installed and current")]),
        ("0.1.9", [("warning", "is of release 0.1.9, this is 0.2.0")]),
        ("", [("warning", "names no release, this is 0.2.0")]),
    ],
)
def test_kinds_by_release(there: str, expected: list[tuple[str, str]]) -> None:
    name = "queues.scheduler.tensorstack.dev"
    assert told(judge_definitions([kind(name, "0.2.0")], {name: kind(name, there)})) == expected


def test_missing_kinds_block_only_where_nothing_goes_without_them() -> None:
    wanted = [kind("queues.scheduler.tensorstack.dev", "1"), kind("tensorboards.tensorstack.dev", "1")]
    assert [level for level, _ in told(judge_definitions(wanted, {}))] == ["blocks", "warning"]


@pytest.mark.parametrize(("version", "level"), [("v1.36.1", "ok"), ("v1.27.16-eks-1", "warning"), ("", "ok")])
def test_versions(version: str, level: str) -> None:
    assert told([judge_version({"gitVersion": version})])[0][0] == level
