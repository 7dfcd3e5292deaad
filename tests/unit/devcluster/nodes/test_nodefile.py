"""The nodes file: what becomes of it, and how each fault is told."""

import pytest

from t9ksched.devcluster.nodes.nodefile import parse_nodes
from t9ksched.model.errors import Invalid

CARD_MODE = "scheduler.tensorstack.dev/card-mode"


def only(text: str) -> dict:
    (node,) = parse_nodes(text)
    return node


def test_a_small_entry_becomes_a_whole_node() -> None:
    node = only("nodes: [{name: a, allocatable: {cpu: 8, memory: 32Gi}}]")
    assert node["apiVersion"] == "v1"
    assert node["kind"] == "Node"
    labels = node["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": "a", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    assert node["metadata"]["annotations"] == {CARD_MODE: "honours-index"}
    status = node["status"]
    assert status["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    assert status["capacity"] == status["allocatable"]
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [("Ready", "True")]


def test_count_makes_numbered_nodes_and_each_is_its_own() -> None:
    nodes = parse_nodes("nodes: [{name: a, count: 3, allocatable: {cpu: 1}}, {name: b, allocatable: {cpu: 1}}]")
    assert [node["metadata"]["name"] for node in nodes] == ["a-0", "a-1", "a-2", "b"]
    assert [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes] == ["a-0", "a-1", "a-2", "b"]
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 4
    nodes[0]["status"]["allocatable"]["cpu"] = "0"
    nodes[0]["metadata"]["annotations"]["x"] = "y"
    assert nodes[1]["status"]["allocatable"]["cpu"] == "1"
    assert "x" not in nodes[1]["metadata"]["annotations"]


def test_count_of_one_is_numbered_and_of_zero_is_none() -> None:
    assert [n["metadata"]["name"] for n in parse_nodes("nodes: [{name: a, count: 1, allocatable: {cpu: 1}}]")] == [
        "a-0"
    ]
    assert parse_nodes("nodes: [{name: a, count: 0, allocatable: {cpu: 1}}]") == []
    assert parse_nodes("nodes: []") == []


def test_gpu_feature_discovery_labels() -> None:
    node = only(
        """
        nodes:
        - name: a
          labels: {nvidia.com/gpu.product: NVIDIA-A40-40GB, nvidia.com/gpu.memory: "46068"}
          allocatable: {cpu: 1, nvidia.com/gpu: 4}
        """
    )
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A40-40GB"
    assert labels["nvidia.com/gpu.memory"] == "46068", "the file's own labels win"
    assert labels["nvidia.com/gpu.count"] == "4"
    assert labels["nvidia.com/gpu.replicas"] == "1"
    assert labels["feature.node.kubernetes.io/pci-10de.present"] == "true"


@pytest.mark.parametrize(
    ("product", "memory"),
    [
        ("NVIDIA-A100-PCIE-80GB", "81920"),
        ("NVIDIA-A100-PCIE-40GB", "40960"),
        ("NVIDIA-TITAN-X", "12288"),
        ("NVIDIA-New-Thing", None),
    ],
)
def test_memory_follows_the_product(product: str, memory: str | None) -> None:
    node = only(
        f"nodes: [{{name: a, labels: {{nvidia.com/gpu.product: {product}}}, allocatable: {{nvidia.com/gpu: 1}}}}]"
    )
    assert node["metadata"]["labels"].get("nvidia.com/gpu.memory") == memory


def test_shared_cards_count_by_their_replicas() -> None:
    labels = only(
        'nodes: [{name: a, labels: {nvidia.com/gpu.replicas: "4"}, allocatable: {nvidia.com/gpu.shared: 8}}]'
    )["metadata"]["labels"]
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("2", "4")


def test_no_nvidia_labels_on_other_cards() -> None:
    labels = only("nodes: [{name: a, allocatable: {amd.com/gpu: 2}}]")["metadata"]["labels"]
    assert not [key for key in labels if "nvidia" in key]


@pytest.mark.parametrize(
    ("entry", "mode"),
    [
        ("", "honours-index"),
        ("cardMode: plugin-chooses, ", "plugin-chooses"),
        (f"annotations: {{{CARD_MODE}: plugin-chooses}}, ", "plugin-chooses"),
    ],
)
def test_card_mode(entry: str, mode: str) -> None:
    node = only(f"nodes: [{{name: a, {entry}allocatable: {{cpu: 1}}}}]")
    assert node["metadata"]["annotations"][CARD_MODE] == mode


def test_taints() -> None:
    node = only("nodes: [{name: a, taints: [{key: gpu, value: 'yes', effect: NoSchedule}], allocatable: {cpu: 1}}]")
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]


OK = "allocatable: {cpu: 1}"


@pytest.mark.parametrize(
    ("text", "path", "part"),
    [
        ("[]", "", "mapping"),
        ("", "", "mapping"),
        ("nodes: 3", "nodes", "list"),
        ("{nodes: [], other: 3}", "other", "unknown"),
        ("nodes: [3]", "nodes[0]", "mapping"),
        (f"nodes: [{{{OK}}}]", "nodes[0].name", "required"),
        (f"nodes: [{{name: n, {OK}}}]", "nodes[0].name", 'in quotes ("n" or'),
        (f"nodes: [{{name: y, count: 2, {OK}}}]", "nodes[0].name", 'in quotes ("y" or'),
        (f"nodes: [{{name: 12, {OK}}}]", "nodes[0].name", 'in quotes ("12")'),
        (f"nodes: [{{name: A_b, {OK}}}]", "nodes[0].name", "A_b"),
        (f"nodes: [{{name: {'a' * 58}, {OK}}}]", "nodes[0].name", "57"),
        (f"nodes: [{{name: a, {OK}}}, {{name: a, {OK}}}]", "nodes[1].name", "nodes[0]"),
        (f"nodes: [{{name: a-1, {OK}}}, {{name: a, count: 2, {OK}}}]", "nodes[1].name", "a-1"),
        (f"nodes: [{{name: a, count: -1, {OK}}}]", "nodes[0].count", "-1"),
        (f"nodes: [{{name: a, count: two, {OK}}}]", "nodes[0].count", "two"),
        (f"nodes: [{{name: a, count: true, {OK}}}]", "nodes[0].count", "true is out of range"),
        (f"nodes: [{{name: a, count: 1000000, {OK}}}]", "nodes[0].count", "100,000"),
        (f"nodes: [{{name: a, count: 60000, {OK}}}, {{name: b, count: 60000, {OK}}}]", "nodes[1].count", "100,000"),
        (f"nodes: [{{name: a, gpus: 4, {OK}}}]", "nodes[0].gpus", "unknown"),
        ("nodes: [{name: a}]", "nodes[0].allocatable", "required"),
        ("nodes: [{name: a, allocatable: [cpu]}]", "nodes[0].allocatable", "required"),
        ("nodes: [{name: a, allocatable: {cpu: lots}}]", "nodes[0].allocatable.cpu", "lots"),
        ("nodes: [{name: a, allocatable: {cpu: -1}}]", "nodes[0].allocatable.cpu", "negative"),
        ("nodes: [{name: a, allocatable: {cpu: }}]", "nodes[0].allocatable.cpu", "quantity"),
        ("nodes: [{name: a, allocatable: {nvidia.com/gpu: 1.5}}]", "nodes[0].allocatable[nvidia.com/gpu]", "whole"),
        ("nodes: [{name: a, allocatable: {pods: 0.5}}]", "nodes[0].allocatable.pods", "whole"),
        ("nodes: [{name: a, allocatable: {'a b': 1}}]", "nodes[0].allocatable.a b", "'a b'"),
        (f"nodes: [{{name: a, labels: {{'-x': b}}, {OK}}}]", "nodes[0].labels.-x", "-x"),
        (f"nodes: [{{name: a, labels: {{x: true}}, {OK}}}]", "nodes[0].labels.x", "quotes"),
        (f"nodes: [{{name: a, labels: {{x: 'a b'}}, {OK}}}]", "nodes[0].labels.x", "a b"),
        (f"nodes: [{{name: a, labels: [x], {OK}}}]", "nodes[0].labels", "mapping"),
        (f"nodes: [{{name: a, annotations: {{x: 1}}, {OK}}}]", "nodes[0].annotations.x", "quotes"),
        (f"nodes: [{{name: a, cardMode: magic, {OK}}}]", "nodes[0].cardMode", "plugin-chooses"),
        (f"nodes: [{{name: a, taints: {{}}, {OK}}}]", "nodes[0].taints", "list"),
        (f"nodes: [{{name: a, taints: [x], {OK}}}]", "nodes[0].taints[0]", "mapping"),
        (f"nodes: [{{name: a, taints: [{{effect: NoSchedule}}], {OK}}}]", "nodes[0].taints[0].key", "required"),
        (f"nodes: [{{name: a, taints: [{{key: x, effect: Never}}], {OK}}}]", "nodes[0].taints[0].effect", "NoExecute"),
        (f"nodes: [{{name: a, taints: [{{key: x, efect: y, effect: NoSchedule}}], {OK}}}]", "nodes[0].taints[0].efect",
         "unknown"),
        (f"nodes: [{{name: a, taints: [{{key: x, value: 1, effect: NoSchedule}}], {OK}}}]", "nodes[0].taints[0].value",
         "quotes"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path(text: str, path: str, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_nodes(text)
    (fault,) = caught.value.errors
    assert fault.path == path
    assert part in fault.message


def test_malformed_yaml_is_told_with_its_line() -> None:
    with pytest.raises(Invalid, match="line 3"):
        parse_nodes("nodes:\n- name: a\n  labels: b: c\n")


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        parse_nodes("nodes: [{name: a, count: -1, allocatable: {cpu: x, memory: y}}, {name: B}]")
    assert [fault.path for fault in caught.value.errors] == [
        "nodes[0].count",
        "nodes[0].allocatable.cpu",
        "nodes[0].allocatable.memory",
        "nodes[1].name",
        "nodes[1].allocatable",
    ]
