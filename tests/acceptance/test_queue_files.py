"""Queues as files, and names that are misspelt: by command, from outside."""

import json
from pathlib import Path

from tests.acceptance.conftest import EXAMPLES, Up, until


def test_what_get_prints_can_be_applied(up: Up, tmp_path: Path) -> None:
    up.must("queues", "create", "round", "--quota", "cpu=2000m", "--priority", "0", "--for-user", "ann")
    try:
        for output in ("table", "json"):
            file = tmp_path / f"{output}.yaml"
            file.write_text(up.must("queues", "get", "round", "-o", output))
            assert up.must("queues", "apply", "-f", str(file)) == "1 queue is as the file says\n"
        listed = tmp_path / "all.json"
        listed.write_text(up.must("queues", "list", "-o", "json"))
        assert set(json.loads(listed.read_text())) == {"items", "stopped", "continue"}
        assert "as the file" in up.must("queues", "apply", "-f", str(listed))
        file = tmp_path / "spelt.yaml"
        file.write_text(
            "name: round\nspec: {closed: false, preemptible: true, overQuota: Wait, maxDuration: '',"
            " quota: {requests: {cpu: 2}}, ordering: Backfill}\n"
        )
        assert "as the file" in up.must("queues", "apply", "-f", str(file)), "defaults are no change"
        file.write_text("name: round\nspec: {closed: false, quota: {requests: {cpu: 2}}, priority: 7}\n")
        told = up.must("queues", "apply", "-f", str(file), "--dry-run")
        changed = [line.strip() for line in told.splitlines() if line.strip().startswith(("+", "-"))]
        assert [line for line in changed if "spec:" not in line] == ["+  priority: 7"], told
    finally:
        up.must("queues", "delete", "round", "--yes")


def test_misspelt_names_are_told_on_stderr(up: Up, tmp_path: Path) -> None:
    made = up.cli("queues", "create", "misspelt", "--quota", "gpu=8", "--node-label", "nvidia.com/gpu.prodct=x")
    try:
        assert made.code == 0, made.err
        assert made.out == "Queue misspelt is made\n"
        assert (
            "warning: spec.quota.requests.gpu: no node has the resource 'gpu'; did you mean 'nvidia.com/gpu'?"
            in made.err
        )
        assert "did you mean 'nvidia.com/gpu.product'?" in made.err
        edited = up.cli("queues", "edit", "misspelt", "--quota", "gpu=9", "-o", "json")
        assert (edited.err, [one["nearest"] for one in json.loads(edited.out)["warnings"]][:1]) == (
            "",
            ["nvidia.com/gpu"],
        )
        file = tmp_path / "q.yaml"
        file.write_text("name: misspelt\nspec: {resourceShapeProfile: huge}\n")
        applied = up.cli("queues", "apply", "-f", str(file))
        assert (applied.code, "there is no resource shape profile 'huge'" in applied.err) == (0, True), applied.err
    finally:
        up.must("queues", "delete", "misspelt", "--yes")
    job = (EXAMPLES / "pytorch.yaml").read_text().replace("nvidia.com/gpu:", "nvidia.com/gpus:")
    assert "nvidia.com/gpus:" in job
    tried = up.cli("submit", "--dry-run", "-f", "-", stdin=job)
    assert (tried.code, "did you mean 'nvidia.com/gpu'?" in tried.err) == (0, True), tried.err


def test_names_that_are_not_there(up: Up) -> None:
    none = up.cli("jobs", "--queue", "nosuch")
    assert (none.code, none.out, "there is no queue 'nosuch'" in none.err) == (1, "", True)
    assert "No jobs in queue a100." in up.must("jobs", "--queue", "a100")
    up.must("submit", "-f", str(EXAMPLES / "pod.yaml"))
    until(lambda: up.held() > 0, "its cards")
    try:
        refused = up.cli("cancel", "pod/nvidia-smi", "ptj/nosuch", "mj/neither", "--yes")
        assert (refused.code, "Nothing was cancelled" in refused.err) == (1, True)
        assert "PyTorchTrainingJob/nosuch" in refused.err
        assert "MPIJob/neither" in refused.err
        assert "Pod/nvidia-smi" not in refused.err
        assert any(pod["metadata"]["name"] == "nvidia-smi" for pod in up.pods())
    finally:
        up.must("cancel", "pod/nvidia-smi", "--yes")
        until(lambda: up.held() == 0, "free cards")
