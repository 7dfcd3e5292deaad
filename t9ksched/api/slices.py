"""Long lists in slices: between two of them other tasks run, so that no list blocks the event loop for long."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
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
    parts = [memoryview(msgspec.json.encode(some))[1:-1] async for some in slices(items)]
    return answer_encoded(parts, rest, headers)


def answer_encoded(parts: Iterable[bytes | memoryview], rest: Json, headers: dict[str, str] | None = None) -> Response:
    """The JSON answer whose `items` are these parts, each the JSON of one item or of several, beside the rest.

    The parts are joined in one step: with two copies of a long list more, the allocator returns memory to the system
    after every answer and takes it again, which costs more than writing the answer.
    """
    pieces, tail = list(parts), msgspec.json.encode(rest)
    more = b"]," + tail[1:] if rest else b"]}"
    if pieces:
        pieces[0] = b"".join((b'{"items":[', pieces[0]))
        pieces[-1] = b"".join((pieces[-1], more))
    body = b",".join(pieces) if pieces else b'{"items":[' + more
    return Response(body, 200, headers, media_type="application/json")
