"""`queues apply`: a folder against a service: the diff, what is sent, and what is refused before anything is."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call, Service

ADMIN = "/apis/v1/admin/queues"
DEFAULT = {
    "name": "default",
    "labels": {},
    "spec": {"ordering": "Backfill"},
    "revision": 1,
    "members": {"everyone": True},
}
OLD = {
    "name": "old",
    "labels": {},
    "spec": {"priority": 1, "ordering": "Strict"},
    "revision": 5,
    "members": {"users": ["ann"]},
}


@pytest.fixture
def run(service: Service, call: Call) -> Call:
    service.answers[f"GET {ADMIN}"] = (200, {"items": [DEFAULT, OLD]})
    for asked in (f"POST {ADMIN}", f"PUT {ADMIN}/old", f"PUT {ADMIN}/default"):
        service.answers[asked] = (200, {})
    service.answers[f"DELETE {ADMIN}/old"] = (200, {})

    return call


def sent(service: Service) -> list[tuple[str, str]]:
    return [(method, path) for method, path, _, _ in service.seen if method != "GET"]


def test_creates_changes_and_prunes(run, service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: new\nspec: {priority: 2}\n---\nname: default\nspec: {quota: {requests: {cpu: 1000m}}}\n"
    )
    code, out, _ = run("queues", "apply", "-f", str(tmp_path), "--prune", "--dry-run")
    assert (code, sent(service)) == (0, [])
    assert "nothing was changed" in out
    for line in ("create queue new", "change queue default", "delete queue old", "+  priority: 2", "-  priority: 1"):
        assert line in out, line
    warning = {"path": "reservations.eval", "message": "it is for no job"}
    service.answers[f"DELETE {ADMIN}/old"] = (200, {"warnings": [warning]})
    code, out, err = run("queues", "apply", "-f", str(tmp_path), "--prune")
    assert code == 0
    assert "warning: queue old: reservations.eval: it is for no job" in " ".join(err.split())
    assert sent(service) == [("PUT", f"{ADMIN}/default"), ("POST", ADMIN), ("DELETE", f"{ADMIN}/old")]
    put, _, gone = [one for one in service.seen if one[0] != "GET"]
    assert (put[2]["if-match"], gone[2]["if-match"]) == ('"1"', '"5"')
    assert json.loads(put[3])["spec"] == {"quota": {"requests": {"cpu": "1"}}, "ordering": "Backfill"}


def test_a_queue_as_the_files_say_is_left_alone(run, service: Service, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("name: old\nspec: {priority: 1}\n")
    code, out, _ = run("queues", "apply", "-f", str(tmp_path))
    assert (code, out, sent(service)) == (0, "1 queue is as the file says\n", [])
    (tmp_path / "old.yaml").write_text("name: old\nspec: {priority: 1, ordering: BestEffort}\n")
    out = run("queues", "apply", "-f", str(tmp_path), "--dry-run")[1]
    assert [line.strip() for line in out.splitlines() if "ordering" in line] == [
        "-  ordering: Strict",
        "+  ordering: BestEffort",
    ]
    (tmp_path / "old.yaml").write_text("name: old\nspec: {priority: 1}\nmembers: {users: [bob]}\n")
    assert "+  - bob" in run("queues", "apply", "-f", str(tmp_path), "--dry-run")[1]


def test_what_fails_is_told_and_the_rest_is_done(run, service: Service, tmp_path: Path) -> None:
    service.answers[f"PUT {ADMIN}/old"] = (412, {"code": "PreconditionFailed", "detail": "changed meanwhile"})
    (tmp_path / "q.yaml").write_text("name: old\n---\nname: new\n")
    code, _, err = run("queues", "apply", "-f", str(tmp_path))
    assert (code, sent(service)) == (1, [("POST", ADMIN), ("PUT", f"{ADMIN}/old")])
    assert "old: changed meanwhile" in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("name: q\nspec: {priority: 200}\n", "spec.priority"),
        ("name: Q\n", "name"),
        ("name: q\n---\nname: q\n", "another file too"),
        ("name: q\nsepc: {}\n", "sepc"),
        ("- 1\n", "is no queue"),
        ("a: [", "cannot be read"),
        ("", "holds no queue"),
    ],
)
def test_one_fault_and_nothing_is_changed(run, service: Service, tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "good.yaml").write_text("name: good\n" if content else "")
    (tmp_path / "q.yaml").write_text(content)
    code, _, err = run("queues", "apply", "-f", str(tmp_path))
    assert (code, service.seen) == (1, [])
    assert told in err


def test_members_are_changed_one_by_one(run, service: Service) -> None:
    shape = {"everyone": False, "users": ["ann"], "groups": [], "maxPriority": None}
    service.answers[f"GET {ADMIN}/q/members"] = (200, shape)
    service.answers[f"PUT {ADMIN}/q/members"] = (200, shape | {"users": ["bob"], "maxPriority": 5})
    code, out, _ = run("queues", "members", "q", "--add-user", "bob", "--remove-user", "ann", "--max-priority", "5")
    assert (code, "bob" in out, "5" in out) == (0, True, True)
    assert json.loads(service.seen[-1][3]) == shape | {"users": ["bob"], "maxPriority": 5}
    assert service.seen[-1][2]["if-match"] == '"7"'
    service.seen.clear()
    assert run("queues", "members", "q")[0] == 0
    assert sent(service) == []


def test_stops(run, service: Service) -> None:
    stop = {"what": "scheduling", "until": "2031-01-01T00:00:00Z", "by": "root", "at": "", "why": "switches"}
    service.answers["PUT /apis/v1/admin/stops/scheduling"] = (200, stop)
    code, out, _ = run("stop-scheduling", "--for", "1h", "--why", "switches")
    assert (code, "scheduling is stopped by root until 2031-01-01T00:00:00Z" in out) == (0, True)
    assert json.loads(service.seen[-1][3]) == {"duration": "1h", "why": "switches"}
    service.answers["GET /apis/v1/queues"] = (200, {"items": [], "stopped": [stop]})
    assert "scheduling is stopped" in run("queues", "list")[1]
    service.answers["DELETE /apis/v1/admin/stops/preemption"] = (200, {})
    assert run("stop-scheduling", "--preemption", "--resume")[0] == 0
    assert run("stop-scheduling", "--resume", "--for", "1h")[0] == 2


def test_decisions_about_waiting_jobs(run, service: Service) -> None:
    path = "/apis/v1/workloads/ml/MPIJob"
    control = {"uid": "u", "held": True, "priority": None, "by": "root", "at": ""}
    for name, action in (("a", "hold"), ("b", "hold"), ("a", "release"), ("a", "prioritise")):
        service.answers[f"POST {path}/{name}/actions/{action}"] = (200, control)
    assert run("hold", "mj/a", "mj/b", "-n", "ml")[:2] == (0, "MPIJob/a is held\nMPIJob/b is held\n")
    assert run("release", "mj/a", "-n", "ml")[:2] == (0, "MPIJob/a is released\n")
    code, out, _ = run("prioritise", "mj/a", "-n", "ml", "--priority", "9", "-o", "json")
    assert (code, json.loads(out)["held"], json.loads(service.seen[-1][3])) == (0, True, {"priority": 9})
    assert run("prioritise", "mj/a", "--priority", "101")[0] == 2
    service.answers[f"POST {path}/a/actions/hold"] = (403, {"code": "Forbidden", "detail": "not yours"})
    code, _, err = run("hold", "mj/a", "-n", "ml")
    assert (code, "not yours" in err) == (1, True)


def test_usage(run, service: Service) -> None:
    rows = [{"queue": "a", "model": "A100", "gpuHours": 8.0, "heldHours": 0.5, "jobs": 2}] * 2
    rows = [row | {"idleHours": 3.0, "freeHours": 1.5} for row in rows]
    total = {"gpuHours": 16.0, "heldHours": 1.0, "idleHours": 6.0, "freeHours": 3.0}
    service.answers["GET /apis/v1/usage"] = (200, {"items": rows, "total": total, "by": ["queue", "model"]})
    code, out, _ = run("usage", "--by", "queue,model", "--month", "2031-05")
    assert code == 0
    assert out.splitlines()[-1].split() == ["total", "16.00", "1.00", "6.00", "3.00"]
    assert service.seen[-1][1] == "/apis/v1/usage?by=queue&by=model&month=2031-05"
    assert run("usage", "--by", "queue,model", "--csv")[1].splitlines() == [
        "queue,model,gpuHours,heldHours,jobs,idleHours,freeHours",
        *["a,A100,8.0,0.5,2,3.0,1.5"] * 2,
    ]


@pytest.mark.parametrize("bare", [True, False])
def test_a_list_of_queues_can_be_applied(run, service: Service, tmp_path: Path, bare: bool) -> None:
    queues = [{"name": "old", "spec": {"priority": 1}}, {"name": "new", "spec": {"priority": 2}}]
    file = tmp_path / "all.json"
    file.write_text(json.dumps(queues if bare else {"items": queues, "stopped": []}))
    code, out, _ = run("queues", "apply", "-f", str(file))
    assert code == 0
    assert "create queue new" in out
    assert sent(service) == [("POST", ADMIN)]


def test_a_fault_in_a_list_is_told_with_its_place(run, service: Service, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"items": [{"name": "new"}, {"name": "Bad Name"}], "stopped": []}))
    code, _, err = run("queues", "apply", "-f", str(file))
    assert code == 1
    assert "all.json[1]" in err.replace("\n", "")
    assert sent(service) == []


def test_a_deleted_queue_that_reservations_are_for_is_told(run, service: Service) -> None:
    service.answers[f"GET {ADMIN}/old"] = (200, OLD)
    warning = {"path": "reservations.eval", "message": "it is for no job"}
    service.answers[f"DELETE {ADMIN}/old"] = (200, {"warnings": [warning]})
    code, out, err = run("queues", "delete", "old", "--yes")
    assert (code, out) == (0, "Queue old is deleted\n")
    assert "warning: reservations.eval: it is for no job" in " ".join(err.split())
