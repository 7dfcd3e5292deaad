"""The kernels of the engine, for tests that compare them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from t9ksched.engine.actions import start_tables, starting_runs
from t9ksched.engine.kernel.native import Chosen, Native, native
from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import Kernel
from t9ksched.engine.placement import class_keys, packing

KERNELS = ("reference", "native")
REQUIRED = "T9KSCHED_TEST_NATIVE"
"""With 1 a test of the native kernel fails where that was not compiled."""


def kernel_named(name: str) -> Kernel:
    """The kernel; the test is skipped where the native one was not compiled, unless that is required."""
    if name == "reference":
        return Reference()
    found = native()
    if isinstance(found, str) and os.environ.get(REQUIRED) != "1":
        pytest.skip(f"the native kernel is missing (`make native`): {found}")
    assert isinstance(found, Native), f"the native kernel is required: {found}"
    return found


@contextmanager
def running(kernel: Kernel | None, after: int = 0, read: tuple[int, int, int] = (4, 4, 16)) -> Iterator[None]:
    """With this kernel wherever it may run, not only where it pays, and so many gangs read at once (`_READ`); with None
    every gang has its turn.
    """
    if kernel is None:
        with patch.object(starting_runs.StartingRuns, "of", lambda *_: None):
            yield
        return
    with (
        patch.object(starting_runs, "_AFTER", after),
        patch.object(starting_runs, "_FEW", 0),
        patch.object(start_tables, "_READ", read),
        patch.object(starting_runs, "kernel", lambda: Chosen(kernel, "")),
    ):
        yield


@contextmanager
def scoring(kernel: Kernel) -> Iterator[None]:
    """With this kernel for the scores of nodes."""
    with (
        patch.object(class_keys, "kernel", lambda: Chosen(kernel, "")),
        patch.object(packing, "kernel", lambda: Chosen(kernel, "")),
    ):
        yield
