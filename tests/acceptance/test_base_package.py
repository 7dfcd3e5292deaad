"""The base package is enough for whoever uses a service; commands that are the service say what to install."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from t9ksched.cli.application import COMMANDS
from t9ksched.cli.main import SERVER_PACKAGES
from tests.acceptance.base_only import ROOT, importable
from tests.acceptance.conftest import EXAMPLES, TIMEOUT_SECONDS, Done, Up, environment, until

SCRIPT = Path(__file__).with_name("base_only.py")
IMPORTED_AS = {
    "fastapi-offline": "fastapi_offline",
    "pydantic-settings": "pydantic_settings",
}


def base(*arguments: str, up: Up | None = None, database: Path | None = None) -> Done:
    """A command, as if the base package were installed alone."""
    variables = environment(up.data_dir if up is not None else None)
    if database is not None:
        variables["T9KSCHED_DB"] = f"sqlite:///{database}"
    command = [sys.executable, str(SCRIPT), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=TIMEOUT_SECONDS, check=False)
    assert "Traceback" not in ended.stderr, ended.stderr
    return Done(ended.returncode, ended.stdout, ended.stderr)


def test_a_day_of_a_user_and_of_an_administrator(up: Up, tmp_path: Path) -> None:
    def must(*arguments: str) -> str:
        done = base(*arguments, up=up)
        assert done.code == 0, (arguments, done.err)
        return done.out

    names = {command.name for command in COMMANDS if not command.foreign}
    listed = must("--help")
    assert names <= set(re.findall(r"[a-z-]+", listed))
    queue = tmp_path / "queues.yaml"
    queue.write_text(must("queues", "get", "a40", "-o", "json"))
    ran = json.loads(
        must("run", "--name", "base", "--image", "i", "--gpus", "1", "--queue", "a40", "-o", "json", "--", "x")
    )
    assert ran["items"][0]["name"] == "base"
    try:
        must("wait", "job/base", "--for", "running", "--timeout", "150s")
        assert "base" in must("jobs")
        assert json.loads(must("explain", "job/base", "-o", "json"))["verdict"] == "Placed"
        assert "would" in must("submit", "-f", str(EXAMPLES / "pytorch.yaml"), "--dry-run")
        for command in (
            ("nodes",),
            ("queues", "list"),
            ("timeline",),
            ("usage",),
            ("reservations", "list"),
            ("token", "list"),
            ("forecast-accuracy",),
            ("update", "job/base", "--time-limit", "4h"),
            ("queues", "edit", "a40", "--priority", "0"),
        ):
            must(*command)
    finally:
        must("cancel", "job/base", "--yes")
    until(lambda: up.held() == 0, "free cards")


@pytest.mark.parametrize(
    "command", [("up",), ("demo",), ("scheduler",), ("controller",), ("api",), ("db", "current"), ("doctor",)]
)
def test_what_is_the_service_says_what_to_install(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = base(*command, database=tmp_path / "x.db")
    assert done.code == 2
    assert "needs the service" in done.err
    assert "pip install 't9ksched[server]'" in done.err


def test_traces_need_the_engine(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.swf"
    trace.write_text("1 0 0 10 4 -1 -1 4 10 -1 1 1 1 1 1 1 -1 -1\n")
    done = base("simulate", "replay", "--jobs", str(trace), "--format", "swf", "--cluster", "2x4")
    assert (done.code, "pip install 't9ksched[server]'" in done.err) == (2, True), done.err


def test_the_extra_is_what_commands_name() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    server = {re.split(r"[\[>=<]", one)[0] for one in extras["server"]}
    assert {IMPORTED_AS.get(one, one) for one in server} == SERVER_PACKAGES
    assert importable() >= {"httpx", "msgspec", "yaml", "rich", "typer", "tzdata"}
    assert importable().isdisjoint({"aiohttp", "kubernetes", "numpy", "sqlalchemy", "fastapi"})
