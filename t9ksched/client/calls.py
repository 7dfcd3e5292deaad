"""Requests and answers as values: what is asked, what came, and what an answer means. No input or output here.

Addresses are paths of the service, such as `/apis/v1/workloads`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from t9ksched.client.errors import Fault, Misunderstood, NotFound, Refused, retry_after

Query = Mapping[str, str | int | bool | Sequence[str] | None]
JSON: Final = "application/json"
KEY: Final = "Idempotency-Key"
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT"})
"""Without DELETE: the repeat of one that was carried out is told that there is nothing."""
_MOST_TEXT: Final = 300
"""Characters that are shown of an answer that is no problem of the service."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Of the query, what is None is left out, and lists are repeated."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    harmless: bool = False
    """It changes nothing, whatever its method."""

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when nobody knows whether it was carried out."""
        return self.harmless or self.method in _REPEATABLE or KEY in self.headers

    def url(self, server: str) -> str:
        """The whole address at a server."""
        given = {key: _word(value) for key, value in self.query.items() if value is not None}
        return server + quote(self.path) + (f"?{urlencode(given, doseq=True)}" if given else "")

    def all_headers(self, token: str) -> dict[str, str]:
        """What is sent with it."""
        sent = {"Accept": JSON} | dict(self.headers)
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if self.body is not None:
            sent["Content-Type"] = self.content_type
        return sent


class Answer(msgspec.Struct, frozen=True):
    """What came: the status, the headers by their names in lower case, and the bytes."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def checked(self) -> "Answer":
        """The answer, if it is a success.

        Raises:
            Refused: it is none.
        """
        if 200 <= self.status < 300:
            return self
        raise problem(self)


def problem(answer: Answer) -> Refused:
    """The refusal that an answer is: a problem of the service, or of whatever else answered."""
    after = retry_after(answer.headers)
    try:
        told = json.loads(answer.content)
        if not isinstance(told, dict):
            raise ValueError
    except ValueError:
        text = answer.content.decode(errors="replace").strip()[:_MOST_TEXT]
        if text.startswith("<"):
            text = "a page for people, so that address may be another's"
        detail = f"the service answered {answer.status}" + (f": {text}" if text else "")
        return Refused(answer.status, "", detail, retry_after=after)
    code = str(told.get("code") or "")
    detail = str(told.get("detail") or told.get("title") or f"the service answered {answer.status}")
    listed = told.get("errors")
    faults = [
        Fault(str(one.get("path", "")), str(one.get("message", "")))
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    ]
    kind = NotFound if code == "NotFound" else Refused
    return kind(answer.status, code, detail, faults, str(told.get("remedy") or ""), after)


def decoded(answer: Answer, server: str) -> Any:
    """The JSON of an answer, None where it is empty.

    Raises:
        Misunderstood: it is no JSON.
    """
    if not answer.content:
        return None
    try:
        return json.loads(answer.content)
    except ValueError:
        raise Misunderstood(f"{server} answered with something that is not JSON") from None


def address(server: str) -> str:
    """The address of a server, without a slash at its end.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"'{server}' is not the address of a server: write it as http://HOST:PORT or https://HOST")
    return server.rstrip("/")


def is_local(server: str) -> bool:
    """Whether the server is this machine: a proxy of the environment cannot reach that."""
    return urlsplit(server).hostname in ("localhost", "127.0.0.1", "::1")


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
