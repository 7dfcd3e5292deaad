"""Limits of connections and their timeouts; the settings of the program fill in the first two."""

from dataclasses import dataclass
from typing import Final

EXEMPT_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/metrics"})
"""What a connection of the reserve may ask, and what no limit of requests counts."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one server.

    A connection waits for a request head from its start, or from the first byte after an answer, for at most
    `head_seconds`. Between two requests it may be idle for `idle_seconds`. While a request is answered no timeout runs,
    so that watches and streams stay; but a client that takes none of the bytes written to it for `write_seconds` is
    cut off.
    """

    connections: int = 2000
    """Connections at the same time."""
    per_address: int = 1000
    """Connections of one address at the same time; of IPv6, of one /64 network."""
    reserve: int = 16
    """Connections beyond `connections`, which may ask `EXEMPT_PATHS` only."""
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    write_seconds: float = 30.0
