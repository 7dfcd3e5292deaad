"""Runs a command as if the base package were installed alone: whatever it does not require cannot be imported.

python tests/acceptance/base_only.py COMMAND…
"""

import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def needed(requirements: Iterable[str]) -> set[str]:
    """The distributions that requirements lead to."""
    found: set[str] = set()
    left = [Requirement(one) for one in requirements]
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        left += [Requirement(text) for text in requires(name) or ()]
    return found


def importable() -> set[str]:
    """The packages that the base package requires, as they are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distributions = needed(project["dependencies"])
    by_import = packages_distributions()
    return {name for name, dists in by_import.items() if {canonicalize_name(one) for one in dists} & distributions}


class Absent(MetaPathFinder):
    """Finds nothing, and lets nobody else find it."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = {*allowed, "t9ksched", *sys.stdlib_module_names}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first = fullname.partition(".")[0]
        if first in self._allowed or first.startswith("_sysconfigdata"):
            return None
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


if __name__ == "__main__":
    allowed = importable()
    for name in [one for one in sys.modules if one.partition(".")[0] == "packaging"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Absent(allowed))
    sys.path.insert(0, str(ROOT))
    from t9ksched.cli.main import main

    main()
