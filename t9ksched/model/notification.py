"""Notifications: of what users and queues can be told, and where to.

An address is a URL that users give: a webhook, the e-mail address of one person, or a messaging service of those that
administrators allow. It may hold a secret, so what is shown of it is a part of it.
"""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.outbound import Network, permitted

STARTED: Final = "started"
ENDED: Final = "ended"
FAILED: Final = "failed"
PREEMPTED: Final = "preempted"
PLAN_MOVED: Final = "plan-moved"
TIME_LIMIT_NEAR: Final = "time-limit-near"
SUSPENSION_NEAR: Final = "suspension-near"
SUSPENDED: Final = "suspended"
TEST: Final = "test"
"""Sent when a user asks for it, to see whether an address works."""
EVENTS: Final = (STARTED, ENDED, FAILED, PREEMPTED, PLAN_MOVED, TIME_LIMIT_NEAR, SUSPENSION_NEAR, SUSPENDED)
"""What can be asked for. `ended` is told however a job ends, `failed` only if it failed."""

WEBHOOK: Final = "webhook"
MAIL: Final = "mail"
_LONGEST: Final = 2000
_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_FORBIDDEN: Final = re.compile(r"[?,\\]")
"""In the URLs of services: a query changes how the library sends (what it attaches, how long it waits), a comma makes
several URLs of one."""


class Address(msgspec.Struct, frozen=True):
    """Where notifications go. `kind` is `webhook`, `mail` or the name of a service; `shown` has no secret."""

    kind: str
    url: str
    shown: str


class Allowed(msgspec.Struct, frozen=True):
    """What administrators allow beside webhooks in public networks: further networks, services, mail."""

    networks: tuple[Network, ...] = ()
    services: tuple[str, ...] = ()
    mail: bool = False


ONLY_PUBLIC: Final = Allowed()


def parse_address(url: str, allowed: Allowed = ONLY_PUBLIC) -> Address:
    """The address that a user gave. A host by name is looked at again when something is sent there.

    Raises:
        Invalid: it is none, or not allowed. The message does not repeat it.
    """
    text = url.strip()
    if len(text) > _LONGEST or not _PRINTABLE.fullmatch(text):
        raise _invalid(f"must be one URL of at most {_LONGEST} printable ASCII characters")
    scheme, separator, rest = text.partition(":")
    scheme = scheme.lower()
    if separator and scheme in ("http", "https"):
        return _webhook(text, allowed)
    if separator and scheme == "mailto":
        return _mail(rest, allowed=allowed.mail)
    if not separator or scheme not in allowed.services:
        names = ["https", *(["mailto"] if allowed.mail else []), *allowed.services]
        raise _invalid(f"must begin with one of {', '.join(names)}, which is what administrators allow")
    if not rest.startswith("//") or len(rest) < 3:
        raise _invalid(f"write it as {scheme}://…, as the documentation of Apprise says")
    if _FORBIDDEN.search(rest):
        raise _invalid("must be one URL without a query: leave out '?', ',' and '\\'")
    return Address(scheme, f"{scheme}:{rest}", f"{scheme}://…")


def _webhook(text: str, allowed: Allowed) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _invalid("is no URL: check its host and port") from None
    if not parts.hostname or port == 0 or "\\" in text:
        raise _invalid("names no host: write https://HOST/PATH")
    if _is_number(parts.hostname) and not permitted(parts.hostname, allowed.networks):
        raise _invalid("its host is in no public network: an administrator can allow others (T9KSCHED_NOTIFY_NETWORKS)")
    if parts.scheme != "https" and not allowed.networks:
        raise _invalid("must be https: http is for networks that are not public, of which none is allowed")
    return Address(WEBHOOK, parts._replace(fragment="").geturl(), _without_secret(parts))


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _without_secret(parts: SplitResult) -> str:
    """Scheme, host and port: paths and queries often hold a token."""
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}/…"[:300]


def _mail(rest: str, *, allowed: bool) -> Address:
    if not allowed:
        raise _invalid("cannot be an e-mail address: an administrator must set T9KSCHED_NOTIFY_MAIL first")
    if not _MAIL.fullmatch(rest):
        raise _invalid("must name one e-mail address: mailto:NAME@HOST")
    return Address(MAIL, f"mailto:{rest}", f"mailto:{rest}")


def _invalid(message: str) -> Invalid:
    return Invalid.at("url", message)
