"""How many examples tests of random ones play: part of them in `make test`, all and more in `make soak`.

A test says how many are enough to be sure. `make test` plays `PART` of these, so that it stays short: what one hand-in
does not meet another one will, or `make soak`, which plays several times as many.
"""

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

PART: Final = float(os.environ.get("T9KSCHED_EXAMPLES", "0.3"))
_LEAST: Final = 12


def part(usual: int) -> int:
    """So many of `usual` examples."""
    return max(min(usual, _LEAST), round(usual * PART))


def scale(items: Iterable[pytest.Item]) -> None:
    """Set the number of examples of hypothesis' tests and machines; long forms have their own number."""
    seen: set[int] = set()
    for item in items:
        if item.get_closest_marker("soak"):
            continue
        test: Any = getattr(item, "obj", None)
        inner: Any = getattr(test, "__func__", test)
        machine: Any = getattr(item, "cls", None)
        if hasattr(inner, "_hypothesis_internal_use_settings") and id(inner) not in seen:
            seen.add(id(inner))
            inner._hypothesis_internal_use_settings = _scaled(inner._hypothesis_internal_use_settings)
        if isinstance(getattr(machine, "settings", None), settings) and id(machine) not in seen:
            seen.add(id(machine))
            machine.settings = _scaled(machine.settings)


def _scaled(usual: settings) -> settings:
    return settings(usual, max_examples=part(usual.max_examples))
