"""A request and its answer, whichever version of HTTP carries them."""

from __future__ import annotations

import re

import msgspec

from t9ksched.kube.errors import Unreachable

_plain_value = re.compile(r"[ -~]*").fullmatch


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request; `target` is its path and query in plain ASCII, `authorization` that header's value."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str = "application/json"
    authorization: str | None = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole response. Of a refusal `reason` is the word after the status, which HTTP/2 has none of, and `retry_after`
    that header as it came.
    """

    status: int
    reason: str
    retry_after: str
    content: bytes


class Origin(msgspec.Struct, frozen=True):
    """The server as requests name it, and the header fields that all of them have."""

    scheme: str
    authority: str
    headers: tuple[tuple[str, str], ...] = ()

    def fields(self, authorization: str | None) -> tuple[tuple[str, str], ...]:
        """The fields of a request with this authorization. Raises Unreachable for one that no header may hold."""
        if not authorization:
            return self.headers
        if not _plain_value(authorization):
            raise Unreachable("the credentials hold characters that no HTTP header may have: log in anew")
        return (*self.headers, ("Authorization", authorization))
