"""Long lists in slices: between two of them other tasks run, so that no list blocks the event loop for long."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response

Json = dict[str, Any]
T = TypeVar("T")
SLICE: Final = 500
"""Objects that are read or written at once: about 5 ms."""


async def slices(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items, so many at a time."""
    for start in range(0, len(items), SLICE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + SLICE]


async def read_objects(raw: Sequence[msgspec.Raw]) -> list[Json]:
    """Objects of which each is JSON still.

    Raises:
        msgspec.DecodeError: one is no object.
    """
    decoder, found = msgspec.json.Decoder(dict[str, Any]), list[Json]()
    async for some in slices(raw):
        found += [decoder.decode(one) for one in some]
    return found


async def answer_items(items: Sequence[Json], rest: Json, headers: dict[str, str] | None = None) -> Response:
    """The JSON answer with these `items` beside the rest."""
    parts = [msgspec.json.encode(some)[1:-1] async for some in slices(items)]
    more = msgspec.json.encode(rest)
    body = b'{"items":[' + b",".join(parts) + (b"]," + more[1:] if rest else b"]}")
    return Response(body, 200, headers, media_type="application/json")
