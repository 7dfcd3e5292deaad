"""What the program depends on: each package is imported, none has a listed weakness, a bill of materials names all."""

import ast
import datetime
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.sources import ROOT, statements, trees

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
LIST = tomllib.loads((ROOT / ".ci/advisories.toml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDED = [Requirement(each) for each in [*PROJECT["dependencies"], *EXTRAS["server"]]]
EXTRA = [Requirement(each) for extra in EXTRAS.values() for each in extra]
LOADED_BY_NAME = {
    "aiosqlite": ("t9ksched/store", "sqlite+aiosqlite"),
    "fastapi-offline": ("t9ksched/api", 'files("fastapi_offline")'),
    "psycopg": ("t9ksched/store", "postgresql+psycopg"),
    "tzdata": ("t9ksched/model", "from zoneinfo import"),
}
"""Dependencies without an import, each with a folder and what stands there: SQLAlchemy loads its drivers by the
address, the page /docs is made of files of a package, zoneinfo takes its zones from one where the system has none."""
COME_ALONG = {
    "anyio": "FastAPI's way to threads",
    "starlette": "what FastAPI is made of and hands on",
    "yarl": "the addresses of aiohttp",
}
"""Imported, and no dependency by name: each is in the interface of one that is, which chooses its version."""


def imported() -> set[str]:
    """The top-level modules that the program imports, wherever in a file."""
    found = set()
    for _, tree in trees("t9ksched", "migrations"):
        for node in statements(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_every_dependency_is_imported() -> None:
    providers = packages_distributions()
    used = {canonicalize_name(name) for module in imported() for name in providers.get(module, ())}
    needed = {canonicalize_name(each.name) for each in NEEDED}
    assert needed - used - set(LOADED_BY_NAME) == set(), "nothing imports these: take them out of pyproject.toml"
    assert set(LOADED_BY_NAME) <= needed


def test_what_is_loaded_by_name_is_named() -> None:
    for name, (folder, words) in LOADED_BY_NAME.items():
        assert any(words in path.read_text() for path in (ROOT / folder).rglob("*.py")), name


def test_what_is_imported_is_a_dependency_of_its_own() -> None:
    """Not of another package alone, which may cease to need it. Several packages may have modules of one namespace."""
    providers = packages_distributions()
    used = [{canonicalize_name(name) for name in providers.get(module, ())} for module in imported()]
    needed = {canonicalize_name(each.name) for each in [*NEEDED, *EXTRA]} | {"t9ksched"}
    assert {name for names in used if not names & needed for name in names} == set(COME_ALONG)


def weak(packages: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The locked packages with a weakness that the list knows."""
    for package in packages:
        for name, versions in LIST["affected"].get(package["name"], {}).items():
            if SpecifierSet(versions).contains(package["version"], prereleases=True):
                yield f"{package['name']} {package['version']}: {name} ({versions})"


def just_before(version: str) -> str:
    """A version below one, above all others that are named."""
    parts = [int(part) for part in version.split(".")]
    while not parts[-1]:
        parts.pop()
    return ".".join(map(str, [*parts[:-1], parts[-1] - 1, 9999]))


def test_nothing_that_is_locked_has_a_weakness_that_is_listed() -> None:
    assert list(weak(LOCK)) == []


@pytest.mark.parametrize("package", sorted(LIST["affected"]))
def test_the_list_is_of_packages_that_are_locked_and_finds_what_it_names(package: str) -> None:
    (version, *_) = [each["version"] for each in LOCK if each["name"] == package] or [""]
    assert version, f"{package} is locked no more: take it out of .ci/advisories.toml"
    for name, versions in LIST["affected"][package].items():
        assert re.fullmatch(r"(CVE-\d{4}-\d{4,}|GHSA(-\w{4}){3}|PYSEC-\d{4}-\d+)", name)
        upper = re.search(r"<([\d.]+)$", versions)
        assert upper, f"{name}: name the release that mends it"
        before = just_before(upper[1])
        assert any(name in each for each in weak([{"name": package, "version": before}]))
        assert not list(weak([{"name": package, "version": version}]))


def test_the_list_says_when_it_was_made() -> None:
    assert isinstance(LIST["as_of"], datetime.date)


@pytest.mark.skipif(shutil.which("make") is None or not (ROOT / ".venv/bin/uv").exists(), reason="needs make and uv")
def test_the_bill_of_materials_names_what_is_shipped(tmp_path: Path) -> None:
    target = tmp_path / "sbom.json"
    command = ["make", "--silent", "-o", ".venv/.ready", "sbom", f"SBOM={target}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    bill = json.loads(target.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "t9ksched")
    found = {each["name"]: each for each in bill["components"]}
    assert {canonicalize_name(each.name) for each in NEEDED} <= set(found)
    assert "pytest" not in found, "tools of developers are not shipped"
    locked = {(each["name"], each["version"]) for each in LOCK}
    assert {(each["name"], each["version"]) for each in bill["components"]} <= locked
    assert all(each["purl"].startswith("pkg:pypi/") for each in bill["components"])
