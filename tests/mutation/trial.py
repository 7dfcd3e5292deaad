"""One fault against the suites of invariants: `python -m tests.mutation.trial MODULE KEY` ends with 1 when one fails.

The module is changed as it is imported, before anything of the project is. The suites are the ordinary ones, with fewer
examples from fixed dice and without shrinking; then whole histories of `tests.chaos` are played. Without arguments the
project as it is runs through the same suites, and must pass.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.mutation.operators import with_fault

SURVIVED, KILLED = 0, 1
EXAMPLES = float(os.environ.get("T9KSCHED_MUTATION_EXAMPLES", "0.34"))
"""What part of their examples the suites play."""
REFERENCE = float(os.environ.get("T9KSCHED_MUTATION_REFERENCE", "3"))
"""How many times as many scenes as usual are compared with the reference, which costs milliseconds each."""
PART = float(os.environ.get("T9KSCHED_MUTATION_PART", "4"))
"""How many times as many histories of the scheduler's state and of its last gate are played as usual."""
HISTORIES = int(os.environ.get("T9KSCHED_MUTATION_HISTORIES", "24"))
"""How many histories of `tests.chaos` are played at most."""
_ENGINE = (
    "engine_reference",
    "victim_order",
    "engine",
    "engine_preemption",
    "engine_unlike",
    "policy_histories",
    "waiting_reasons",
)
_STATE = ("state", "owners", "jobindex", "admission")
SUITES = {
    "engine": (*_ENGINE, *_STATE),
    "scheduler": (
        *("cardbook_model", "refill_model", "small_rules", "gate_access", "state_model", "gate_model"),
        *(*_STATE, "queue_attribution", "policy_histories"),
    ),
    "admission": ("admission", "owners"),
}
"""Files of `tests/property` that can see a fault of a room."""
_FIRST_HISTORIES = {"engine": 0, "scheduler": 0, "admission": 0}
"""So many histories come before the properties, where they are the likelier to notice."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and gives it a changed tree."""

    def __init__(self, module: str, key: str) -> None:
        self._module, self._key = module, key

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._key)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, key: str) -> None:
        super().__init__(fullname, path)
        self._key = key

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        tree: ast.Module = with_fault(source, self._key)
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Fewer:
    """Makes the suites shorter and the same each time."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test: Any = getattr(item, "obj", None)
            inner = getattr(test, "__func__", test)
            if hasattr(inner, "_hypothesis_internal_use_settings"):
                inner._hypothesis_internal_use_settings = _fewer(inner._hypothesis_internal_use_settings)
            machine: Any = getattr(item, "cls", None)
            if machine is not None and isinstance(getattr(machine, "settings", None), settings):
                machine.settings = _fewer(machine.settings)


def _fewer(usual: settings) -> settings:
    count = max(10, int(usual.max_examples * EXAMPLES))
    return settings(usual, max_examples=count, phases=[Phase.generate], derandomize=True, database=None)


def _properties(room: str) -> bool:
    files = [f"tests/property/test_{name}.py" for name in SUITES[room]]
    options = [
        "-x",
        "-q",
        "--no-header",
        "--tb=line",
        "-m",
        "not soak",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    os.environ["T9KSCHED_EXAMPLES"] = "1"
    os.environ["T9KSCHED_REFERENCE_PART"] = str(REFERENCE)
    os.environ["T9KSCHED_HISTORIES_PART"] = str(PART)
    options += ["-k", "not noticed and not can_fail and not fault"]
    return pytest.main([*options, *files], plugins=[_Fewer()]) == 0


def _histories(first: int, end: int) -> bool:
    from tests.chaos.history import play

    for seed in range(first, end):
        if found := play(seed).faults:
            sys.stdout.write(f"history {seed}: {found[0]}\n")
            return False
    return True


def survives(room: str) -> bool:
    """Whether the suites that can see a fault of this room all pass."""
    begin = min(HISTORIES, _FIRST_HISTORIES[room])
    return _histories(0, begin) and _properties(room) and _histories(begin, HISTORIES)


def main(arguments: Sequence[str]) -> int:
    """Run the suites, with a fault if one is named."""
    if not arguments:
        return SURVIVED if all(survives(room) for room in SUITES) else KILLED
    module, key = arguments
    sys.meta_path.insert(0, _Finder(module, key))
    try:
        return SURVIVED if survives(module.split(".")[1]) else KILLED
    except Exception as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return KILLED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
