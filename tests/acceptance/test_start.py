"""Starting, stopping, and starting again after a kill."""

import json
import socket
from pathlib import Path

import pytest

from tests.acceptance.conftest import EXAMPLES, Up, queue, run, until


def test_a_kill_loses_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    first = Up(tmp_path / "data", fresh=True)
    body = queue("a100", 32, "NVIDIA-A100-PCIE-80GB", priority=9)
    try:
        assert first.rest("POST", "/apis/v1/admin/queues", body)[0] == 201
        secret = first.must("token", "create", "ci").strip()
        first.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
        first.must("wait", "pj/resnet", "--for", "running", "--timeout", "60s")
        before = {pod["metadata"]["uid"]: _placed(pod) for pod in first.pods()}
        recorded = json.loads(first.must("jobs", "-o", "json"))["items"]
    finally:
        first.kill()

    second = Up(tmp_path / "data")
    try:
        assert second.token == first.token
        after = json.loads(second.must("queues", "get", "a100", "-o", "json"))
        assert (after["spec"], after["name"]) == (body["spec"], "a100")
        assert second.cli("queues", "list", "--token", secret).code == 0
        assert {pod["metadata"]["uid"]: _placed(pod) for pod in second.pods()} == before
        (job,) = json.loads(second.must("jobs", "-o", "json"))["items"]
        for field in ("uid", "queue", "priority", "submitter", "submittedAt", "startedAt", "phase"):
            assert job[field] == recorded[0][field], field
        second.must("submit", "-f", str(EXAMPLES / "notebook.yaml"))
        second.must("wait", "nb/lab", "--for", "running", "--timeout", "60s")
        assert until(lambda: second.held() == 17, "17 cards")
        assert {uid: place for uid, place in _now(second).items() if uid in before} == before
        assert second.audit().ok, str(second.audit())
    finally:
        assert second.stop() == 0


def _now(up: Up) -> dict[str, object]:
    return {pod["metadata"]["uid"]: _placed(pod) for pod in up.pods()}


def _placed(pod: dict[str, dict[str, object]]) -> object:
    """What must not change about a running pod."""
    status = pod["status"]
    return pod["spec"]["nodeName"], pod["metadata"].get("annotations"), status["phase"], status["startTime"]


def test_one_service_a_data_directory_and_a_port(up: Up, tmp_path: Path) -> None:
    again = run("up", "--port", "0", "--data-dir", str(up.data_dir))
    assert again.code == 1
    assert "in use by another t9ksched" in again.err
    port = up.server.rpartition(":")[2]
    taken = run("up", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert taken.code == 1
    assert f"ort {port}" in taken.err
    assert "--port" in taken.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [", "not YAML"),
        ("nodes: [{name: a, allocatable: {cpu: -1}}]", "nodes[0].allocatable.cpu"),
        ("nodes: [{name: a, allocatable: {cpu: 1}, cardMode: best}]", "nodes[0].cardMode"),
        ("nodes: [{name: a, allocatable: {cpu: 1}}, {name: A, gpus: 1}]", "nodes[1].name"),
    ],
)
def test_a_node_file_with_an_error(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    done = run("up", "--port", "0", "--data-dir", str(tmp_path / "data"), "--nodes", str(file))
    assert done.code == 1
    assert said in done.err, done.err


def test_other_starts_that_cannot_work(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for options, said in (
        (("--nodes", "huge"), "neither a preset"),
        (("--db", "mysql://x/y"), "not supported"),
        (("--kubeconfig", str(tmp_path / "none")), "none"),
    ):
        done = run("up", "--port", "0", "--data-dir", data, *options)
        assert (done.code, said in done.err) == (1, True), done.err
    assert run("up", "--port", "high").code == 2


def test_a_port_is_free_again_after_a_stop(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--nodes", "small")
    host, port = up.server.removeprefix("http://").split(":")
    assert up.stop() == 0
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
    done = run("jobs", data_dir=tmp_path / "data")
    assert (done.code, "Nothing answers" in done.err) == (1, True)
