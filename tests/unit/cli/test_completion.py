"""Completion in each shell: commands, options, and names that the service has, asked for seldom and never loudly."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t9ksched.cli import names
from t9ksched.cli.completion import script, typed
from tests.unit.cli.conftest import Service

JOBS = [
    {"namespace": "default", "kind": "PyTorchTrainingJob", "name": "resnet"},
    {"namespace": "vision", "kind": "Job", "name": "fit"},
    {"namespace": "default", "kind": "Job", "name": "gone", "deletedAt": "2030-01-01T00:00:00Z"},
]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("T9KSCHED_SERVER", service.url)
    monkeypatch.setenv("T9KSCHED_TOKEN", "secret")
    service.answers["GET /apis/v1/workloads"] = 200, {"items": JOBS}
    service.answers["GET /apis/v1/queues"] = 200, {"items": [{"name": "a100"}, {"name": "default"}]}
    service.answers["GET /apis/v1/nodes"] = 200, {"items": [{"name": "a100-0"}]}


def ask(shell: str, line: str) -> tuple[str, str]:
    """What the program prints for a line that ends where the cursor is; on stdout and stderr."""
    variables = dict(os.environ) | {"_T9KSCHED_COMPLETE": f"complete_{shell}", "COLUMNS": "80"}
    if shell == "bash":
        variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    else:
        variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-m", "t9ksched"], env=variables, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("t9ksched expl", ["explain"]),
        ("t9ksched sub", ["submit"]),
        ("t9ksched explain ", ["pj/resnet"]),
        ("t9ksched explain pj/", ["pj/resnet"]),
        ("t9ksched explain -n vision ", ["job/fit"]),
        ("t9ksched run --queue a", ["a100"]),
        ("t9ksched run --after j", ["job/fit"]),
        ("t9ksched nodes a", ["a100-0"]),
        ("t9ksched jobs -n v", ["vision"]),
        ("t9ksched queues cr", ["create"]),
        ("t9ksched wait pj/resnet --for r", ["running"]),
        ("t9ksched jobs --mi", ["--mine"]),
        ("t9ksched nosuch ", []),
    ],
)
def test_what_is_offered(line: str, offered: list[str]) -> None:
    out, err = ask("bash", line)
    assert (out.split(), err) == (offered, "")


def test_zsh_and_fish_are_told_the_same() -> None:
    assert '"pj/resnet"' in ask("zsh", "t9ksched explain p")[0]
    assert ask("fish", "t9ksched explain p") == ("pj/resnet\n", "")


def test_names_are_asked_for_once_in_a_while_and_kept_when_the_service_is_away(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names.queues({}) == names.queues({}) == ["a100", "default"]
    assert len(service.seen) == 1
    assert service.seen[0][2]["authorization"] == "Bearer secret"
    service.answers.clear()
    later = time.time() + names.FRESH_SECONDS + 1
    monkeypatch.setattr(names.time, "time", lambda: later)
    assert names.queues({}) == ["a100", "default"]
    assert len(service.seen) == 2
    (file,) = names._cache().glob("queues-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert names.queues({"token": "another"}) == []


def test_without_a_service_nothing_is_offered_or_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("T9KSCHED_SERVER", "http://127.0.0.1:9")
    assert ask("bash", "t9ksched explain ") == ("\n", "")
    monkeypatch.delenv("T9KSCHED_SERVER")
    monkeypatch.setenv("T9KSCHED_DATA_DIR", str(tmp_path))
    assert ask("bash", "t9ksched explain ") == ("\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_ask_this_program(shell: str) -> None:
    text = script(shell)
    assert f"_T9KSCHED_COMPLETE=complete_{shell}" in text
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"COMP_WORDS": "t9ksched jobs --m", "COMP_CWORD": "2"}, ["jobs"]),
        ({"COMP_WORDS": "t9ksched", "COMP_CWORD": ""}, []),
        ({"_TYPER_COMPLETE_ARGS": "t9ksched explain"}, []),
        ({"_TYPER_COMPLETE_ARGS": "t9ksched -h explain "}, ["explain"]),
        ({"_TYPER_COMPLETE_ARGS": "t9ksched explain 'a"}, ["explain"]),
    ],
)
def test_words_that_are_typed_whole(environment: dict[str, str], words: list[str]) -> None:
    assert typed(environment) == words
