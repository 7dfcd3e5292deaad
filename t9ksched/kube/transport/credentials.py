"""The API server's address and the user's credentials for it, kept fresh.

`Credentials` holds what the official client's `Configuration` says: host, TLS context, proxy and the Authorization
header. It reloads its source when that is due (token files and exec plugins expire) and once after a 401; many requests
that are refused at the same time cause one reload, and one that brought nothing new is not repeated at once. A client
certificate or CA that was rotated on disk makes a new TLS context and moves `generation` on: connections made before
still use the old identity, and their owner must close them.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from t9ksched.regular_file import read_file

log = structlog.get_logger(__name__)

LARGEST_PEM: Final = 8 << 20
"""Bytes of a file of certificates or of a token; a bundle of all public authorities has a quarter of a MiB."""
_RETRY_SECONDS: Final = 10.0
"""Seconds until a source that failed, or brought nothing new after a refusal, is read again."""


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
    credentials in use, and the log says why: the server's own refusal tells the caller.
    """

    def __init__(self, source: Callable[[], Awaitable[Access]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._access: Access | None = None
        self._due: float | None = None
        self._tls: ssl.SSLContext | None = None
        self._sharing_tls: ssl.SSLContext | None = None
        self._lock = asyncio.Lock()
        self._files: tuple[object, ...] = ()
        self._fruitless = -math.inf
        self.generation = 0
        self.expiries: dict[str, int] = {}
        """See `kube.port.expiries_of`."""

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
        """The TLS context for https hosts, of this `generation`; None for http."""
        return self._tls

    @property
    def sharing_tls(self) -> ssl.SSLContext | None:
        """The same for connections that may speak HTTP/2."""
        return self._sharing_tls

    async def authorization(self) -> str | None:
        """The Authorization header to send now."""
        if self._due is not None and self._clock() >= self._due:
            await self._reload(lambda: self._due is not None and self._clock() >= self._due)
        return self.access.authorization

    async def refresh(self, refused: str | None) -> bool:
        """After a 401 to the header `refused`: read the source again. True when it is worth trying once more."""
        before = self.generation

        def needed() -> bool:
            unchanged = self.access.authorization == refused and self.generation == before
            return unchanged and self._clock() >= self._fruitless + _RETRY_SECONDS

        await self._reload(needed)
        renewed = self.access.authorization != refused or self.generation != before
        if not renewed and self._clock() >= self._fruitless + _RETRY_SECONDS:
            self._fruitless = self._clock()
        return renewed

    async def _reload(self, needed: Callable[[], bool]) -> None:
        async with self._lock:
            if not needed():  # another request reloaded it while this one waited
                return
            try:
                self._take(await self._source())
            except Exception as failure:  # a plugin may fail in any way; the old credentials may still be good
                log.warning("no new credentials, the old ones are used on", error=str(failure), again_in=_RETRY_SECONDS)
                self._due = self._clock() + _RETRY_SECONDS

    def _take(self, access: Access) -> None:
        if access.host.startswith("https"):
            files = _fingerprint(access.ca_file, access.cert_file, access.key_file)
            if self._tls is None or files != self._files:
                fresh = _context(access)  # raises while a certificate and its key do not belong together yet
                sharing = _context(access)
                sharing.set_alpn_protocols(["h2", "http/1.1"])
                self.generation += self._tls is not None
                self._tls, self._sharing_tls, self._files = fresh, sharing, files
                self.expiries = dict(_expiries(access))
        self._access = access
        self._due = None if access.fresh_for is None else self._clock() + access.fresh_for


def _context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca_file)
    # Python 3.13 and later refuse authorities that lack extensions, such as those that EKS made for its older clusters.
    # kubectl takes them; the chain, the times and the name are checked all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.cert_file:
        context.load_cert_chain(access.cert_file, access.key_file)
    return context


def _expiries(access: Access) -> Iterator[tuple[str, int]]:
    """The client certificate's own end, and that of the authority that lasts longest: an older one beside it is no
    longer needed.
    """
    from cryptography import x509  # on use: a start without the library is shorter

    for what, file in (("client", access.cert_file), ("authority", access.ca_file)):
        if file is None:
            continue
        try:
            found = x509.load_pem_x509_certificates(read_file(file, LARGEST_PEM))
        except ValueError as failure:  # OpenSSL takes more than this library does
            log.info("when a certificate ends is not known", file=file, error=str(failure))
            continue
        ends = [int(one.not_valid_after_utc.timestamp()) for one in found]
        yield what, max(ends) if what == "authority" else ends[0]


def _fingerprint(*files: str | None) -> tuple[object, ...]:
    """Changes when a file is replaced by another, whatever its path: some readers write copies of their own."""
    return tuple(hashlib.sha256(read_file(file, LARGEST_PEM)).digest() if file else None for file in files)
