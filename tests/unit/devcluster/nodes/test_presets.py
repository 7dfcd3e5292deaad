"""Clusters by name."""

from collections import Counter
from pathlib import Path

import pytest

from t9ksched.devcluster.nodes.presets import PRESETS, load_nodes
from t9ksched.model.errors import Invalid
from t9ksched.model.node import decode_node, node_facts


def test_demo_is_the_cluster_of_the_manual() -> None:
    nodes = {node["metadata"]["name"]: node for node in load_nodes("demo")}
    assert sorted(nodes) == [*(f"a100-{i}" for i in range(4)), *(f"a40-{i}" for i in range(4)), "cpu-0", "cpu-1"]
    a100, a40, cpu = (nodes[name]["status"]["allocatable"] for name in ("a100-3", "a40-0", "cpu-1"))
    assert (a100["cpu"], a100["memory"], a100["nvidia.com/gpu"], a100["pods"]) == ("96", "1Ti", "8", "110")
    assert (a40["cpu"], a40["memory"], a40["nvidia.com/gpu"]) == ("64", "512Gi", "4")
    assert "nvidia.com/gpu" not in cpu
    products = Counter(node["metadata"]["labels"].get("nvidia.com/gpu.product") for node in nodes.values())
    assert products == {"NVIDIA-A100-PCIE-80GB": 4, "NVIDIA-A40-40GB": 4, None: 2}


@pytest.mark.parametrize(("preset", "count", "cards"), [("small", 1, 2), ("large", 1000, 8)])
def test_uniform_presets(preset: str, count: int, cards: int) -> None:
    nodes = load_nodes(preset)
    assert len({node["metadata"]["name"] for node in nodes}) == count
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {str(cards)}


def test_nodes_of_sharing_divide_cards_in_different_ways() -> None:
    modes = {node["metadata"]["name"]: node_facts(decode_node(node)).mode for node in load_nodes("sharing")}
    assert modes == {"a40-0": "Whole", "mgpu-0": "MGPU", "mig-0": "MIGMixed", "shared-0": "TimeSliced"}


def test_a_path_is_read_as_a_nodes_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("nodes: [{name: a, allocatable: {cpu: 1}}]")
    assert [node["metadata"]["name"] for node in load_nodes(path)] == ["a"]
    assert load_nodes(str(path)) == load_nodes(path)


def test_unknown_names_list_the_presets() -> None:
    with pytest.raises(Invalid) as caught:
        load_nodes("huge")
    for name in ("huge", *PRESETS):
        assert name in str(caught.value)


def test_what_cannot_be_read_is_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        load_nodes(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="cannot be read"):
        load_nodes(binary)
    broken = tmp_path / "broken.yaml"
    broken.write_text("nodes: [")
    with pytest.raises(Invalid, match=r"broken\.yaml.*line 1"):
        load_nodes(broken)
