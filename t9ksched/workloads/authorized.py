"""Lines of `authorized_keys`, as sshd reads them: options perhaps, the type of a key, the key in base64, a comment."""

import base64
import binascii
from itertools import pairwise


def is_useless(line: str) -> bool:
    """Whether sshd passes over a line: it is neither empty nor a comment, and has no public key."""
    text = line.strip()
    return bool(text) and not text.startswith("#") and not any(_is_key(*words) for words in pairwise(text.split()))


def _is_key(kind: str, text: str) -> bool:
    """Whether that is a key of that type: parts, each behind its length, of which the first names the type."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    parts, at = [], 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 4], "big")
        parts.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    return at == len(raw) and len(parts) > 1 and parts[0] == kind.encode()
