"""The program as a whole: exit codes, what goes to which stream, and that help needs none of the heavy libraries."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from t9ksched.cli.main import main
from tests.unit.cli.conftest import Service

ODD = {"path": "spec.x", "message": "is odd", "nearest": None}


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["t9ksched", *arguments])
    try:
        main()
    except SystemExit as exit:
        return int(exit.code or 0)
    return 0


def test_a_list_as_json_and_as_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    queue = {
        "name": "a100",
        "labels": {},
        "spec": {"priority": 10, "quota": {"requests": {"nvidia.com/gpu": "32"}}},
        "status": {"allocated": {"nvidia.com/gpu": "16"}, "pods": {"running": 4}, "podGroups": {"total": 1}},
    }
    stop = {"what": "preemption", "by": "ann", "since": "2026-01-01T00:00:00Z", "until": None, "why": ""}
    document = {"items": [queue], "stopped": [stop]}
    service.answers["GET /apis/v1/queues"] = service.answers["GET /apis/v1/workloads"] = (200, document)
    where = ("--server", service.url, "--token", "t")
    assert _run(monkeypatch, "queues", "list", "-o", "json", *where) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert _run(monkeypatch, "jobs", "-o", "json", *where) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert _run(monkeypatch, "queues", "list", *where) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["QUEUE", "PRIORITY", "STATE", "HELD", "OF", "QUOTA", "PODS", "GROUPS"]
    assert table[1].split() == ["a100", "10", "open", "nvidia.com/gpu", "16/32", "4", "1"]


def test_a_refusal_is_said_on_stderr_with_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    service.answers["GET /apis/v1/nodes"] = (401, {"code": "Unauthenticated", "detail": "This token is not known."})
    assert _run(monkeypatch, "nodes", "--server", service.url, "--token", "wrong") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error Unauthenticated: This token is not known." in err
    assert "--token" in err


@pytest.mark.parametrize(
    "arguments",
    [("bogus",), ("jobs", "--bogus"), ("explain", "no-slash"), ("jobs", "--server", "nowhere"), ("up", "--port", "-1")],
)
def test_bad_usage_is_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("T9KSCHED_TOKEN", "t")
    assert _run(monkeypatch, *arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_we_did_not_foresee_is_no_traceback_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    service.answers["GET /apis/v1/nodes"] = (200, {"unexpected": 1})
    assert _run(monkeypatch, "nodes", "--server", service.url, "--token", "t") == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "T9KSCHED_DEBUG" in err


def test_submit_sends_each_file_whole_and_goes_on_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service, tmp_path: Path
) -> None:
    service.answers["POST /apis/v1/workloads"] = (
        201,
        {"items": [{"kind": "MPIJob", "name": "w", "namespace": "n", "queue": "q"}], "warnings": [ODD]},
    )
    file = tmp_path / "group.yaml"
    file.write_text("kind: PodGroup\n---\nkind: Pod\n")
    where = ("--server", service.url, "--token", "t", "--queue", "q")
    assert _run(monkeypatch, "submit", "-f", str(tmp_path / "missing.yaml"), "-f", str(file), *where) == 1
    out, err = capsys.readouterr()
    assert out == "MPIJob/w submitted to queue q (namespace n)\n"
    assert "missing.yaml: it cannot be read: No such file or directory" in err
    assert f"warning: {file}: spec.x: is odd" in err
    ((_, path, headers, body),) = service.seen
    assert (path, headers["content-type"], body) == (
        "/apis/v1/workloads?queue=q",
        "application/yaml",
        file.read_bytes(),
    )


def test_submit_says_when_another_scheduler_will_place_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service, tmp_path: Path
) -> None:
    job = {"kind": "Job", "name": "w", "namespace": "n", "queue": None}
    service.answers["POST /apis/v1/workloads"] = (201, {"items": [job, job], "warnings": []})
    file = tmp_path / "jobs.yaml"
    file.write_text("kind: Job\n")
    assert _run(monkeypatch, "submit", "-f", str(file), "--server", service.url, "--token", "t", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"items": [job, job], "warnings": [], "problems": []}
    assert _run(monkeypatch, "submit", "-f", str(file), "--server", service.url, "--token", "t") == 0
    assert capsys.readouterr().out.count("the cluster's default scheduler will place it") == 2


def test_a_refused_submission_as_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service, tmp_path: Path
) -> None:
    problem = {"code": "OverQuota", "detail": "too large", "errors": [{"path": "spec.x", "message": "has 9"}]}
    service.answers["POST /apis/v1/workloads"] = (422, problem)
    file = tmp_path / "job.yaml"
    file.write_text("kind: Job\n")
    where = ("--server", service.url, "--token", "t", "-o", "json")
    assert _run(monkeypatch, "submit", "-f", str(file), "-f", str(tmp_path / "missing"), *where) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (err, told["items"], told["warnings"]) == ("", [], [])
    assert [(one["file"], one["code"], one["message"]) for one in told["problems"]] == [
        (str(file), "OverQuota", "too large"),
        (str(tmp_path / "missing"), "", "it cannot be read: No such file or directory"),
    ]
    assert told["problems"][0]["details"] == ["spec.x: has 9"]


def test_edit_sends_the_version_it_read(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    service.answers["GET /apis/v1/admin/queues/q"] = (
        200,
        {"name": "q", "labels": {"a": "b"}, "spec": {"closed": True}},
    )
    service.answers["PUT /apis/v1/admin/queues/q"] = (200, {"name": "q"})
    arguments = ("queues", "edit", "q", "--priority", "7", "--server", service.url, "--token", "t")
    assert _run(monkeypatch, *arguments) == 0
    _, _, headers, body = service.seen[-1]
    assert headers["if-match"] == '"7"'
    assert json.loads(body) == {"name": "q", "labels": {"a": "b"}, "spec": {"closed": True, "priority": 7}}


def test_cancel_asks_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Service
) -> None:
    path = "/apis/v1/workloads/default/MPIJob/walk"
    service.answers |= {f"GET {path}": (200, {}), f"DELETE {path}": (202, {})}
    where = ("--server", service.url, "--token", "t")
    assert _run(monkeypatch, "cancel", "mj/walk", *where) == 2
    assert "--yes" in capsys.readouterr().err
    assert [method for method, *_ in service.seen] == ["GET"]
    assert _run(monkeypatch, "cancel", "mj/walk", "--yes", *where) == 0
    assert service.seen[-1][:2] == ("DELETE", path)


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys, t9ksched.cli.application as a; a.application();"
        "print([n for n in ('sqlalchemy','fastapi','kubernetes','numpy','aiohttp','pydantic') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_interrupt_before_a_service_began_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("t9ksched.cli.application.application", interrupted)
    assert _run(monkeypatch, "up") == 130
    assert capsys.readouterr().err == ""
