"""Reading a large cluster sets off no collection, and the collector is as it was afterwards."""

import gc
from collections.abc import Iterator

import pytest

from t9ksched.scheduler.observe.heap import LARGE, reading


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("size", "frozen"), [(LARGE - 1, False), (LARGE, True)])
def test_only_a_large_heap_is_frozen(size: int, frozen: bool) -> None:
    gc.unfreeze()
    with reading(lambda: size):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert bool(gc.get_freeze_count()) is frozen


def test_a_process_without_a_collector_keeps_it_off() -> None:
    gc.disable()
    try:
        with pytest.raises(ValueError, match="broken"), reading(lambda: 0):
            raise ValueError("broken")
        assert not gc.isenabled()
    finally:
        gc.enable()
