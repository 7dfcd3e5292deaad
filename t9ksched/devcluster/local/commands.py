"""A command in a container of this machine, for clients of the API server: its streams, its terminal, its end."""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from t9ksched.devcluster.local import sessions
from t9ksched.devcluster.nodes.containershell import Read, Write

KILLED: Final = 137
"""The exit code of a command that ended with its container."""
_PART: Final = 1 << 16
_LAST_WORDS_SECONDS: Final = 1.0
"""How long what was written last is waited for: a process that the command left behind may hold its output open."""


class NotRun(Exception):
    """The command could not be started; the text says why."""


class ProcessCommand:
    """One command.

    Args:
        folder: where the container is kept.
        read: reads standard input; None if it has none.
        write: writes standard output, and what a terminal shows.
        complain: writes standard error.
        terminal: whether it has a terminal of its own.
    """

    def __init__(self, folder: Path, read: Read | None, write: Write, complain: Write, *, terminal: bool) -> None:
        self._folder = folder
        self._read = read
        self._write = write
        self._complain = complain
        self._terminal = terminal
        self._screen = -1
        self._size = b""

    def resize(self, columns: int, rows: int) -> None:
        """Tell it the size of its terminal."""
        self._size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
        if self._screen >= 0:
            fcntl.ioctl(self._screen, termios.TIOCSWINSZ, self._size)

    async def run(self, argv: Sequence[str]) -> int:
        """The exit code of the command. It is hung up when this is cancelled.

        Raises:
            NotRun: it could not be started.
        """
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            client.setblocking(False)
            with contextlib.ExitStack() as theirs:
                given, typed, written = self._terminals(stack, theirs) if self._terminal else self._pipes(stack, theirs)
                self._ask(client, argv, given)
            passing = [asyncio.create_task(_pass_on(descriptor, write)) for descriptor, write in written]
            typing = [asyncio.create_task(self._type(*typed))] if typed is not None else []
            try:
                code = _told(await asyncio.get_running_loop().sock_recv(client, sessions.MOST_BYTES))
                await asyncio.wait(passing, timeout=_LAST_WORDS_SECONDS)
            finally:
                self._screen = -1
                for task in (*passing, *typing):
                    task.cancel()
                await asyncio.gather(*passing, *typing, return_exceptions=True)
            return code

    def _ask(self, client: socket.socket, argv: Sequence[str], streams: Sequence[int]) -> None:
        message = json.dumps({"argv": list(argv), "terminal": self._terminal}).encode()
        if len(message) > sessions.MOST_BYTES:
            raise NotRun("the command is too long")
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                client.connect(sessions.place_of(folder))
            finally:
                os.close(folder)
            socket.send_fds(client, [message], list(streams))
        except OSError as error:
            raise NotRun(f"the container has ended, or an earlier release started it: {error.strerror}") from None

    def _terminals(self, ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> "_Streams":
        screen, terminal = os.openpty()
        theirs.callback(os.close, terminal)
        typing = os.dup(screen)
        for descriptor in (screen, typing):
            ours.callback(os.close, descriptor)
            os.set_blocking(descriptor, False)
        self._screen = screen
        if self._size:
            fcntl.ioctl(screen, termios.TIOCSWINSZ, self._size)
        typed = (typing, None) if self._read is not None else None
        return (terminal, terminal, terminal), typed, [(screen, self._write)]

    def _pipes(self, ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> "_Streams":
        def pipe(ends: int) -> tuple[int, int]:
            """Of the two ends ours and theirs; ours is the one of that index."""
            both = os.pipe()
            os.set_blocking(both[ends], False)
            theirs.callback(os.close, both[1 - ends])
            return both[ends], both[1 - ends]

        out, err = pipe(0), pipe(0)
        for mine, _ in (out, err):
            ours.callback(os.close, mine)
        if self._read is None:
            nothing = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, nothing)
            return (nothing, out[1], err[1]), None, [(out[0], self._write), (err[0], self._complain)]
        keys = pipe(1)
        closing = ours.enter_context(contextlib.ExitStack())
        closing.callback(os.close, keys[0])
        return (keys[1], out[1], err[1]), (keys[0], closing.close), [(out[0], self._write), (err[0], self._complain)]

    async def _type(self, descriptor: int, end: Callable[[], None] | None) -> None:
        """Pass on standard input, to its end; `end` tells that of a pipe, on a terminal a key does."""
        assert self._read is not None
        with contextlib.suppress(OSError):  # nobody reads it any more
            while data := await self._read():
                while data:
                    try:
                        data = data[os.write(descriptor, data) :]
                    except BlockingIOError:
                        await _ready(descriptor, writing=True)
        if end is not None:
            end()


_Streams = tuple[tuple[int, int, int], tuple[int, Callable[[], None] | None] | None, list[tuple[int, Write]]]
"""What the command is given; where its standard input is written, and how that ends; what it writes, and whereto."""


async def _pass_on(descriptor: int, write: Write) -> None:
    """Pass on what is written, to the end."""
    while True:
        try:
            data = os.read(descriptor, _PART)
        except BlockingIOError:
            await _ready(descriptor, writing=False)
            continue
        except OSError:  # the end of a terminal
            return
        if not data:
            return
        await write(data)


async def _ready(descriptor: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _told(answer: bytes) -> int:
    """The exit code in an answer; of a supervisor that ended with its container, that of what was killed."""
    if not answer:
        return KILLED
    told: dict[str, Any] = json.loads(answer)
    if "error" in told:
        raise NotRun(str(told["error"]))
    return int(told["code"])
