"""Objects nested so deep that a decoder would run out of stack: what is deeper than any real object is cut off.

Kinds that keep unknown fields accept thousands of levels from any user who may create objects of the kind. One such
object would make the whole list or watch unreadable, and with it all other users' objects.
"""

import re
from typing import Final

DEPTH: Final = 200
"""Levels that are kept; no object that means anything has a quarter of them."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def shallow(text: bytes) -> bytes:
    """The JSON text with `null` for lists and mappings deeper than `DEPTH` levels; in one pass, without recursion."""
    parts: list[bytes] = []
    depth = kept = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in (b"[", b"{"):
            depth += 1
            if depth == DEPTH + 1:
                parts += (text[kept : token.start()], b"null")
        elif sign in (b"]", b"}"):
            if depth == DEPTH + 1:
                kept = token.end()
            depth -= 1
    return b"".join((*parts, text[kept:])) if depth <= DEPTH else text
