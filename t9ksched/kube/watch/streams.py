"""Reading streams of an API server: closed at the end, and a page ahead of the work."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from t9ksched.kube.port import Page, WatchEvent


@contextlib.asynccontextmanager
async def closing(stream: AsyncIterator[WatchEvent]) -> AsyncIterator[None]:
    """Close a stream at the end: generators hold a connection until closed."""
    try:
        yield
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def read_ahead(pages: AsyncIterator[Page]) -> AsyncGenerator[Page, None]:
    """The same pages, each asked for while the one before is being worked on."""

    async def fetch() -> Page | None:
        return await anext(pages, None)

    following = asyncio.create_task(fetch())
    try:
        while (page := await following) is not None:
            following = asyncio.create_task(fetch())
            yield page
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        close = getattr(pages, "aclose", None)
        if close is not None:
            await close()
