"""Names that nothing in the cluster has are told, with the most similar one that is there."""

from typing import Any

import pytest

from t9ksched.admission.oddities import Vocabulary, nearest, odd_pods, odd_queue

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
KNOWN = Vocabulary(
    ("cpu", "memory", "pods", GPU, "amd.com/gpu", "rdma/hca"),
    {
        PRODUCT: frozenset({"NVIDIA-A100-PCIE-80GB", "NVIDIA-A40-40GB"}),
        "pool": frozenset({"train"}),
        "kubernetes.io/hostname": None,
    },
    ("default", "large"),
)
NOTHING = Vocabulary()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpu", GPU),
        ("nvidia.com/gpus", GPU),
        ("NVIDIA.com/GPU", GPU),
        ("amd.com/gpus", "amd.com/gpu"),
        ("intel.com/gpu", GPU),
        ("gpus", GPU),
        ("memroy", "memory"),
        ("example.com/fpga", None),
        ("requests.cpu", None),
        ("hygon.com/dcu", None),
        ("nvidia.com/memory", "memory"),
    ],
)
def test_nearest(name: str, found: str | None) -> None:
    assert nearest(name, KNOWN.resources) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA-A100", "NVIDIA-A100-PCIE-80GB"),
        ("nvidia-a100", "NVIDIA-A100-PCIE-80GB"),
        ("NVIDIA-A4", "NVIDIA-A40-40GB"),
        ("NV", None),
        ("Tesla", "Tesla-V100-SXM2-32GB-and-more-of-a-very-long-name"),
    ],
)
def test_a_name_begun_is_nearest_to_what_begins_so(name: str, found: str | None) -> None:
    known = ("NVIDIA-A40-40GB", "NVIDIA-A100-PCIE-80GB", "Tesla-V100-SXM2-32GB-and-more-of-a-very-long-name")
    assert nearest(name, known) == found


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, []),
        ({"quota": {"requests": {GPU: "8", "cpu": "4", "hugepages-2Mi": "1Gi", "ephemeral-storage": "1Gi"}}}, []),
        ({"quota": {"requests": {"gpu": "8"}}}, [("spec.quota.requests.gpu", GPU)]),
        ({"quota": {"requests": {"nvidia.com/gpus": "8"}}}, [("spec.quota.requests[nvidia.com/gpus]", GPU)]),
        ({"nodeSelector": {"matchLabels": {"pool": "train"}}}, []),
        ({"nodeSelector": {"matchLabels": {"pools": "train"}}}, [("spec.nodeSelector", "pool")]),
        ({"nodeSelector": {"matchLabels": {"pool": "trian"}}}, [("spec.nodeSelector", "train")]),
        ({"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "any"}}}, []),
        (
            {
                "nodeSelector": {
                    "matchExpressions": [
                        {"key": PRODUCT, "operator": "In", "values": ["NVIDIA-A40-40GB", "NVIDIA-A400-40GB"]},
                        {"key": "nvidia.com/gpu.products", "operator": "Exists"},
                        {"key": "dedicated", "operator": "DoesNotExist"},
                        {"key": "spare", "operator": "NotIn", "values": ["yes"]},
                    ]
                }
            },
            [("spec.nodeSelector", "NVIDIA-A40-40GB"), ("spec.nodeSelector", PRODUCT)],
        ),
        ({"resourceShapeProfile": "large"}, []),
        ({"resourceShapeProfile": "largo"}, [("spec.resourceShapeProfile", "large")]),
        ({"resourceShapeProfile": "zzz"}, [("spec.resourceShapeProfile", None)]),
    ],
)
def test_of_a_queue(spec: dict[str, Any], told: list[tuple[str, str | None]]) -> None:
    found = odd_queue(spec, KNOWN)
    assert [(one.path, one.nearest) for one in found] == told
    assert all((f"did you mean {one.nearest!r}?" in one.message) == (one.nearest is not None) for one in found)
    assert odd_queue(spec, NOTHING) == [], "where nothing is known, nothing is odd"


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "resources": resources}


TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"containers": [container(limits={GPU: 1, "cpu": 1})]}, []),
        ({"containers": [container()]}, []),
        ({"containers": [container(limits={GPU: 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30})]}, []),
        (
            {"containers": [container(), container(limits={"nvidia.com/gpus": 1}, requests={"nvidia.com/gpus": 1})]},
            [("t.containers[1].resources.limits[nvidia.com/gpus]", GPU)],
        ),
        (
            {"containers": [container()], "initContainers": [container(requests={"rdma/hcas": 1})]},
            [("t.initContainers[0].resources.requests[rdma/hcas]", "rdma/hca")],
        ),
        ({"containers": [], "nodeSelector": {"pool": "train"}}, []),
        ({"containers": [], "nodeSelector": {"pool": "tran"}}, [("t.nodeSelector.pool", "train")]),
        ({"containers": [], "nodeSelector": {"gpu.product": "x"}}, [("t.nodeSelector[gpu.product]", PRODUCT)]),
        (
            {
                "containers": [],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                                {"matchExpressions": [{"key": "pol", "operator": "In", "values": ["train"]}]},
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                            ]
                        }
                    }
                },
            },
            [(f"t.{TERMS}[1].matchExpressions[0]", "pool")],
        ),
    ],
)
def test_of_pods(spec: dict[str, Any], told: list[tuple[str, str | None]]) -> None:
    assert [(one.path, one.nearest) for one in odd_pods(spec, "t", KNOWN)] == told
    assert odd_pods(spec, "t", NOTHING) == []


@pytest.mark.parametrize(
    ("resource", "near"),
    [
        ("example.com/fpga", "silent"),
        ("nvidia.com/gpus", GPU),
        ("nvidia.com/gpu.shared", GPU),
        ("example.com/fpgas", "example.com/fpga"),
        ("zz.io/q", None),
    ],
)
def test_what_quotas_name_may_come_unless_nodes_have_something_alike(resource: str, near: str | None) -> None:
    known = KNOWN.and_quotas(["example.com/fpga", "nvidia.com/gpus"])
    found = odd_pods({"containers": [container(limits={resource: 1})]}, "t", known)
    assert [one.nearest for one in found] == ([] if near == "silent" else [near])
    assert odd_pods({"containers": [container(limits={resource: 1})]}, "t", NOTHING.and_quotas(["x"])) == []
