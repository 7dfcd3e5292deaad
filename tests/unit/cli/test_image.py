"""The image: what goes into it, what it runs as, how large it is, and the question after its health."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from t9ksched.cli import healthcheck
from t9ksched.settings import Settings
from tests.sources import ROOT

BASE_BYTES: Final = 45_000_000
"""python:3.12-slim for amd64, as registries keep it (compressed)."""
MOST_BYTES: Final = 200_000_000
LINUX: Final = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile in their order, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(at for at, (word, _) in enumerate(found) if word == "FROM") :]


def context() -> Iterator[Path]:
    """Files and links that a builder is sent, by the rules of .dockerignore: the last pattern that matches decides."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    for top in sorted(ROOT.iterdir()):
        if any(fnmatch(top.name, pattern.removeprefix("!")) for pattern in patterns if pattern.startswith("!")):
            for path in [top] if top.is_file() else sorted(top.rglob("*")):
                names = path.relative_to(ROOT).parts
                left_out = [pattern.removeprefix("**/") for pattern in patterns if pattern.startswith("**/")]
                if (path.is_file() or path.is_symlink()) and not any(
                    fnmatch(name, pattern) for name in names for pattern in left_out
                ):
                    yield path


def test_a_builder_is_sent_what_the_wheel_is_made_from() -> None:
    sent = list(context())
    tops = {path.relative_to(ROOT).parts[0] for path in sent}
    assert tops == {
        "pyproject.toml",
        "uv.lock",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "t9ksched",
        "migrations",
        "examples",
        "deploy",
    }
    assert sum(path.stat().st_size for path in sent) < 12_000_000
    assert not [path for path in sent if path.suffix in (".pyc", ".so", ".db")]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *(name.split("/")[0] for name in wheel["force-include"])} <= tops


def test_it_runs_as_nobody_and_carries_no_tool_to_build_with() -> None:
    stage = final_stage()
    words = [word for word, _ in stage]
    assert "RUN" not in words
    assert dict(stage)["USER"] == "65532:65532"
    assert [rest for word, rest in stage if word == "COPY"] == ["--from=build /opt/t9ksched /opt/t9ksched"]
    labels = dict(one.split("=", 1) for one in shlex.split(dict(stage)["LABEL"]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert dict(stage)["ARG"] == f"VERSION={project['version']}"
    assert json.loads(dict(stage)["ENTRYPOINT"]) == ["t9ksched"]


def test_its_health_is_asked_as_kubelets_do() -> None:
    command = dict(final_stage())["HEALTHCHECK"].partition("CMD ")[2]
    assert json.loads(command) == ["python", "-m", healthcheck.__name__]
    environment = dict(one.split("=", 1) for one in shlex.split(dict(final_stage())["ENV"]))
    assert Settings.load(health_port=int(environment["T9KSCHED_HEALTH_PORT"])).health_port == 8081


def test_it_is_under_200_megabytes_as_nodes_pull_it() -> None:
    """The wheels that uv.lock names for it, which are compressed as layers are, and the base; it was 101 MB.

    Symbols for debuggers, which the build takes out, count here.
    """
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = {package["name"]: package for package in lock["package"]}
    (synced,) = (rest for word, rest in instructions() if word == "RUN" and "--no-editable" in rest)
    extras = re.findall(r"--extra (\w+)", synced)
    left, seen, size = [("t9ksched", extra) for extra in ("", *extras)], set(), 0
    environment = default_environment() | LINUX
    while left:
        name, extra = left.pop()
        package = packages[name]
        if name not in seen and name != "t9ksched":
            size += _wheel_bytes(package)
        seen.add(name)
        wanted = package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
        for one in wanted:
            marker = Requirement(f"{one['name']}; {one['marker']}").marker if "marker" in one else None
            if marker is None or marker.evaluate(environment):
                left += [(one["name"], inner) for inner in ("", *one.get("extra", ())) if one["name"] not in seen]
    own = sum(path.stat().st_size for path in context()) // 3
    assert {"fastapi", "numpy", "apprise"} <= seen
    assert BASE_BYTES + size + own < MOST_BYTES, f"{(BASE_BYTES + size + own) / 1e6:.0f} MB"


def _wheel_bytes(package: dict[str, Any]) -> int:
    """The largest of its wheels for CPython 3.12 on amd64."""
    fitting = [
        wheel["size"]
        for wheel in package["wheels"]
        if re.search(r"-(cp312-cp312|cp3\d+-abi3|py3-none|py2\.py3-none)-(any|manylinux\w*_x86_64)", wheel["url"])
        or ("manylinux" in wheel["url"] and "x86_64.whl" in wheel["url"] and "-cp312-" in wheel["url"])
    ]
    assert fitting, package["name"]
    return max(fitting)


class Answering(BaseHTTPRequestHandler):
    """Answers as a process that is well, or not."""

    status = 200

    def do_GET(self) -> None:
        assert self.path == "/healthz"
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"said\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(("status", "expected"), [(200, ""), (503, "503: said")])
def test_the_question_after_health(status: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answering, "status", status)
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        settings = Settings.load(health_host="0.0.0.0", health_port=server.server_port)
        assert healthcheck.failing(settings) == expected
        thread.join()
    assert "does not answer" in healthcheck.failing(settings)
    assert "names no port" in healthcheck.failing(Settings.load(health_port=None))


def test_bad_settings_are_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("T9KSCHED_HEALTH_PORT", "many")
    assert healthcheck.main() == 1
    assert "T9KSCHED_HEALTH_PORT" in capsys.readouterr().err
