"""Reading a large cluster sets off no collection; afterwards none walks what is old."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from t9ksched.scheduler.observe import heap
from t9ksched.scheduler.observe.heap import LARGE, reading


class Thing:
    """Something that is garbage only together with what it is in."""

    def __init__(self, inside: object) -> None:
        self.inside = inside


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    heap._Old.end()
    gc.set_threshold(*thresholds)
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


async def test_what_is_old_is_walked_by_no_collection() -> None:
    """However much a large service keeps, a collection walks no more than was made in the last seconds."""
    walked: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            walked.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    with reading(lambda: LARGE):
        pass
    gc.callbacks.append(count)
    try:
        kept = []
        for _ in range(50):
            kept += [[number] for number in range(2_000)]
            await heap.tidy()
    finally:
        gc.callbacks.remove(count)
    assert len(walked) == 50, "none comes besides"
    assert max(walked) < 6_000


async def test_garbage_that_grew_old_is_found_once_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    used = 100
    monkeypatch.setattr(heap, "_peak", lambda: used)
    monkeypatch.setattr(heap, "_TURNS", 4)
    with reading(lambda: LARGE):
        pass

    def made() -> Thing:
        circle: list[object] = []
        circle.append(circle)
        one = Thing(circle)
        circle.append(one)
        return one

    old, young = made(), made()
    gone, gone_young = weakref.WeakSet([old]), weakref.WeakSet([young])
    del young
    for _ in range(2):
        await heap.tidy()
    assert not gone_young
    del old
    used = 149
    for _ in range(4):
        await heap.tidy()
    assert gone, "it had grown old"
    used = 151
    await heap.tidy()
    assert not gone
    assert gc.get_freeze_count(), "what is left is left out again"


async def test_a_small_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was large when it read the time before."""
    for size in (LARGE, LARGE - 1):
        with reading(lambda size=size: size):  # type: ignore[misc]
            pass
    gc.unfreeze()
    monkeypatch.setattr(heap, "_peak", lambda: 1 << 60)
    for _ in range(2):
        await heap.tidy()
    assert not gc.get_freeze_count()


async def test_a_collection_waits_for_the_end_of_a_cycle_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        began.append(phase)

    with reading(lambda: LARGE):
        pass
    rests = asyncio.Event()
    gc.callbacks.append(count)
    try:
        collecting = asyncio.create_task(heap.tidy(rests))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not began
        rests.set()
        await collecting
        assert began == ["start", "stop"]
        rests.clear()
        monkeypatch.setattr(heap, "_PATIENCE_SECONDS", 0)
        await heap.tidy(rests)
        assert began == ["start", "stop"] * 2
    finally:
        gc.callbacks.remove(count)
