"""Finds the addresses of a host that a user named, once, and refuses those that the service must not connect to.

What was found is what is connected to (`Pinned`): a name that leads elsewhere a moment later changes nothing.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from t9ksched.model.outbound import Network, permitted
from t9ksched.notify.errors import NotSent


async def addresses(host: str, port: int, networks: Iterable[Network], seconds: float) -> Sequence[str]:
    """The addresses of a host, all of which are permitted.

    Raises:
        NotSent: it has none, or one that is not permitted.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise NotSent("the name of its host was not found in time") from None
    except (OSError, UnicodeError):
        raise NotSent("the name of its host is not known") from None
    known = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not known or not all(permitted(one, networks) for one in known):
        raise NotSent("its host is in no public network: an administrator can allow others by T9KSCHED_NOTIFY_NETWORKS")
    return known


class Pinned(AbstractResolver):
    """Gives the addresses that were found before, whatever is asked for."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses."""
        return [
            ResolveResult(
                hostname=host,
                host=one,
                port=port,
                family=socket.AF_INET6 if ":" in one else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for one in self._known
        ]

    async def close(self) -> None:
        """Nothing is open."""
