"""Work in steps lets other work run in between, and is done in the order in which it began."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from t9ksched.scheduler.observe.stepwise import Stepwise


async def test_steps_take_turns_with_other_work() -> None:
    done: list[str] = []

    def work(name: str, steps: int) -> Iterator[None]:
        for at in range(steps):
            done.append(f"{name}{at}")
            yield

    stepwise = Stepwise(lambda: done.append("after"))
    task = asyncio.create_task(stepwise.run())
    await asyncio.sleep(0)
    assert done == []
    stepwise.begin(work("a", 2))
    stepwise.begin(work("b", 1))
    seen = []
    while done.count("after") < 5:
        await asyncio.sleep(0)
        seen.append(done.count("after"))
    assert [step for step in done if step != "after"] == ["a0", "a1", "b0"]
    assert all(later - earlier <= 1 for earlier, later in pairwise(seen)), "one step at a time"
    stepwise.begin(work("c", 1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert "c0" in done, "it waits for more"
    task.cancel()
    await asyncio.wait([task])


async def test_an_error_is_not_swallowed() -> None:
    def fails() -> Iterator[None]:
        yield
        raise ValueError("what went wrong")

    stepwise = Stepwise(lambda: None)
    stepwise.begin(fails())
    with pytest.raises(ValueError, match="what went wrong"):
        await stepwise.run()
