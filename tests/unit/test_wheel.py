"""The wheel: one package with everything that an installation needs, and nothing of the repository beside it."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from t9ksched.cli.manifests.chart import render
from t9ksched.cli.manifests.overrides import given
from tests.sources import ROOT

MOST_BYTES = 8 << 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, without compiling the kernel anew."""
    builder = WheelBuilder(str(ROOT))
    builder.config.target_config.pop("hooks", None)
    builder.config.build_config.pop("hooks", None)
    (path,) = builder.build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return Path(path)


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def shipped(folder: str) -> Iterator[str]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT / folder).as_posix()


def test_it_has_one_package_and_is_small(wheel: Path, names: list[str]) -> None:
    assert {name.split("/")[0] for name in names} == {"t9ksched", f"{wheel.name.rsplit('-', 3)[0]}.dist-info"}
    assert wheel.stat().st_size < MOST_BYTES
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name or "benchmarks" in name]
    assert not [name for name in names if name.endswith((".pyc", ".env", ".db"))]


def test_it_has_everything(names: list[str]) -> None:
    inside = set(names)
    assert "t9ksched/py.typed" in inside
    for folder, place in (
        ("migrations", "migrations"),
        ("examples", "examples"),
        ("deploy/crds", "chart/crds"),
        ("deploy/foreign", "chart/files/foreign"),
        ("deploy/monitoring/dashboards", "chart/files/monitoring/dashboards"),
        ("deploy/chart/templates", "chart/templates"),
    ):
        missing = [name for name in shipped(folder) if f"t9ksched/{place}/{name}" not in inside]
        assert not missing, folder
    for name in ("rbac.yaml", "admission.yaml", "monitoring/rules.yaml", "monitoring/servicemonitor.yaml"):
        assert f"t9ksched/chart/files/{name}" in inside


def test_it_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        said = message_from_string(archive.read(name).decode())
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert {"server", "notify", "top", "here", "plots"} <= set(said.get_all("Provides-Extra", []))
    assert "Typing :: Typed" in said.get_all("Classifier", [])


def test_manifests_come_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, the program prints what the checkout does."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from t9ksched.cli.main import main; main()"
    command = [sys.executable, "-I", "-c", code, "manifests", "--set", "image.repository=r.example/t"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "---\n".join(part.text for part in render(given((), ["image.repository=r.example/t"])))
