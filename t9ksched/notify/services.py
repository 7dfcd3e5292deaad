"""Mail and messaging services, by the library Apprise, which is the extra `notify` of the package.

Users name services that administrators allow, and of those only what leads to the service's own host. Mail goes by the
server that an administrator set. The library blocks, so it runs in threads of its own; what it logs may have secrets
and goes nowhere.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote

from t9ksched.model.notification import MAIL
from t9ksched.notify.errors import NotSent

SECONDS: Final = 30.0
_THREADS: Final = 4


def installed() -> bool:
    """Whether the library is there."""
    return find_spec("apprise") is not None


class Services:
    """Sends by the library: to the services `allowed`, and by the mail server at `mail`, a URL as the library writes
    it; None without one.
    """

    def __init__(self, allowed: Collection[str] = (), mail: str | None = None, seconds: float = SECONDS) -> None:
        self._allowed = frozenset(allowed)
        self._mail = mail
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(_THREADS, "notify")

    async def send(self, kind: str, url: str, title: str, message: str) -> None:
        """Send it once.

        Raises:
            NotSent: the service did not take it in time, or there is no way to it.
        """
        if not installed():
            raise NotSent("the service has no library for it: an administrator installs 't9ksched[notify]'")
        if kind == MAIL:
            if self._mail is None:
                raise NotSent("no mail server is set: an administrator sets T9KSCHED_NOTIFY_MAIL")
            url = to_person(self._mail, url.removeprefix("mailto:"))
        elif kind not in self._allowed:
            raise NotSent(f"administrators allow no notifications by {kind} any more")
        work = asyncio.get_running_loop().run_in_executor(self._threads, partial(_notify, url, title, message))
        try:
            async with asyncio.timeout(self._seconds):
                taken = await work
        except TimeoutError:
            raise NotSent(f"{kind} did not answer within {self._seconds:g} seconds") from None
        if not taken:
            raise NotSent(f"{kind} did not take it: check the address")


def understood(url: str) -> bool:
    """Whether the library takes it for the address of a service; True where it is not installed. It takes a while to
    load, so it is to be asked in a thread.
    """
    if not installed():
        return True
    import apprise

    logging.getLogger("apprise").disabled = True
    try:
        return apprise.Apprise.instantiate(url, suppress_exceptions=True) is not None
    except Exception:  # of a library that knows a hundred services; its words may have secrets
        return False


def to_person(server: str, address: str) -> str:
    """The URL of a mail server with the one who gets the mail."""
    return f"{server}{'&' if '?' in server else '?'}to={quote(address)}"


def _notify(url: str, title: str, message: str) -> bool:
    """Send by the library; False for whatever went wrong."""
    import apprise

    logging.getLogger("apprise").disabled = True
    make: Callable[..., Any] = apprise.Apprise.instantiate
    try:
        asset = apprise.AppriseAsset(http_redirects=False, secure_logging=True)
        service = make(url, asset=asset, suppress_exceptions=True)
        return service is not None and bool(service.notify(title=title, body=message))
    except Exception:  # of a library that speaks to a hundred services; its words may have secrets
        return False
