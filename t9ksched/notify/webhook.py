"""Webhooks: one POST of JSON, signed as the convention of Standard Webhooks says (headers `webhook-id`,
`webhook-timestamp`, `webhook-signature`; https://www.standardwebhooks.com).

The host is resolved once and must be public, or in a network that administrators allow. Redirects are not followed, no
proxy and no cookies are used, the answer's body is not read, and all of it has a time limit.
"""

import hashlib
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Final

import aiohttp
from yarl import URL

from t9ksched import version
from t9ksched.model.outbound import Network, permitted
from t9ksched.notify.errors import NotSent
from t9ksched.notify.resolving import Pinned, addresses
from t9ksched.store.notifications import KEY_PREFIX

SECONDS: Final = 10.0
"""For one attempt, from the name of the host to the status of the answer."""
_CONNECT_SECONDS: Final = 5.0
_LONGEST_LINE: Final = 8190
_GONE: Final = 410


def signature(key: str, id_: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: HMAC-SHA256 over id, timestamp and body, joined by dots."""
    secret = b64decode(key.removeprefix(KEY_PREFIX))
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class Webhooks:
    """Sends to webhooks; `networks` are allowed beyond public ones, `clock` gives seconds since the epoch."""

    def __init__(
        self, networks: Iterable[Network] = (), clock: Callable[[], float] = time.time, seconds: float = SECONDS
    ) -> None:
        self._networks = tuple(networks)
        self._clock = clock
        self._seconds = seconds

    async def send(self, url: str, key: str, id_: str, body: bytes) -> None:
        """Send it once.

        Raises:
            NotSent: there was no answer of success in time.
        """
        try:
            target = URL(url)
            host, port = target.raw_host, target.port
        except ValueError:
            raise NotSent("its URL cannot be read") from None
        if not host or not port:
            raise NotSent("its URL names no host")
        known = await addresses(host, port, self._networks, self._seconds)
        if target.scheme != "https" and any(permitted(one) for one in known):
            raise NotSent("it must be https: http is for networks that are not public")
        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"t9ksched/{version()}",
            "webhook-id": id_,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(key, id_, timestamp, body),
        }
        connector = aiohttp.TCPConnector(resolver=Pinned(known), use_dns_cache=False, force_close=True, limit=1)
        limits = aiohttp.ClientTimeout(total=self._seconds, connect=_CONNECT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=limits,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=False,
                    auto_decompress=False,
                    max_line_size=_LONGEST_LINE,
                    max_field_size=_LONGEST_LINE,
                ) as session,
                session.post(target, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                status = answer.status
                answer.close()  # its body is nobody's business, and may have no end
        except TimeoutError:
            raise NotSent(f"it did not answer within {self._seconds:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotSent(_why(error)) from None
        _judge(status)


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotSent(f"it answered {status}: redirects are not followed, name the address itself")
    if status == _GONE:
        raise NotSent("it answered 410: it wants no more", gone=True)
    raise NotSent(f"it answered {status}")


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientSSLError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "it takes no connections"
    return "it did not answer as HTTP does"
