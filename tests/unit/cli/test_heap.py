"""What was loaded at the start is not walked, neither while it is loaded nor later."""

import gc
from collections.abc import Iterator

import pytest

from t9ksched.cli.heap import loading, settle

USUAL = (700, 10, 10)
"""The thresholds of the interpreter."""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.enable()
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_is_loaded_is_left_out_of_collections() -> None:
    loaded = len(gc.get_objects())
    settle()
    assert gc.get_freeze_count() > loaded / 2
    assert len(gc.get_objects()) < loaded / 10


def test_nothing_is_collected_while_modules_are_loaded_and_less_often_later() -> None:
    with loading():
        assert not gc.isenabled()
        made = [[number] for number in range(100_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(made)
    assert gc.get_threshold() > USUAL


def test_a_load_that_fails_leaves_collections_on() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
