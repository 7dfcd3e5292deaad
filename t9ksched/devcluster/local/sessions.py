"""Commands beside the one of a container: with its environment, directory, mounts and cgroups, and below its
supervisor, so that they end with it.

A client connects to the socket `exec` in the container's folder, and sends a message with a JSON object `{argv,
terminal}` and three descriptors. The answer is `{"code": N}` once the command has ended, or `{"error": TEXT}`. A
command whose client has left is hung up. It imports the standard library alone, as `supervisor.py` does.
"""

import json
import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from t9ksched.devcluster.local import setup
from t9ksched.devcluster.local.setup import CannotStart, Spec

EXEC: Final = "exec"
MOST_BYTES: Final = 1 << 17
"""Of a message."""
_STREAMS: Final = 3


def place_of(folder: int) -> str:
    """The path of the socket in a folder that is open: it may have a longer path than sockets can."""
    return f"/proc/self/fd/{folder}/{EXEC}"


class Sessions:
    """The commands of one container. `poll` is told which descriptors are to be watched."""

    def __init__(self, folder: Path, spec: Spec, poll: select.poll) -> None:
        self._spec = spec
        self._poll = poll
        self._clients: dict[int, socket.socket] = {}
        self._running: dict[int, int] = {}
        """The processes, and the descriptors of their clients."""
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._listening.bind(place_of(descriptor))
        finally:
            os.close(descriptor)
        self._listening.listen()
        self._listening.setblocking(False)
        poll.register(self._listening, select.POLLIN)

    def take(self, descriptor: int, main: int) -> bool:
        """Do what a descriptor is ready for; False if it is none of these. `main` is the container's own process."""
        if descriptor == self._listening.fileno():
            with suppress(OSError):
                client, _ = self._listening.accept()
                self._clients[client.fileno()] = client
                self._poll.register(client, select.POLLIN)
            return True
        client = self._clients.get(descriptor)  # type: ignore[assignment]
        if client is None:
            return False
        if descriptor in self._running.values():
            self._leave(client)
        else:
            self._begin(client, main)
        return True

    def ended(self, pid: int, code: int) -> None:
        """A child has ended; one that a client waits for is told."""
        descriptor = self._running.pop(pid, None)
        if descriptor is not None and (client := self._clients.get(descriptor)) is not None:
            self._answer(client, {"code": code if code >= 0 else 128 - code})

    def _begin(self, client: socket.socket, main: int) -> None:
        streams: list[int] = []
        try:
            data, streams, _, _ = socket.recv_fds(client, MOST_BYTES, _STREAMS)
            asked = json.loads(data)
            terminal, (stdin, out, err) = bool(asked["terminal"]), streams
            spec: Spec = {**self._spec, "env": ({"TERM": "xterm"} if terminal else {}) | self._spec["env"]}
            pid = setup.spawn(spec, asked["argv"], out, err, stdin=stdin, beside=main, terminal=terminal)
            self._running[pid] = client.fileno()
        except CannotStart as error:
            self._answer(client, {"error": str(error)})
        except (OSError, ValueError, KeyError, TypeError):
            self._forget(client)  # it left, or is none of ours
        finally:
            for each in streams:
                os.close(each)

    def _leave(self, client: socket.socket) -> None:
        """Hang up the command of a client that has left."""
        for pid in [pid for pid, descriptor in self._running.items() if descriptor == client.fileno()]:
            del self._running[pid]
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGHUP)
        self._forget(client)

    def _answer(self, client: socket.socket, told: dict[str, object]) -> None:
        with suppress(OSError):
            client.send(json.dumps(told).encode())
        self._forget(client)

    def _forget(self, client: socket.socket) -> None:
        self._poll.unregister(client)
        del self._clients[client.fileno()]
        client.close()
