"""Long lists leave others their turn, and are the same as in one piece."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from t9ksched.api.slices import SLICE, answer_items, read_objects


async def turns(work: Awaitable[Any]) -> tuple[Any, int]:
    """What came of it, and how many turns others had meanwhile."""
    count = 0

    async def others() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    try:
        return await work, count
    finally:
        task.cancel()


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, 5 * SLICE])
async def test_a_long_list_is_read_and_written_in_slices(count: int) -> None:
    items = [{"name": f"job {number}"} for number in range(count)]
    raw = msgspec.json.decode(msgspec.json.encode(items), type=list[msgspec.Raw])
    found, passed = await turns(read_objects(raw))
    assert (found, passed) == (items, max(0, (count - 1) // SLICE))
    for rest in ({"stopped": [], "more": None}, {}):
        response, passed = await turns(answer_items(items, rest, {"X": "y"}))
        assert (msgspec.json.decode(response.body), passed) == ({"items": items} | rest, max(0, (count - 1) // SLICE))
        assert response.headers["X"] == "y"
