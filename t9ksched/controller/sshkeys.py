"""Fresh SSH key pairs for MPI jobs: Ed25519 in OpenSSH's own text formats.

Only keys are made here; nothing is signed, and the private key never leaves for anything but the job's Secret. Sources:
RFC 8032 section 5.1 (keys and encoding of points), RFC 8709 (public key), OpenSSH's PROTOCOL.key (private key file).
"""

import base64
import hashlib
import secrets
import struct
from dataclasses import dataclass
from typing import Final

_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P
_BASE_Y: Final = 4 * pow(5, -1, _P) % _P
_BASE_X: Final = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_TYPE: Final = b"ssh-ed25519"

Point = tuple[int, int, int, int]
"""Extended homogeneous coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The file of the private key, and the line of the public one for `authorized_keys`."""

    private: str
    public: str


def new_key_pair(comment: str = "") -> KeyPair:
    """A pair from the system's random numbers."""
    return key_pair(secrets.token_bytes(32), secrets.token_bytes(4), comment)


def key_pair(seed: bytes, check: bytes, comment: str = "") -> KeyPair:
    """The pair of a seed of 32 bytes; `check` are 4 random bytes that the private file holds twice."""
    public = public_key(seed)
    blob = _string(_TYPE) + _string(public)
    body = check + check + blob + _string(seed + public) + _string(comment.encode())
    body += bytes(range(1, 1 + -len(body) % 8))
    plain = _string(b"none") + _string(b"none") + _string(b"")
    file = b"openssh-key-v1\0" + plain + struct.pack(">I", 1) + _string(blob) + _string(body)
    text = base64.b64encode(file).decode()
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    private = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])
    line = f"{_TYPE.decode()} {base64.b64encode(blob).decode()} {comment}".strip()
    return KeyPair(private, line + "\n")


def public_key(seed: bytes) -> bytes:
    """The public key of a seed (RFC 8032, section 5.1.5)."""
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    scalar &= (1 << 254) - 8
    scalar |= 1 << 254
    x, y, z, _ = _multiply(scalar, (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P))
    inverse = pow(z, -1, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _add(p: Point, q: Point) -> Point:
    """RFC 8032, section 5.1.4."""
    a = (p[1] - p[0]) * (q[1] - q[0]) % _P
    b = (p[1] + p[0]) * (q[1] + q[0]) % _P
    c = 2 * p[3] * q[3] * _D % _P
    d = 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _multiply(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value
