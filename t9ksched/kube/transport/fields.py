"""Header fields of HTTP/2, in the compression of RFC 7541, written and read at little cost.

Fields that all requests share go into the server's table with the first one and are a few bytes from then on. Of an
answer only `:status` is read while it says that all went well: it comes first, and as our own table has no room each
block stands for itself and need not be decoded for the sake of the next.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

import hpack

from t9ksched.kube.transport.message import Origin, Request

_MOST_TABLE: Final = 4096
_LONGEST_KEPT: Final = 2048
"""Longer credentials are not kept in the server's table: there must be room in it for all other fields."""
_PATH: Final = 0x04
"""A literal that is not kept, with the name `:path` of the static table."""
_CONTENT_LENGTH: Final = b"\x0f\x0d"
_STATUS_NAME: Final = frozenset(kept + index for kept in (0x00, 0x10, 0x40) for index in range(8, 15))
"""`:status` with a value written out: not kept, never to be kept, to be kept. Seven entries of the static table have
that name; Go's library takes the last one.
"""
_INDEXED: Final = {0x88: 200, 0x89: 204, 0x8A: 206}


def _lengths(value: bytes, first: int) -> bytes:
    """The length of a text with a prefix of seven bits (RFC 7541, 5.1)."""
    size = len(value)
    if size < 127:
        return bytes((first, size)) if first >= 0 else bytes((size,))
    out = [127] if first < 0 else [first, 127]
    size -= 127
    while size >= 128:
        out.append(size % 128 + 128)
        size //= 128
    out.append(size)
    return bytes(out)


class FieldWriter:
    """Writes the field blocks of one connection's requests, in the order in which they are sent."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._encoder = hpack.Encoder()
        self._known: dict[tuple[str, str | None, str | None], tuple[bytes, bytes]] = {}
        """By method, content type and authorization: the encoded fields before and after the path."""

    def table_size(self, size: int) -> None:
        """The server's table has that many bytes. A small one is left alone: all fields of a request must fit."""
        taken = _MOST_TABLE if size >= _MOST_TABLE else 0
        if taken == self._encoder.header_table_size:
            return  # the library would forget to tell a change that it has not told yet
        self._encoder.header_table_size = taken
        self._known.clear()

    def block(self, request: Request) -> bytes:
        """The fields of a request. Raises Unreachable for an authorization that no header may hold."""
        body = request.body
        key = (request.method, request.content_type if body else None, request.authorization)
        before, after = self._known.get(key) or self._learn(key)
        path = request.target.encode("ascii")
        line = before + _lengths(path, _PATH) + path + after
        if body is None:
            return line
        length = b"%d" % len(body)
        return line + _CONTENT_LENGTH + _lengths(length, -1) + length

    def _learn(self, key: tuple[str, str | None, str | None]) -> tuple[bytes, bytes]:
        """Encode fields for the first time, which may put some into the table."""
        method, content_type, authorization = key
        pseudo = ((":method", method), (":scheme", self._origin.scheme), (":authority", self._origin.authority))
        fields = [
            hpack.NeverIndexedHeaderTuple(name.lower(), value)
            if len(value) > _LONGEST_KEPT
            else hpack.HeaderTuple(name.lower(), value)
            for name, value in self._origin.fields(authorization)
        ]
        if content_type is not None:
            fields.append(hpack.HeaderTuple("content-type", content_type))
        before = self._table()
        first = self._encoder.encode(pseudo), self._encoder.encode(fields)
        if (learned := self._table()) != before:
            self._known.clear()  # what is new in the table moved the rest of it
        probe = deepcopy(self._encoder)
        again = probe.encode(pseudo), probe.encode(fields)
        if list(probe.header_table.dynamic_entries) == learned:  # else some of it made room for the rest
            self._known[key] = again
        return first

    def _table(self) -> list[tuple[bytes, bytes]]:
        return list(self._encoder.header_table.dynamic_entries)


class StatusReader:
    """Reads the field blocks of one connection's answers."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._decoder.header_table_size = 0
        self._decoder.max_allowed_table_size = 0

    def read(self, block: bytes) -> tuple[int, str]:
        """Status and Retry-After. Raises HPACKError, or ValueError without a status."""
        quick = _quick(block)
        if quick:
            return quick, ""
        status, retry_after = "", ""
        for field in self._decoder.decode(block):
            match str(field[0]):
                case ":status":
                    status = str(field[1])
                case "retry-after":
                    retry_after = str(field[1])
        if len(status) != 3 or not status.isdecimal():
            raise ValueError("it has no status")
        return int(status), retry_after


def _quick(block: bytes) -> int:
    """The status if it is one of success and at its usual place; else 0."""
    at = 1 if block[:1] == b"\x20" else 0  # the table's size, told once
    first = block[at] if len(block) > at else 0
    if first in _INDEXED:
        return _INDEXED[first]
    if first not in _STATUS_NAME:
        return 0
    value = block[at + 1 : at + 5]
    return 201 if value == b"\x03201" or value[:3] == _CREATED else 0


_CREATED: Final = b"\x82\x10\x03"
"""`201` in Huffman code: five bits a digit, and a one for padding."""
