"""The cluster comes back as it was earlier, while the database has gone on: nothing is evicted, nothing given twice."""

import shutil
from pathlib import Path

from tests.acceptance.conftest import EXAMPLES, Up, queue, until
from tests.acceptance.test_upgrade import places, running


def submit(up: Up, name: str) -> None:
    text = (EXAMPLES / "pytorch.yaml").read_text().replace("name: resnet", f"name: {name}")
    up.must("submit", "-f", "-", stdin=text)
    up.must("wait", f"pj/{name}", "--for", "running", "--timeout", "100s")


def test_a_cluster_restored_to_an_earlier_moment(tmp_path: Path) -> None:
    data, kept = tmp_path / "data", tmp_path / "kept"
    up = Up(data)
    assert up.rest("POST", "/apis/v1/admin/queues", queue("a100", 32, "NVIDIA-A100-PCIE-80GB"))[0] == 201
    submit(up, "before")
    before = places(running(up))
    up.stop()
    shutil.copytree(data / "cluster", kept)  # as a snapshot of etcd

    up = Up(data)
    submit(up, "later")
    assert len(running(up)) == 8
    up.must("cancel", "pj/before", "--yes")
    until(lambda: len(running(up)) == 4, "the end of what was cancelled")
    up.stop()
    shutil.rmtree(data / "cluster")
    shutil.copytree(kept, data / "cluster")

    up = Up(data)
    try:
        submit(up, "after")
        found = places(running(up))
        assert {name: place for name, place in found.items() if name in before} == before, "what ran goes on"
        assert {name.rpartition("-worker")[0] for name in found} == {"before", "after"}
        assert str(up.audit()) == "nothing found"
        for node in up.rest("GET", "/apis/v1/nodes")[1]["items"]:
            mine = [name for name, place in before.items() if place[1] == node["name"]]
            holders = [{holder["pod"] for holder in card["holders"]} for card in node["gpus"]]
            assert all(len(pods) <= 1 for pods in holders), "a card given twice"
            # The record of what was cancelled since may be gone: then such a node gives no card to anybody.
            held = {pod for pods in holders for pod in pods}
            assert held >= set(mine) or (node["cardsUnknown"], held) == (len(mine), set())

        def listed() -> bool:
            items = up.rest("GET", "/apis/v1/workloads")[1]["items"]
            return {one["name"]: one["phase"] for one in items} == {"before": "Running", "after": "Running"}

        until(listed, "the jobs that there are")
        told = up.must("history", "pj/later")
        assert "later" in told, "what is gone stands in history"
    finally:
        up.stop()
    assert "Traceback" not in up.log
