"""Frames of HTTP/2 (RFC 9113): their types, flags, settings and codes, and how they are written."""

from enum import IntEnum
from struct import Struct
from typing import Final

_HEAD: Final = Struct(">IBI")
"""A frame's length and type, its flags, its stream."""
HEAD_SIZE: Final = _HEAD.size
STREAM: Final = 0x7FFF_FFFF
"""The bits of a stream's number, and of a window's size."""


class Kind:
    """Types of frames, plain numbers too."""

    DATA: Final = 0
    HEADERS: Final = 1
    PRIORITY: Final = 2
    RST_STREAM: Final = 3
    SETTINGS: Final = 4
    PUSH_PROMISE: Final = 5
    PING: Final = 6
    GOAWAY: Final = 7
    WINDOW_UPDATE: Final = 8
    CONTINUATION: Final = 9


class Flag:
    """Flags of frames: plain numbers, for every frame asks for some."""

    END_STREAM: Final = 1
    ACK: Final = 1
    END_HEADERS: Final = 4
    PADDED: Final = 8
    PRIORITY: Final = 32


class Setting(IntEnum):
    """What the sides tell each other at the beginning."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5


class Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    REFUSED_STREAM = 7
    CANCEL = 8


class ProtocolError(Exception):
    """The server broke the rules, and nothing it says can be trusted any more."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def frame_head(data: bytes, at: int) -> tuple[int, int, int, int]:
    """The length of the payload, the type, the flags and the stream of the frame that begins there."""
    first, flags, stream = _HEAD.unpack_from(data, at)
    return first >> 8, first & 0xFF, flags, stream & STREAM


def settings(values: dict[int, int]) -> bytes:
    """A frame that tells these settings."""
    told = (key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items())
    return frame(Kind.SETTINGS, 0, 0, b"".join(told))


def unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & Flag.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("a frame has more padding than bytes")
    return payload[1 : len(payload) - payload[0]]
