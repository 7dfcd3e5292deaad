"""Starting, stopping, and starting again after a kill."""

import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import EXAMPLES, Up, queue, run, until


def test_a_kill_loses_nothing_and_disturbs_no_job(tmp_path: Path) -> None:
    first = Up(tmp_path / "data", fresh=True)
    body = queue("a100", 32, "NVIDIA-A100-PCIE-80GB", priority=9)
    try:
        assert first.rest("POST", "/apis/v1/admin/queues", body)[0] == 201
        secret = first.must("token", "create", "ci").strip()
        first.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
        first.must("wait", "pj/resnet", "--for", "running", "--timeout", "150s")
        before = {pod["metadata"]["uid"]: _placed(pod) for pod in first.pods()}
        recorded = json.loads(first.must("jobs", "-o", "json"))["items"]
        assert until(lambda: _on_record(tmp_path / "data", "resnet", "started_at"), "the record of the start")
    finally:
        first.kill()

    second = Up(tmp_path / "data")
    try:
        assert second.token == first.token
        after = json.loads(second.must("queues", "get", "a100", "-o", "json"))
        assert (after["spec"], after["name"]) == (body["spec"] | {"ordering": "Backfill"}, "a100")
        assert second.cli("queues", "list", "--token", secret).code == 0
        assert {pod["metadata"]["uid"]: _placed(pod) for pod in second.pods()} == before
        (job,) = json.loads(second.must("jobs", "-o", "json"))["items"]
        for field in ("uid", "queue", "priority", "submitter", "submittedAt", "startedAt", "phase"):
            assert job[field] == recorded[0][field], field
        second.must("submit", "-f", str(EXAMPLES / "notebook.yaml"))
        second.must("wait", "nb/lab", "--for", "running", "--timeout", "150s")
        assert until(lambda: second.held() == 17, "17 cards")
        assert {uid: place for uid, place in _now(second).items() if uid in before} == before
        assert second.audit().ok, str(second.audit())
    finally:
        assert second.stop() == 0


def test_after_a_kill_a_group_keeps_the_minimum_that_it_began_with(tmp_path: Path) -> None:
    """It was raised while the group ran; three members were accepted, and one was enough to begin."""
    groups = "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/default/podgroups"
    first = Up(tmp_path / "data")
    try:
        meta = {"name": "g", "namespace": "default"}
        body = {"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "PodGroup", "metadata": meta}
        assert first.kube("POST", groups, body | {"spec": {"minMember": 1, "queue": "default"}})[0] == 201
        for index in range(3):
            assert first.kube("POST", "/api/v1/namespaces/default/pods", _member("g", index))[0] == 201
        assert until(lambda: _shown(first)["members"]["running"] == 3, "3 that run")
        assert until(lambda: _raise(first, f"{groups}/g"), "an update without a concurrent one")
        assert until(lambda: _warned(first) == _RAISED, "the warning")
        assert until(
            lambda: _on_record(tmp_path / "data", "g", "began_with") == 1,
            "the record of the minimum that it began with",
        )
    finally:
        first.kill()

    second = Up(tmp_path / "data")
    try:
        assert until(lambda: _warned(second) == _RAISED, "the warning")
        assert second.kube("DELETE", "/api/v1/namespaces/default/pods/g-2")[0] == 200
        assert until(lambda: _shown(second)["members"]["running"] == 2, "2 that run")
        job = _shown(second)
        assert (job["phase"], job["members"]["min"]) == ("Running", 1)
        assert _warned(second) == _RAISED
    finally:
        assert second.stop() == 0


_RAISED = "the PodGroup g asks for 3 members together: it runs since it had 1, and 1 count until it starts again"


def _member(group: str, index: int) -> dict[str, object]:
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    meta = {"name": f"{group}-{index}", "labels": {"scheduler.tensorstack.dev/group-name": group}}
    return {"metadata": meta, "spec": {"schedulerName": "t9k-scheduler", "containers": [container]}}


def _on_record(data: Path, job: str, what: str) -> object:
    """What the database has of the start of a job, which is written a moment after it."""
    with closing(sqlite3.connect(data / "t9ksched.db")) as database:
        found = database.execute(f"SELECT {what} FROM acceptance WHERE name = ?", [job]).fetchone()
    return found[0] if found else None


def _raise(up: Up, group: str) -> bool:
    """Whether the minimum of the group is 3 now."""
    found = up.kube("GET", group)[1]
    return up.kube("PUT", group, found | {"spec": found["spec"] | {"minMember": 3}})[0] == 200


def _shown(up: Up) -> dict[str, dict[str, int]]:
    (job,) = json.loads(up.must("jobs", "-o", "json"))["items"] or [{"members": {"running": 0}}]
    return dict(job)


def _warned(up: Up) -> str:
    status, explained = up.rest("GET", "/apis/v1/workloads/default/PodGroup/g/explanation")
    assert status == 200, explained
    return "; ".join(one["message"] for one in explained["warnings"])


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
