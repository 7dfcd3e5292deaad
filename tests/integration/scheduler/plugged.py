"""Packages with plugins, laid out as an installer leaves them: modules beside a `.dist-info` with entry points."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "plugin"


def install(project: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Put a project's modules and its metadata into a folder on the path; its `[project]` table."""
    table: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())
    meta = table["project"]
    folder = site / f"{meta['name'].replace('-', '_')}-{meta['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {meta['name']}\nVersion: {meta['version']}\n")
    groups = []
    for group, entries in meta["entry-points"].items():
        groups += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(groups) + "\n")
    for module in table["tool"]["setuptools"]["py-modules"]:
        shutil.copy(project / f"{module}.py", site)
    monkeypatch.syspath_prepend(str(site))
    return meta
