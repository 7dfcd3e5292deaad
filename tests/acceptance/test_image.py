"""The steps of the image, carried out in a folder for want of a builder: what is built runs as nobody, writes nothing.

No builder runs without a registry to take the base from; so the `RUN` lines of the Dockerfile run here, on the files
that a builder is sent, with the system's Python.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.sources import ROOT
from tests.unit.cli.test_image import context, final_stage, instructions

NOBODY: Final = 65532
BASE: Final = os.environ.get("T9KSCHED_TEST_BASE_IMAGE", "")
PYTHON: Final = Path("/usr/bin/python3")
UNPACKED_BYTES: Final = 175_000_000
"""Of the environment, without the base."""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs a process as another user"),
    pytest.mark.skipif(sys.platform != "linux", reason="the image is one of Linux"),
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no Python that everybody may run"),
]


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """What the build leaves in /opt/t9ksched, in a folder that everybody may read."""
    with TemporaryDirectory(prefix="t9ksched-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield _built(folder)


def _built(folder: Path) -> Path:
    source, built = folder / "src", folder / "opt"
    for path in context():
        target = source / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target, follow_symlinks=False)
    tools = Path(sys.executable).parent
    variables = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(built), "UV_SYSTEM_CERTS": "1", "UV_LINK_MODE": "copy"}
    variables |= {"PATH": f"{tools}:{os.environ['PATH']}", "UV_PYTHON": str(PYTHON)}
    for name in ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):
        variables.pop(name, None)
    for word, rest in instructions():
        if word == "RUN" and not rest.startswith("pip install"):
            line = re.sub(r"/opt/t9ksched(?=/)", str(built), rest)
            done = subprocess.run(["sh", "-ec", line], cwd=source, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    return built


def run(environment: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of the image, as nobody, in an empty environment."""
    path = {"PATH": f"{environment}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    return subprocess.run(
        command,
        env=path | variables,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_is_built_runs_as_nobody(environment: Path) -> None:
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < UNPACKED_BYTES, f"{size / 1e6:.0f} MB"
    before = set(environment.rglob("*"))
    version = run(environment, "t9ksched", "--version")
    assert version.stdout.startswith("t9ksched "), version.stderr
    for role, missing in (("scheduler", "secret"), ("api", "secret"), ("controller", "kubeconfig")):
        started = run(environment, "t9ksched", role, T9KSCHED_KUBECONFIG="/nonexistent/config")
        assert started.returncode == 1, started.stderr
        assert "Traceback" not in started.stderr
        assert missing in started.stderr, started.stderr
    assert "kind: Deployment" in run(environment, "t9ksched", "manifests", "--only", "api").stdout
    asked = run(environment, *_health(), T9KSCHED_HEALTH_PORT="9")
    assert (asked.returncode, "does not answer" in asked.stderr) == (1, True), asked.stderr
    assert set(environment.rglob("*")) == before


def test_what_was_taken_out_is_not_missed(environment: Path) -> None:
    """A database with its driver, a cluster by its kubeconfig, and all roles of a whole demonstration."""
    folder = environment.parent / "work"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    kubeconfig = folder / "config"
    users = "users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: 'true'}}}]"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        f"clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:9'}}}}]\n{users}\n"
    )
    looked = run(environment, "t9ksched", "doctor", "--kubeconfig", str(kubeconfig))
    assert "Traceback" not in looked.stderr
    assert looked.returncode == 1, looked.stdout
    played = run(environment, "t9ksched", "demo", HOME=str(folder), TMPDIR=str(folder))
    assert played.returncode == 0, played.stdout + played.stderr
    asked = run(environment, "t9ksched", "db", "current", "--db", "postgresql://a:b@127.0.0.1:9/c")
    assert (asked.returncode, "Traceback" in asked.stderr) == (1, False), asked.stderr


def test_what_a_start_imports_is_compiled(environment: Path) -> None:
    code = (
        "import os, sys, t9ksched.cli.roles\n"
        "kept = [getattr(module, '__cached__', None) or '' for module in [*sys.modules.values()]]\n"
        "print([path for path in kept if 'site-packages' in path and not os.path.exists(path)])"
    )
    assert run(environment, "python", "-c", code).stdout == "[]\n"


def test_the_kernel_is_in_it(environment: Path) -> None:
    code = "from t9ksched.engine.kernel import native; print(native.__file__)"
    folder = Path(run(environment, "python", "-c", code).stdout.strip()).parent
    assert (folder / "_kernel.so").exists()


@pytest.mark.skipif(not (shutil.which("buildah") and BASE), reason="needs buildah, and T9KSCHED_TEST_BASE_IMAGE")
def test_a_builder_builds_it() -> None:
    """With an image in place of python:3.12-slim that has Python, as /usr/local/bin/python, and pip."""
    variables = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def buildah(*arguments: str) -> str:
        return subprocess.run(
            ["buildah", *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
        ).stdout.strip()

    image = "localhost/t9ksched-test:0.1.0"
    build = ("build", "--format", "docker", "--network", "host", "--build-arg", f"PYTHON={BASE}")
    buildah(*build, "-f", "deploy/Dockerfile", "-t", image, ".")
    container = buildah("from", image)
    try:
        assert "t9ksched 0.1.0" in buildah(
            "run", "--user", f"{NOBODY}:{NOBODY}", container, "--", "t9ksched", "--version"
        )
        assert '"Healthcheck"' in buildah("inspect", image)
    finally:
        buildah("rm", container)
        buildah("rmi", image)


def _health() -> list[str]:
    found = dict(final_stage())["HEALTHCHECK"].partition("CMD ")[2]
    return re.findall(r'"([^"]+)"', found)
