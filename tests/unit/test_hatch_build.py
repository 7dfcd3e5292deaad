"""The native kernel is compiled where there is a compiler, and nothing fails where there is none."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sources import ROOT, script

BUILD = script("hatch_build.py")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with the source alone; the script thinks that it stands there."""
    (tmp_path / BUILD.FOLDER).mkdir(parents=True)
    for source in (ROOT / BUILD.FOLDER).glob("*.c"):
        shutil.copy(source, tmp_path / BUILD.FOLDER)
    monkeypatch.setattr(BUILD, "__file__", str(tmp_path / "hatch_build.py"))
    monkeypatch.setattr(sys, "argv", ["hatch_build.py"])
    return tmp_path


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(BUILD.importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_only_what_requires_it_fails(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert BUILD.main() == 0
    said = capsys.readouterr().err
    assert "costs only speed" in said
    assert "there is no C compiler" in said
    monkeypatch.setattr(sys, "argv", ["hatch_build.py", "--required"])
    assert BUILD.main() == 1
    assert not (tree / BUILD.LIBRARY).exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/nowhere/cc", "/nowhere/cc cannot be run: No such file or directory"),
        (f"{sys.executable} -c 'raise SystemExit(\"no such target\")'", "failed:\nno such target"),
    ],
)
def test_a_compiler_that_fails_is_told_and_leaves_nothing(
    command: str, why: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", command)
    assert why in BUILD.build(tree)
    assert {path.suffix for path in (tree / BUILD.FOLDER).iterdir()} == {".c"}


@pytest.mark.parametrize("changed", ["kernel.c", "packing.c"])
def test_a_library_is_made_once_for_the_same_sources(
    changed: str, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if BUILD.compiler() is None:
        pytest.skip("there is no C compiler: `make native` installs one")
    assert not BUILD.is_built(tree)
    assert BUILD.main() == 0, capsys.readouterr().err
    assert BUILD.is_built(tree)
    monkeypatch.setattr(BUILD, "build", lambda root: pytest.fail("it is there"))
    assert BUILD.main() == 0
    with (tree / BUILD.FOLDER / changed).open("a") as source:
        source.write("/* changed */\n")
    assert not BUILD.is_built(tree)


@pytest.mark.usefixtures("no_compiler")
def test_the_package_of_a_compiler_is_used_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BUILD.importlib.util, "find_spec", lambda name: name == "ziglang")
    assert BUILD.compiler() == [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]


def test_a_wheel_with_it_is_for_one_platform_and_one_without_it_for_all(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / BUILD.LIBRARY).write_text("of another machine")
    monkeypatch.setenv("CC", "false")
    told: dict[str, Any] = {"artifacts": [], "pure_python": True}
    assert BUILD.ship(tree, "standard", told)
    assert told == {"artifacts": [], "pure_python": True}
    monkeypatch.setattr(BUILD, "build", lambda root: "")
    assert BUILD.ship(tree, "editable", told) == ""
    assert told == {"artifacts": [], "pure_python": True}
    assert BUILD.ship(tree, "standard", told) == ""
    assert told["artifacts"] == ["/t9ksched/engine/kernel/_kernel.so"]
    assert not told["pure_python"]
    assert re.fullmatch("py3-none-[a-z0-9_]+", told["tag"])
