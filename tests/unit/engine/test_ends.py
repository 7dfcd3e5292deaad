"""The columns of expected ends, as they lose some."""

import subprocess
import sys

import numpy as np

from t9ksched.engine.ends import Ends, _used, _without
from t9ksched.model.gang import ExpectedEnd


def ends(count: int) -> Ends:
    """Ends with one entry each."""
    sources = tuple(ExpectedEnd(f"g{at}", "q", at, ()) for at in range(count))
    each = np.arange(count)
    return Ends(sources, each, each * 0, each, each, each * 0, each + 1, each[None], (), ("q",))


def test_ends_without_some() -> None:
    made = ends(4)
    left = _without(made, {id(made.sources[1])})
    assert [one.gang for one in left.sources] == ["g0", "g2", "g3"]
    assert (left.end.tolist(), left.rows.tolist(), left.pods.tolist()) == ([0, 1, 2], [0, 2, 3], [1, 3, 4])


def test_the_classes_that_are_used_are_those_of_the_entries() -> None:
    kinds = np.array([3, 1, 3, 5])
    used, positions = _used(kinds, 7)
    expected, inverse = np.unique(kinds, return_inverse=True)
    assert (used.tolist(), positions.tolist()) == (expected.tolist(), inverse.tolist())


def test_nothing_is_imported_meanwhile() -> None:
    """The first call of `np.isin` or `np.unique` imports `numpy.ma`, in the middle of a cycle."""
    text = """
import sys
from tests.unit.engine.test_ends import _used, np, test_ends_without_some
test_ends_without_some()
_used(np.array([1, 1]), 3)
assert "numpy.ma" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)
