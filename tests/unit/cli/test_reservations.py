"""`t9ksched reservations`: what is sent for which options, and what people read."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call, Service

PATH = "/apis/v1/admin/reservations"
STATUS = {"phase": "Scheduled", "from": "2090-01-07T20:00:00Z", "to": "2090-01-07T22:00:00Z", "nodes": ["n1", "n2"]}
ONE = {
    "name": "eval",
    "from": STATUS["from"],
    "to": STATUS["to"],
    "every": "weekly",
    "nodes": {"names": ["n1", "n2"]},
    "cards": {"resource": "nvidia.com/gpu", "count": 4},
    "for": {"queues": ["eval"], "users": [], "groups": ["ops"]},
    "note": "weekly evaluation",
    "status": STATUS,
}
TRIAL = {
    "nodes": ["n1"],
    "conflicts": [{"kind": "reservation", "name": "other", "nodes": ["n1"], "until": "2090-01-07T21:00:00Z"}],
    "jobs": [
        {"kind": "job", "name": "ml/Job/j", "nodes": ["n1"], "until": None, "evicted": 0},
        {"kind": "job", "name": "ml/Job/i", "nodes": ["n1"], "until": None, "evicted": 2},
    ],
    "plans": [{"job": "ml/Job/k", "at": "2090-01-07T20:30:00Z"}],
}


@pytest.fixture
def run(service: Service, call: Call) -> Call:
    service.answers[f"GET {PATH}"] = (200, {"items": [ONE]})
    service.answers[f"GET {PATH}/eval"] = (200, ONE)
    service.answers[f"POST {PATH}"] = (201, ONE)
    service.answers[f"PATCH {PATH}/eval"] = (200, ONE)
    service.answers[f"DELETE {PATH}/eval"] = (204, {})

    return partial(call, "reservations")


def sent(service: Service, method: str) -> dict[str, object]:
    (body,) = [body for verb, _, _, body in service.seen if verb == method]
    return dict(json.loads(body))


def test_list_shows_what_is_reserved_for_whom(run) -> None:
    code, out, _ = run("list")
    assert code == 0
    for text in ("eval", "Scheduled", "weekly", "4 nvidia.com/gpu each", "eval, ops"):
        assert text in " ".join(out.split()), text
    assert json.loads(run("get", "eval", "-o", "json")[1]) == ONE
    assert "onConflict" not in run("get", "eval")[1]


def test_create_from_options(run, service: Service) -> None:
    code, out, _ = run(
        *("create", "eval", "--from", "2090-01-07T20:00:00Z", "--to", "2090-01-07T22:00:00Z", "--every", "weekly"),
        *("--node-label", "pool=a100", "--count", "2", "--cards", "nvidia.com/gpu=4", "--for-queue", "eval"),
        *("--for-group", "ops", "--on-conflict", "Preempt", "--force", "--drain-ahead", "2h", "--note", "x"),
    )
    assert (code, out) == (0, "Reservation eval is made: n1, n2 from 2090-01-07T20:00:00Z\n")
    assert sent(service, "POST") == {
        "name": "eval",
        "from": "2090-01-07T20:00:00Z",
        "to": "2090-01-07T22:00:00Z",
        "every": "weekly",
        "nodes": {"selector": {"matchLabels": {"pool": "a100"}}, "count": 2},
        "cards": {"resource": "nvidia.com/gpu", "count": 4},
        "for": {"queues": ["eval"], "groups": ["ops"]},
        "onConflict": "Preempt",
        "force": True,
        "drainAhead": "2h",
        "note": "x",
    }


def test_options_win_over_the_file(run, service: Service, tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("name: eval\nfrom: 2090-01-07T20:00:00Z\nto: soon\nfor: maintenance\nnodes: {names: [n9]}\n")
    assert run("create", "-f", str(file), "--to", "2090-01-07T22:00:00Z", "--node", "n1", "--node", "n2")[0] == 0
    body = sent(service, "POST")
    assert (body["to"], body["nodes"], body["for"]) == (STATUS["to"], {"names": ["n1", "n2"]}, "maintenance")
    assert body["from"] == STATUS["from"], "a time in YAML stays a text"


def test_a_dry_run_tells_what_would_be(run, service: Service) -> None:
    service.answers[f"POST {PATH}"] = (200, TRIAL)
    code, out, _ = run("create", "eval", "--maintenance", "--node", "n1", "--dry-run")
    assert code == 0
    assert "dryRun=true" in service.seen[-1][1]
    assert out.splitlines() == [
        "Nodes: n1",
        "In its way: reservation other on n1 until 2090-01-07T21:00:00Z",
        "Jobs that run on: job ml/Job/j on n1 and nothing ends it",
        "Jobs that run on: job ml/Job/i on n1 and nothing ends it: 2 of its pods are evicted",
        "Moves: ml/Job/k, planned to start at 2090-01-07T20:30:00Z",
    ]


def test_edit_replaces_nodes_and_names_the_revision(run, service: Service) -> None:
    assert run("edit", "eval", "--node-label", "pool=a100", "--count", "3", "--for-user", "ann")[0] == 0
    assert sent(service, "PATCH") == {
        "nodes": {"names": None, "selector": {"matchLabels": {"pool": "a100"}}, "count": 3},
        "for": {"queues": None, "users": ["ann"], "groups": None},
    }
    headers = next(headers for verb, _, headers, _ in service.seen if verb == "PATCH")
    assert headers["if-match"] == '"7"'


def test_delete_asks_and_a_conflict_is_told(run, service: Service) -> None:
    assert run("delete", "eval", "--yes") == (0, "Reservation eval is deleted\n", "")
    service.answers[f"POST {PATH}"] = (409, {"code": "Conflict", "detail": "job j holds n1", "remedy": "take others"})
    code, _, err = run("create", "eval", "--maintenance", "--node", "n1")
    assert code == 1
    assert "job j holds n1" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--maintenance"),
        ("create", "eval", "--node-label", "pool"),
        ("create", "eval", "--maintenance", "--for-queue", "q"),
        ("edit", "eval"),
    ],
)
def test_bad_usage_sends_nothing(run, service: Service, arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2
    assert [verb for verb, *_ in service.seen if verb != "GET"] == []


def test_a_file_that_cannot_be_read_is_told(run, service: Service, tmp_path: Path) -> None:
    for file, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        code, _, err = run("create", "eval", "-f", str(file))
        assert (code, f"cannot be read: {why}" in " ".join(err.split())) == (1, True), err
    assert service.seen == []


def test_what_became_of_occurrences(run, service: Service) -> None:
    last = {"from": STATUS["from"], "to": STATUS["to"], "outcome": "Released", "at": "2090-01-07T20:30:00Z"}
    service.answers[f"GET {PATH}"] = (200, {"items": [ONE | {"status": STATUS | {"last": last}}]})
    assert "Released 2090-01-07T20:30:00Z" in " ".join(run("list")[1].split())
    last |= {"outcome": "Missed", "at": STATUS["to"]}
    assert "Missed 2090-01-07T22:00:00Z" in " ".join(run("list")[1].split())
    detail = {"from": STATUS["from"], "to": STATUS["to"], "message": "reservation eval was missed"}
    events = [
        {
            "id": 1,
            "at": "2090-01-01T00:00:00Z",
            "event": "reservation-created",
            "actor": "root",
            "detail": {"after": {}},
        },
        {"id": 7, "at": STATUS["to"], "event": "reservation-missed", "actor": None, "detail": detail},
    ]
    service.answers[f"GET {PATH}/eval/history"] = (200, {"items": events})
    code, out, _ = run("history", "eval")
    assert code == 0
    for text in ("reservation-missed", STATUS["from"], "reservation eval was missed", "by root"):
        assert text in " ".join(out.split())
    assert json.loads(run("history", "eval", "--event", "reservation-missed", "-o", "json")[1]) == {"items": events}
    assert any("event=reservation-missed" in str(seen) for seen in service.seen)
