"""Cards that are linked, and the scorer `cards`, with `t9ksched up`: what a user sees of them."""

import json
from pathlib import Path

from tests.acceptance.conftest import EXAMPLES, Up, until

HALVES = [["X" if a == b else "NV12" if a // 4 == b // 4 else "SYS" for b in range(8)] for a in range(8)]
NODES = {
    "nodes": [
        {
            "name": name,
            "labels": {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory},
            "annotations": {"scheduler.tensorstack.dev/gpu-links": json.dumps(links)},
            "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"},
        }
        for name, product, memory, links in (
            ("a", "NVIDIA-A100-PCIE-80GB", "81920", HALVES),
            ("b", "NVIDIA-A40-40GB", "46068", HALVES),
            ("c", "NVIDIA-A40-40GB", "46068", [["X", "NV12"], ["NV12"]]),
        )
    ]
}
CONF = """actions: allocate
tiers:
- plugins: [{name: basic}, {name: resource}, {name: affinity}, {name: predicates}, {name: cards%s}]
"""


def job(folder: Path, name: str) -> Path:
    """A job of one pod with four cards."""
    file = folder / f"{name}.yaml"
    file.write_text(
        (EXAMPLES / "pytorch.yaml").read_text().replace("resnet", name).replace("replicas: 4", "replicas: 1")
    )
    return file


def node_of(up: Up, name: str) -> str:
    (pod,) = [pod for pod in up.pods() if pod["metadata"]["name"].startswith(name)]
    return str(pod["spec"]["nodeName"])


def test_cards_are_chosen_by_model_and_links_and_told(tmp_path: Path) -> None:
    nodes, conf = tmp_path / "nodes.yaml", tmp_path / "scheduler.conf"
    nodes.write_text(json.dumps(NODES))
    conf.write_text(CONF % "")
    up = Up(tmp_path / "data", "--nodes", str(nodes), "--scheduler-conf", str(conf))
    try:
        up.must("submit", "-f", str(job(tmp_path, "first")), "--queue", "default")
        up.must("wait", "pj/first", "--for", "running", "--timeout", "150s")
        assert node_of(up, "first") == "b", "the smaller card will do"
        lines = up.must("explain", "pj/first").splitlines()
        assert "first-worker-0 on b: cards 0,1,2,3 linked NV12" in lines
        told = " ".join(up.must("nodes", "c").split())
        assert "Links between cards not followed: scheduler.tensorstack.dev/gpu-links is not square" in told
        conf.write_text(CONF % ", arguments: {strategy: Best}")
        until(lambda: "'Best' is unknown: use Usable, FirstFit, BestFit, Spread" in up.log, "a refusal")
        up.must("submit", "-f", str(job(tmp_path, "second")), "--queue", "default")
        up.must("wait", "pj/second", "--for", "running", "--timeout", "150s")
        assert node_of(up, "second") == "b", "the last good one stays, and what is begun is filled"
        conf.write_text(CONF % ", arguments: {strategy: FirstFit, models: 0}")
        until(lambda: up.log.count("configuration in force") >= 2, "another policy")
        up.must("submit", "-f", str(job(tmp_path, "third")), "--queue", "default")
        up.must("wait", "pj/third", "--for", "running", "--timeout", "150s")
        assert node_of(up, "third") == "a"
    finally:
        assert up.stop() == 0
