"""The bodies of requests: read within a size and a time, and parsed without delaying other requests.

A small body is parsed on the spot. A larger one goes to a thread, one at a time, and few of them at once for each user:
a user who sends more is refused for now.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from t9ksched.api.http.problems import Problem
from t9ksched.api.http.request_bodies import parse
from t9ksched.model.whole import whole_number

SMALL: Final = 16 * 1024
"""Bytes of a body that is parsed on the spot: about 15 ms for YAML."""
MAPPING: Final = 256 * 1024
"""Bytes of a body that is one mapping, such as a queue with its members."""
MOST_A_CALLER: Final = 2
"""Larger bodies of one user that are read or parsed at the same time."""
BODY_SECONDS: Final = 30.0
"""How long a body may take to arrive."""
_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
"""JSON of a PATCH: every PATCH of ours is a merge patch."""
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


class Bodies:
    """Reads and parses bodies of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._at_work: Counter[str] = Counter()
        self.worker = CapacityLimiter(1)
        """The one thread for work that would block the event loop."""

    async def documents(self, request: Request, user: str) -> tuple[bytes, list[tuple[str, Any]]]:
        """The body, and its documents, each with the prefix of its fields' paths.

        Raises:
            Problem: it is too large or too slow, it cannot be read, or the user sends too many at once.
        """
        return await self._read(request, user, self.limit)

    async def mapping(self, request: Request, user: str) -> dict[str, Any]:
        """A body that must be one mapping, such as a queue.

        Raises:
            Problem: as `documents`, or it is something else.
        """
        _, documents = await self._read(request, user, min(MAPPING, self.limit))
        if len(documents) != 1 or not isinstance(documents[0][1], dict):
            raise Problem("Malformed", "the body must be one JSON or YAML mapping")
        return cast(dict[str, Any], documents[0][1])

    async def _read(self, request: Request, user: str, limit: int) -> tuple[bytes, list[tuple[str, Any]]]:
        is_json = _is_json(request)
        body = await read_body(request, limit)
        if len(body) <= SMALL:
            return body, parse(body, is_json=is_json)
        async with self._turn(user):
            return body, await to_thread.run_sync(partial(parse, body, is_json=is_json), limiter=self.worker)

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        if self._at_work[user] >= MOST_A_CALLER:
            raise Problem(
                "RateLimited",
                f"{MOST_A_CALLER} large requests of yours are being read already",
                remedy="send them one after the other",
                headers={"Retry-After": "1"},
            )
        self._at_work[user] += 1
        try:
            yield
        finally:
            self._at_work[user] -= 1
            if not self._at_work[user]:
                del self._at_work[user]


def has_body(scope: Scope) -> bool:
    """Whether the head of a request announces a body."""
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        Problem: it is larger than `limit` bytes, and the rest is not read; or it does not arrive.
    """
    declared = request.headers.get("content-length", "")
    size = whole_number(declared)
    too_large = bool(declared) and (size is None or size > limit)
    body = bytearray()
    if not too_large:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limit:
                        too_large = True
                        break
        except TimeoutError:
            detail = f"the body did not arrive within {BODY_SECONDS:g} seconds"
            raise Problem("Malformed", detail, status=408, headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise Problem("Malformed", "the body did not arrive whole", headers={"Connection": "close"}) from None
    if too_large:
        raise Problem(
            "Malformed",
            f"the body is larger than {limit // 1024} KiB, the most that is read",
            status=413,
            remedy="split it into several requests",
            headers={"Connection": "close"},
        )
    return bytes(body)


def _is_json(request: Request) -> bool:
    """Whether the body is JSON; a body without a content type is read as YAML, of which JSON is a part.

    Raises:
        Problem: it is neither, or it is compressed.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Problem(
            "Malformed",
            f"a body in the encoding {encoding[:100]!r} is not read",
            status=415,
            remedy="send the body as it is, without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    is_json = media == _JSON or (media == _MERGE_PATCH and request.method == "PATCH")
    if not is_json and media not in ("", *_YAML):
        raise Problem(
            "Malformed",
            f"a body of type {media[:100]!r} is not read",
            status=415,
            remedy="say Content-Type: application/json or application/yaml",
        )
    return is_json
