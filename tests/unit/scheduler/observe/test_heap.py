"""While a service runs, collections are few and short: none walks what is old, or very much."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from t9ksched.scheduler.observe import heap
from t9ksched.scheduler.observe.heap import Heap


class Thing:
    """Something that is garbage only together with what it is in."""

    def __init__(self, inside: object) -> None:
        self.inside = inside


def circle() -> Thing:
    """A thing that is garbage in a circle once nothing else refers to it."""
    inside: list[object] = []
    one = Thing(inside)
    inside.append(one)
    return one


class Collections:
    """Those that are made: which they were, and how many objects they walked."""

    def __init__(self) -> None:
        self.walked: list[int] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self.walked.append(sum(len(gc.get_objects(nth)) for nth in range(info["generation"] + 1)))


@pytest.fixture
def rests() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.fixture
def kept(rests: asyncio.Event) -> Iterator[Heap]:
    """The collector is in the hands of a service that has read what is there."""
    one = Heap(rests)
    with one.reading():
        pass
    yield one
    one.end()


@pytest.fixture
def made(kept: Heap) -> Iterator[Collections]:
    """The collections that are made from now on."""
    seen = Collections()
    gc.callbacks.append(seen)
    yield seen
    gc.callbacks.remove(seen)


def test_nothing_is_collected_while_it_is_read_and_what_was_read_is_left_out(rests: asyncio.Event) -> None:
    before = gc.get_threshold()
    one = Heap(rests)
    gc.unfreeze()
    with one.reading():
        assert not gc.isenabled()
        read = [[number] for number in range(2_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(read)
    with one.reading():
        pass
    one.end()
    assert gc.get_threshold() == before, "the process has its collector back"
    assert gc.get_freeze_count() > len(read)


def test_a_process_without_a_collector_keeps_it_off(rests: asyncio.Event) -> None:
    one = Heap(rests)
    gc.disable()
    try:
        with pytest.raises(ValueError, match="broken"), one.reading():
            raise ValueError("broken")
        assert not gc.isenabled()
    finally:
        gc.enable()
        one.end()


async def test_what_is_old_is_walked_by_no_collection(kept: Heap, made: Collections) -> None:
    """However much a service keeps, a collection walks no more than was made in the last seconds."""
    held = []
    for _ in range(50):
        held += [[number] for number in range(2_000)]
        await kept.tidy()
    assert len(made.walked) == 50, "none comes besides"
    assert max(made.walked) < 6_000


async def test_very_much_at_once_is_not_walked_at_all(kept: Heap, made: Collections) -> None:
    held = []
    for _ in range(5):
        held += [[number] for number in range(60_000)]
        await kept.tidy()
    assert not made.walked
    assert gc.get_freeze_count() > 300_000
    await kept.tidy()
    assert max(made.walked) < 1_000, "what came later is"


async def test_young_garbage_is_found_at_once(kept: Heap) -> None:
    gone = weakref.WeakSet([circle()])
    for _ in range(2):
        await kept.tidy()
    assert not gone


async def test_garbage_that_grew_old_is_found_once_the_process_has_grown(
    rests: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 100
    monkeypatch.setattr(heap, "_peak", lambda: used)
    monkeypatch.setattr(heap, "_TURNS", 4)
    kept = Heap(rests)
    with kept.reading():
        pass
    old = circle()
    gone = weakref.WeakSet([old])
    for _ in range(2):
        await kept.tidy()
    del old
    used = 149
    for _ in range(4):
        await kept.tidy()
    assert gone, "it had grown old"
    used = 151
    await kept.tidy()
    assert not gone
    assert gc.get_freeze_count(), "what is left is left out again"
    kept.end()


async def test_a_collection_waits_for_the_end_of_a_cycle_but_not_for_ever(
    kept: Heap, made: Collections, rests: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests.clear()
    collecting = asyncio.create_task(kept.tidy())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not made.walked
    rests.set()
    await collecting
    assert len(made.walked) == 1
    rests.clear()
    monkeypatch.setattr(heap, "_PATIENCE_SECONDS", 0)
    await kept.tidy()
    assert len(made.walked) == 2
