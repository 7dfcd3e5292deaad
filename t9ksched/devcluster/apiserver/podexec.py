"""`…/pods/NAME/exec`: a command in a container, over a WebSocket whose messages begin with the number of their channel
(`v4.channel.k8s.io`, and `v5` with the end of standard input). The older SPDY is not spoken: clients try this first.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.nodeagents import container_of, reach_node
from t9ksched.devcluster.apiserver.paths import Target
from t9ksched.devcluster.apiserver.status import StatusError, bad_request, internal
from t9ksched.devcluster.faults.faults import Faults
from t9ksched.devcluster.local.commands import NotRun, ProcessCommand
from t9ksched.devcluster.local.runtime import ID_PREFIX, folder_of
from t9ksched.devcluster.nodes.containershell import NoSuchCommand, Shell

Object = dict[str, Any]
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_TRUE: Final = ("true", "1")
_LOOK_SECONDS: Final = 0.5
_KILLED: Final = 137


class PodExec:
    """Answers requests for commands in containers."""

    def __init__(self, api: Api, faults: Faults, machine: Path | None = None) -> None:
        self._api = api
        self._faults = faults
        self._machine = machine
        """Where the containers of a node that is this machine are kept."""

    async def answer(self, request: web.BaseRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """One command, until it ends or the client leaves."""
        query = request.query
        pod = self._api.get(kind, target.namespace, target.name or "").object
        container = container_of(pod, query.get("container", ""))
        if not any(query.get(name) in _TRUE for name in ("stdin", "stdout", "stderr")):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        command = query.getall("command", [])
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        reach_node(self._api, self._faults, pod, f"/exec/{target.namespace}/{target.name}/{container}")
        if not _runs(pod, container):
            raise internal(f'unable to upgrade connection: container not found ("{container}")')
        socket = web.WebSocketResponse(protocols=PROTOCOLS)
        if not socket.can_prepare(request).ok:
            raise bad_request("Upgrade request required")
        await socket.prepare(request)
        session = _Session(socket, tty=query.get("tty") in _TRUE, stdin=query.get("stdin") in _TRUE)
        process = _process(pod, container)
        folder = folder_of(self._machine, process) if self._machine is not None and process else None
        with contextlib.suppress(ConnectionError):
            await session.run(pod, container, folder, command, lambda: self._still_runs(kind, pod, container))
        await socket.close()
        return socket

    def _still_runs(self, kind: Kind, pod: Object, container: str) -> bool:
        metadata = pod["metadata"]
        try:
            now = self._api.get(kind, metadata["namespace"], metadata["name"]).object
        except StatusError:
            return False
        return now["metadata"]["uid"] == metadata["uid"] and _runs(now, container)


class _Size(msgspec.Struct):
    Width: int
    Height: int


class _Session:
    """One command and its channels."""

    def __init__(self, socket: web.WebSocketResponse, *, tty: bool, stdin: bool) -> None:
        self._socket = socket
        self._tty = tty
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._open = stdin
        self._resize: Callable[[int, int], None] | None = None
        if not stdin:
            self._typed.put_nowait(b"")

    async def run(
        self, pod: Object, container: str, folder: Path | None, command: list[str], still_runs: Callable[[], bool]
    ) -> None:
        """Carry out the command, and tell how it ended: as killed when its container ends. `folder` is that of a
        container that is processes of this machine.
        """
        out, err = partial(self._send, STDOUT), partial(self._send, STDOUT if self._tty else STDERR)
        shell: Shell | ProcessCommand
        if folder is None:
            shell = Shell(pod, container, self._read, out, err, terminal=self._tty)
        else:
            typed = self._read if self._open else None
            shell = ProcessCommand(folder, typed, out, err, terminal=self._tty)
            self._resize = shell.resize
        running = asyncio.create_task(shell.run(command))
        listening = asyncio.create_task(self._listen())
        watching = asyncio.create_task(_until_over(still_runs))
        tasks = (running, listening, watching)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if running.done() or watching.done():
                status = _status(running, command[0]) if running.done() else _exited(_KILLED)
                await self._send(ERROR, msgspec.json.encode(status))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        """Take what the client sends, until it leaves."""
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == STDIN and data and self._open:
                await self._typed.put(data)
            elif channel == CLOSE and data[:1] == bytes([STDIN]) and self._open:
                self._open = False
                await self._typed.put(b"")
            elif channel == RESIZE and self._resize is not None:
                with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
                    size = msgspec.json.decode(data, type=_Size)
                    self._resize(size.Width, size.Height)

    async def _read(self) -> bytes:
        return await self._typed.get()

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)


async def _until_over(still_runs: Callable[[], bool]) -> None:
    while still_runs():  # noqa: ASYNC110 - what changes are objects that anybody writes
        await asyncio.sleep(_LOOK_SECONDS)


def _status(ended: "asyncio.Task[int]", name: str) -> Object:
    """How a command ended, as the error channel tells it."""
    error = ended.exception()
    if isinstance(error, NoSuchCommand | NotRun):
        text = str(error) if isinstance(error, NotRun) else f'exec: "{name}": executable file not found in $PATH'
        told = f"Internal error occurred: error executing command in container: failed to exec in container: {text}"
        return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": told, "code": 500}
    if error is not None:
        raise error
    return _exited(ended.result())


def _exited(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _process(pod: Object, container: str) -> str:
    """The ID of a container that is processes of this machine; an empty text for one that is not."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ids = (str(one.get("containerID")) for one in statuses if one.get("name") == container)
    return next((one for one in ids if one.startswith(ID_PREFIX)), "")


def _runs(pod: Object, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(one.get("name") == container and "running" in (one.get("state") or {}) for one in statuses)
