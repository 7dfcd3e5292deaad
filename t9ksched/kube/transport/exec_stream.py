"""A command in a container, as the API server carries it: one WebSocket, each message behind the number of its channel.

Spoken are `v5.channel.k8s.io` and `v4.channel.k8s.io`; with `v4` a server cannot be told that standard input has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import msgspec

from t9ksched.kube.errors import ApiError, Unreachable
from t9ksched.kube.port import STDERR, STDOUT

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255


class ExecStream:
    """A command that runs. Iterate over what it writes, as pairs of `STDOUT` or `STDERR` and bytes; then `exit_code`
    is how it ended. Close it.
    """

    def __init__(self, what: str, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._what = what
        self._socket = socket
        self._exit_code: int | None = None

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], bytes(message.data[1:])
            if channel == _ERROR and data:
                self._exit_code = _code(data)
            elif channel in (STDOUT, STDERR) and data:
                yield channel, data
        if self._exit_code is None:
            raise Unreachable(f"{self._what}: the connection broke before the command ended", sent=True)

    @property
    def exit_code(self) -> int:
        """How the command ended."""
        return self._exit_code or 0

    async def write(self, data: bytes) -> None:
        """Give it standard input; nothing once it has ended."""
        await self._send(_STDIN, data)

    async def end_input(self) -> None:
        """Tell it that standard input has ended."""
        if self._socket.protocol == PROTOCOLS[0]:
            await self._send(_CLOSE, bytes([_STDIN]))

    async def resize(self, width: int, height: int) -> None:
        """Tell it the size of the terminal."""
        await self._send(_RESIZE, msgspec.json.encode({"Width": width, "Height": height}))

    async def aclose(self) -> None:
        """Leave it; the container's runtime ends the command or not, as it sees fit."""
        await self._socket.close()

    async def _send(self, channel: int, data: bytes) -> None:
        if not self._socket.closed:
            await self._socket.send_bytes(bytes([channel]) + data)


def _code(raw: bytes) -> int:
    """The exit code in a Status.

    Raises:
        ApiError: the command was not run.
    """
    try:
        status: Any = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        raise ApiError(500, "InternalError", raw.decode(errors="replace")) from None
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    told = next((str(one.get("message")) for one in causes if one.get("reason") == "ExitCode"), "")
    if not told.isdecimal():
        message = str(status.get("message") or "the command was not run")
        raise ApiError(int(status.get("code") or 500), str(status.get("reason") or ""), message)
    return int(told)
