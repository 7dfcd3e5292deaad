"""The containers of this machine: starting them, ending them, and finding them again.

A run of a container is a folder, `pods/UID/CONTAINER/NUMBER`, kept by the supervisor over it (`supervisor.py`). All
that is known of it stands there, so that a runtime that is made on the same folder goes on where the last one stopped.
A supervisor that was killed is noticed by its lock; what is left of its container is found by a variable that all its
processes have, and ended.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from t9ksched.devcluster.local import supervisor
from t9ksched.devcluster.local.setup import Spec

ID_VARIABLE: Final = "T9K_CONTAINER_ID"
"""In the environment of every process of a container: which one it is."""
ID_PREFIX: Final = "local://"
LOST: Final = "ContainerStatusUnknown"
_LOST_CODE: Final = 137
_ROOT: Final = Path(__file__).resolve().parents[3]
_BEGIN: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from t9ksched.devcluster.local import {0} as m; {1}"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Attempt:
    """One run of a container: its number from 0, and what is known of it. `ended` is None while it runs."""

    id: str
    number: int
    started: float
    ended: float | None = None
    code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""
    pid: int = 0


def folder_of(root: Path, container: str) -> Path:
    """Where a container is kept that has this ID."""
    return root / "pods" / container.removeprefix(ID_PREFIX)


def _python(module: str, call: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _BEGIN.format(module, call), str(_ROOT), *arguments]


async def mounts_possible() -> str:
    """Why processes cannot have mounts of their own on this machine; an empty text if they can."""
    words = _python("setup", "sys.stdout.write(m.possible())")
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode().strip()


class Runtime:
    """The containers below a folder. `changed` is called with the UID of a pod when one of its containers ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: Callable[[str], None] = lambda uid: None
        self._watched: dict[int, str] = {}
        """Descriptors of supervisors, and the IDs of their containers."""
        self._pods = root / "pods"
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._pods.mkdir(exist_ok=True, mode=0o700)

    def pods(self) -> list[str]:
        """UIDs of the pods that have a folder here."""
        return sorted(entry.name for entry in self._pods.iterdir())

    def pod_folder(self, uid: str) -> Path:
        """The folder of a pod, made if missing."""
        folder = self._pods / uid
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def attempts(self, uid: str, container: str) -> list[Attempt]:
        """The runs of a container that are remembered, oldest first."""
        folder = self._pods / uid / "containers" / container
        numbers = sorted(int(entry.name) for entry in folder.iterdir()) if folder.is_dir() else []
        found = (_read(folder / str(number), self._id(folder / str(number))) for number in numbers)
        return [attempt for attempt in found if attempt is not None]

    def _id(self, folder: Path) -> str:
        return f"{ID_PREFIX}{folder.relative_to(self._pods)}"

    async def start(self, uid: str, container: str, number: int, spec: Spec) -> None:
        """Start a container; afterwards it runs, or its run has ended with `StartError`."""
        folder = self.pod_folder(uid) / "containers" / container / str(number)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder.with_name(str(number - 2)))  # the run before stays, for its log
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)  # the start of one was interrupted
        folder.mkdir(parents=True, mode=0o700)
        spec["id"] = self._id(folder)
        spec["env"][ID_VARIABLE] = spec["id"]
        _write_private(folder / supervisor.SPEC, json.dumps(spec))
        words = _python("supervisor", "sys.exit(m.run(sys.argv[1]))", str(folder))
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8"}
        )
        await process.wait()
        if not self._watch(folder):
            self._lost(folder)

    def stop(self, uid: str, grace: float) -> bool:
        """Tell all containers of a pod that run to end within so many seconds; False if none runs."""
        running = [folder for folder in self._folders(uid) if (seen := _read(folder, "")) and seen.ended is None]
        for folder in running:
            self._order(folder, f"stop {grace}\n")
        return bool(running)

    def stop_container(self, container: str, grace: float) -> None:
        """Tell one container to end within so many seconds."""
        self._order(folder_of(self.root, container), f"stop {grace}\n")

    def _order(self, folder: Path, line: str) -> None:
        try:
            pipe = os.open(folder / supervisor.CONTROL, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # it is ending, which is noticed
        with open(pipe, "w") as file:
            file.write(line)

    def forget(self, uid: str) -> None:
        """Remove the folder of a pod whose containers have ended."""
        shutil.rmtree(self._pods / uid, ignore_errors=True)

    async def end(self, uid: str) -> None:
        """End the containers of a pod at once, and remove its folder."""
        while self.stop(uid, 0):  # noqa: ASYNC110 - what ends are other processes
            await asyncio.sleep(0.02)
        self.forget(uid)

    # -- supervisors ---------------------------------------------------------------------------------------------------

    def adopt(self) -> tuple[int, int]:
        """Find the containers of an earlier runtime: how many run on, and how many were lost and are ended now."""
        kept = lost = 0
        for uid in self.pods():
            for folder in self._folders(uid):
                seen = _read(folder, "")
                if seen is not None and seen.ended is not None:
                    continue
                if self._watch(folder):
                    kept += 1
                elif seen is None and not (folder / supervisor.LOCK).exists():
                    shutil.rmtree(folder)  # never begun
                else:
                    lost += 1
                    self._lost(folder)
        return kept, lost

    def _folders(self, uid: str) -> list[Path]:
        return list((self._pods / uid / "containers").glob("*/[0-9]*"))

    def _watch(self, folder: Path) -> bool:
        """Follow the supervisor of a container, if it lives or has ended in order."""
        try:
            pid = int((folder / supervisor.LOCK).read_text())
            descriptor = os.pidfd_open(pid)
        except (OSError, ValueError):
            return _ended(folder)
        if not _locked(folder):  # another process may have its number
            os.close(descriptor)
            return _ended(folder)
        self._watched[descriptor] = self._id(folder)
        asyncio.get_running_loop().add_reader(descriptor, self._gone, descriptor, folder)
        return True

    def _gone(self, descriptor: int, folder: Path) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._watched.pop(descriptor, None)
        if folder.exists() and not _ended(folder):
            self._lost(folder)
        self.changed(folder.parents[2].name)

    def _lost(self, folder: Path) -> None:
        """The supervisor was killed, or never came to work: end what it left, and note that."""
        container = self._id(folder)
        ended = end_processes(container)
        message = "the process that watched over it was ended from outside"
        if ended:
            message += f", so its {ended} processes were ended too" if ended > 1 else ", so its process was ended too"
        _log.warning("a container was lost", container=container, processes=ended)
        state = _state(folder)
        now = time.time()
        state |= {"started": state.get("started", now), "ended": now, "code": _LOST_CODE, "signal": None}
        supervisor.write_state(folder, state | {"reason": LOST, "message": message})

    @property
    def running(self) -> int:
        """How many containers run."""
        return len(self._watched)

    def close(self) -> None:
        """Follow nobody any more; containers run on."""
        for descriptor in self._watched:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()


def end_processes(container: str) -> int:
    """Kill every process that says it is of this container; how many there were."""
    mark = f"{ID_VARIABLE}={container}\0".encode()
    ended: set[int] = set()
    while True:
        alive = [pid for pid in _all_processes() if mark in _environment(pid) + b"\0"]
        if not alive:
            return len(ended)
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(alive)


def _write_private(path: Path, text: str) -> None:
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "environ").read_bytes()  # empty of one that has ended and is not reaped yet
    except OSError:
        return b""


def _locked(folder: Path) -> bool:
    """Whether the supervisor of a container lives."""
    with open(folder / supervisor.LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _state(folder: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((folder / supervisor.STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return state


def _ended(folder: Path) -> bool:
    return "ended" in _state(folder)


def _read(folder: Path, container: str) -> Attempt | None:
    state = _state(folder)
    if "started" not in state:
        return None
    ended = state.get("ended")
    return Attempt(
        container,
        int(folder.name),
        state["started"],
        ended,
        state.get("code", 0),
        state.get("signal"),
        state.get("reason", ""),
        state.get("message", ""),
        state.get("pid", 0),
    )
