"""`import`: what is sent for the queues of another scheduler, and that a refusal leaves nothing half done."""

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Call, Service

ADMIN = "/apis/v1/admin/queues"
ORIGIN = {"scheduler.tensorstack.dev/imported-from": "volcano"}
QUEUES = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: dev}
spec: {capability: {cpu: 8}, weight: 3}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: ops}
spec: {capability: {cpu: 4}}
"""
DEV = {
    "name": "dev",
    "labels": {**ORIGIN, "team": "x"},
    "spec": {"ordering": "BestEffort", "quota": {"requests": {"cpu": "2"}}, "maxDuration": "1h", "priority": 0},
    "revision": 5,
    "members": {"everyone": True},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "q.yaml").write_text(QUEUES)
    return tmp_path


@pytest.fixture
def run(service: Service, call: Call) -> Call:
    service.answers[f"GET {ADMIN}"] = (200, {"items": [DEV]})
    service.answers[f"POST {ADMIN}"] = (200, {"name": "ops", "revision": 1})
    service.answers[f"PUT {ADMIN}/dev"] = (200, {"name": "dev", "revision": 6})
    return call


def sent(service: Service) -> list[tuple[str, str]]:
    return [(method, path.partition("?")[0]) for method, path, _, _ in service.seen if method != "GET"]


def test_queues_are_made_and_changed_and_members_stay(run: Call, service: Service, files: Path) -> None:
    code, out, err = run("import", "volcano", "-f", str(files))
    assert (code, sent(service)) == (0, [("PUT", f"{ADMIN}/dev"), ("POST", ADMIN)]), err
    put, post = (json.loads(body) for method, _, _, body in service.seen if method != "GET")
    assert put == {
        "labels": {"team": "x", **ORIGIN},
        "spec": {"ordering": "BestEffort", "quota": {"requests": {"cpu": "8"}}, "maxDuration": "1h", "priority": 0},
    }
    assert (post["name"], post["labels"], "members" in post) == ("ops", ORIGIN, False)
    assert service.seen[1][2]["if-match"] == '"5"'
    assert "1 created, 1 changed, 0 were so already" in out
    assert "spec.weight" in err
    assert "t9ksched queues members ops --everyone" in err


def test_a_second_import_changes_nothing(run: Call, service: Service, files: Path) -> None:
    code, out, _ = run("import", "volcano", "-f", str(files), "--dry-run")
    assert (code, service.seen) == (0, [])
    there = [{**queue, "revision": 1} for queue in yaml.safe_load_all(out)]
    service.answers[f"GET {ADMIN}"] = (200, {"items": there})
    code, out, _ = run("import", "volcano", "-f", str(files), "-o", "json")
    assert (code, sent(service)) == (0, [])
    assert [queue["done"] for queue in json.loads(out)["queues"]] == ["none", "none"]


def test_what_a_dry_run_prints_can_be_applied(run: Call, service: Service, files: Path, tmp_path: Path) -> None:
    code, out, _ = run("import", "volcano", "-f", str(files), "--dry-run", "--rename", "dev=lab", "--skip", "ops")
    assert code == 0
    (tmp_path / "ours.yaml").write_text(out)
    code, out, _ = run("queues", "apply", "-f", str(tmp_path / "ours.yaml"), "--dry-run")
    assert (code, "create queue lab" in out) == (0, True)


def test_a_refusal_takes_back_what_was_done(run: Call, service: Service, files: Path) -> None:
    service.answers[f"POST {ADMIN}"] = (422, {"code": "InvalidField", "detail": "no room for ops"})
    code, _, err = run("import", "volcano", "-f", str(files))
    assert (code, "The queue ops was refused: no room for ops; nothing was changed" in " ".join(err.split())) == (
        1,
        True,
    )
    assert sent(service) == [("PUT", f"{ADMIN}/dev"), ("POST", ADMIN), ("PUT", f"{ADMIN}/dev")]
    _, _, headers, body = service.seen[-1]
    assert (headers["if-match"], json.loads(body)["spec"]) == ('"6"', DEV["spec"])


def test_queues_of_others_are_left_alone(run: Call, service: Service, files: Path) -> None:
    service.answers[f"GET {ADMIN}"] = (200, {"items": [{**DEV, "labels": {}}]})
    code, _, err = run("import", "volcano", "-f", str(files))
    assert (code, sent(service)) == (1, [])
    assert "--rename dev=NAME" in err
    assert run("import", "volcano", "-f", str(files), "--overwrite")[0] == 0
    assert ("PUT", f"{ADMIN}/dev") in sent(service)


@pytest.mark.parametrize(
    ("content", "options", "code", "told"),
    [
        ("kind: [", (), 1, "q.yaml: cannot be read"),
        (QUEUES.replace("v1beta1", "v9"), (), 1, "q.yaml[0]: apiVersion: 'scheduling.volcano.sh/v9' is not known"),
        (QUEUES.replace("ops", "dev"), (), 1, "Queue dev: is in"),
        (QUEUES.replace("ops", "o.ps"), (), 1, "--rename o.ps=NAME"),
        ("kind: Pod\napiVersion: v1\n", (), 1, "has no queues of Volcano"),
        (QUEUES, ("--rename", "nobody=x"), 2, "No queue would have the name nobody"),
        (QUEUES, ("--rename", "dev"), 2, "is not KEY=VALUE"),
        (QUEUES, ("--from-cluster",), 2, "Say where the objects are"),
    ],
)
def test_bad_input_is_told_and_nothing_is_sent(
    run: Call, service: Service, files: Path, content: str, options: tuple[str, ...], code: int, told: str
) -> None:
    (files / "q.yaml").write_text(content)
    found, out, err = run("import", "volcano", "-f", str(files), *options)
    assert (found, out, service.seen) == (code, "", [])
    assert told in " ".join(err.split()), err
