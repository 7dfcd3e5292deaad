"""Asks servers in pods whether anybody uses them, over HTTP by the pod's address.

Answers are believed for nothing but this. A server that asks for a login, redirects, takes too long or says too much
is one of which nothing is known. Only addresses of pods are asked: none of the link, where clouds keep secrets, and
none of this machine unless its processes are the pods.
"""

import asyncio
import ipaddress
import json
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

import aiohttp

from t9ksched.workloads.answers import (
    CLOCK_DIFFERS,
    LOGIN_REQUIRED,
    NOT_REACHABLE,
    Activity,
    Question,
    read_jupyter,
)

SECONDS: Final = 5.0
"""How long all questions to one server may take."""
_LARGEST: Final = 1 << 20
_QUIET: Final = {"no_track_activity": "1"}
"""Tells Jupyter not to count the question as a use."""
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""Answers are read as they come: what is compressed could become any size."""
_MOST_APART: Final = timedelta(minutes=5)
"""By how much the clock of a server may differ: the times that it tells are its own."""


class Asker(Protocol):
    """Whoever asks."""

    async def __call__(self, question: Question) -> Activity:
        """What the server says, or why nothing is known; never an exception."""


class _Unanswered(Exception):
    """No answer that can be read: why, as a reason and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.activity = Activity(reason=reason, message=message)


class HttpAsker:
    """Asks over HTTP. `local` says that pods are processes of this machine."""

    def __init__(
        self,
        *,
        local: bool = False,
        seconds: float = SECONDS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._local = local
        self._seconds = seconds
        self._clock = clock

    async def __call__(self, question: Question) -> Activity:
        """What the server says."""
        if not self._permitted(question.host):
            return Activity(reason=NOT_REACHABLE, message=f"{question.host} is no address of a pod: it is not asked")
        host = f"[{question.host}]" if ":" in question.host else question.host
        where = f"{host}:{question.port}"
        try:
            async with (
                asyncio.timeout(self._seconds),
                aiohttp.ClientSession(
                    cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False, headers=_PLAIN
                ) as session,
            ):
                return await _jupyter(lambda path: self._get(session, f"http://{where}{path}"), question.prefix)
        except _Unanswered as error:
            return error.activity
        except TimeoutError:
            message = f"{where} did not answer within {self._seconds:g} seconds"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            message = f"{where} cannot be reached: {_why(error)}"
        return Activity(reason=NOT_REACHABLE, message=message)

    async def _get(self, session: aiohttp.ClientSession, url: str) -> Any:
        """The JSON of a page; None if there is no such page."""
        async with session.get(url, params=_QUIET, allow_redirects=False) as response:
            if response.status in (401, 403) or 300 <= response.status < 400:
                raise _Unanswered(
                    LOGIN_REQUIRED,
                    f"the server asks for a login ({response.status}): start it without one,"
                    " behind a proxy that has one",
                )
            if response.status == 404:
                return None
            if response.status != 200:
                raise _Unanswered(NOT_REACHABLE, f"the server answered {response.status}")
            _check_clock(response.headers.get("Date"), self._clock())
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _LARGEST:
                    raise _Unanswered(NOT_REACHABLE, "the answer of the server is too long")
            try:
                return json.loads(body)
            except (ValueError, RecursionError):
                return ""

    def _permitted(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        if mapped.is_loopback:
            return self._local
        return not (mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified or mapped.is_reserved)


_Get = Callable[[str], Awaitable[Any]]


async def _jupyter(get: _Get, prefix: str) -> Activity:
    """Where nothing is below the prefix, the server was not told of it and is at the root."""
    status = await get(f"{prefix}api/status")
    if status is None and prefix != "/":
        prefix = "/"
        status = await get("/api/status")
    kernels = await get(f"{prefix}api/kernels")
    return read_jupyter(status, kernels, await get(f"{prefix}api/terminals"))


def _why(error: Exception) -> str:
    """What is wrong with a connection, in the words of the operating system where it was that which failed."""
    found = getattr(error, "os_error", error)
    return os.strerror(found.errno) if isinstance(found, OSError) and found.errno else str(found)


def _check_clock(date: str | None, now: datetime) -> None:
    """Refuse the answer of a server whose clock shows another time, if it says which."""
    try:
        said = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return
    apart = (said if said.tzinfo else said.replace(tzinfo=UTC)) - now
    if abs(apart) > _MOST_APART:
        how = "ahead of" if apart > timedelta() else "behind"
        raise _Unanswered(
            CLOCK_DIFFERS,
            f"its clock is {abs(apart) // timedelta(minutes=1)} minutes {how} that of the controllers:"
            " set the clocks of the nodes by NTP",
        )
