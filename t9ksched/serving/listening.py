"""A listening socket, bound before anything else starts, so that a port in use is known at once."""

import errno
import socket
from typing import Final

BACKLOG: Final = 1024
"""Connections that the operating system keeps until they are accepted."""


class PortInUse(OSError):
    """Nothing can listen there; the message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes a free one.

    Raises:
        PortInUse: the port is taken or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio switches Nagle's algorithm off: it would hold answers back for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} on {host} is in use by another program: choose another with --port") from None
        raise PortInUse(f"cannot listen on {host}:{port} ({error.strerror}): choose another with --port") from None
    listener.setblocking(False)
    return listener
