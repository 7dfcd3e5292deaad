"""Where the API server is and who we are there, kept fresh.

`Credentials` holds what the official client's `Configuration` says: host, TLS context, proxy and the Authorization
header. It reloads its source when that is due (token files and exec plugins expire) and once after a 401; many requests
that are refused at the same time cause one reload. A rotated client certificate goes into the same TLS context and
moves `generation` on: connections made before still speak as who we were, and their owner must let go of them.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """One reading of the source.

    `fresh_for` is how many seconds it may be used before it is read again; None means until the server refuses it.
    """

    host: str
    authorization: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    fresh_for: float | None = None


class Credentials:
    """Reads `source` when first asked and whenever it must; `clock` gives seconds that only grow.

    Whatever `source` raises at the first reading passes through `open`. A later reading that fails leaves the old
    credentials in use: the server's own refusal then tells the caller.
    """

    def __init__(self, source: Callable[[], Awaitable[Access]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._access: Access | None = None
        self._due: float | None = None
        self._tls: ssl.SSLContext | None = None
        self._lock = asyncio.Lock()
        self._certificate: tuple[object, ...] = ()
        self.generation = 0
        self.last_failure: Exception | None = None

    @classmethod
    def fixed(cls, host: str, token: str | None = None) -> Credentials:
        """For a server whose address and token are known and never change."""
        access = Access(host.rstrip("/"), f"Bearer {token}" if token else None)

        async def source() -> Access:
            return access

        return cls(source)

    async def open(self) -> None:
        """Read the source for the first time; raises what it raises."""
        if self._access is None:
            async with self._lock:
                if self._access is None:
                    self._take(await self._source())

    @property
    def access(self) -> Access:
        if self._access is None:
            raise RuntimeError("credentials are used before open()")
        return self._access

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context for https hosts, the same object for life; None for http."""
        return self._tls

    async def authorization(self) -> str | None:
        """The Authorization header to send now."""
        if self._due is not None and self._clock() >= self._due:
            await self._reload(lambda: self._due is not None and self._clock() >= self._due)
        return self.access.authorization

    async def refresh(self, refused: str | None) -> bool:
        """After a 401 to the header `refused`: read the source again. True when it is worth trying once more."""
        before = self.generation
        await self._reload(lambda: self.access.authorization == refused and self.generation == before)
        return self.access.authorization != refused or self.generation != before

    async def _reload(self, needed: Callable[[], bool]) -> None:
        async with self._lock:
            if not needed():  # another request has done it while we waited
                return
            try:
                self._take(await self._source())
                self.last_failure = None
            except Exception as failure:  # a plugin may fail in any way; the old credentials may still be good
                self.last_failure = failure
                self._due = self._clock() + 10

    def _take(self, access: Access) -> None:
        if access.host.startswith("https"):
            if self._tls is None:
                self._tls = ssl.create_default_context(cafile=access.ca_file)
                if not access.verify:
                    self._tls.check_hostname = False
                    self._tls.verify_mode = ssl.CERT_NONE
            elif access.ca_file:
                self._tls.load_verify_locations(cafile=access.ca_file)
            certificate = _fingerprint(access.cert_file, access.key_file)
            if access.cert_file and certificate != self._certificate:
                self._tls.load_cert_chain(access.cert_file, access.key_file)
                self.generation += bool(self._certificate)
                self._certificate = certificate
        self._access = access
        self._due = None if access.fresh_for is None else self._clock() + access.fresh_for


def _fingerprint(*files: str | None) -> tuple[object, ...]:
    """Changes when a file is replaced or written."""
    return tuple((file, os.stat(file).st_mtime_ns) for file in files if file)
