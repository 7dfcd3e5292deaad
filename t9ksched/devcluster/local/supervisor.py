"""The process over one container: starts its command, writes its log, ends it, and remembers how it ended.

`run(folder)` reads `spec.json` there and returns once the command runs or could not be started; a daemon stays behind
that outlives whoever called. It holds a lock on `lock` as long as it lives, obeys lines in the pipe `control` (`stop
SECONDS`), runs further commands in the container (`sessions.py`), and keeps `state.json` and `log` (in the format of
CRI). When the command ends, all its descendants are ended too, also those that became daemons. It imports the standard
library alone, so that it starts fast and stays small.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from t9ksched.devcluster.local import setup
from t9ksched.devcluster.local.sessions import Sessions
from t9ksched.devcluster.local.setup import CannotStart, Spec

SPEC: Final = "spec.json"
STATE: Final = "state.json"
LOCK: Final = "lock"
CONTROL: Final = "control"
LOG: Final = "log"
OLD_LOG: Final = "log.1"
MOST_LOG_BYTES: Final = 64 << 20
"""After which a log is put aside and begun anew; one that is put aside is kept."""
START_ERROR: Final = "StartError"
CANNOT_EXECUTE: Final = 128
"""The exit code that containerd gives a container whose command could not be started."""
_LONGEST_LINE: Final = 16 << 10
_LEAST_GRACE: Final = 2.0
"""Seconds that a command always has after its preStop hook."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER


def run(folder: str) -> int:
    """Start the container that the folder describes; 0 once that was tried. Its state says how it went."""
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        return 0 if os.read(ready, 1) else 1
    os.close(ready)
    os.setsid()
    os.chdir("/")
    place = Path(folder)
    errors = os.open(place / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, descriptor in enumerate((nothing, nothing, errors)):
        os.dup2(descriptor, number)
    Supervisor(place).work(tell)
    return 0


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Put the state in place of the one before, in one step."""
    fresh = folder / f"{STATE}.new"
    fresh.write_text(json.dumps(state))
    fresh.replace(folder / STATE)


class Supervisor:
    """The daemon over one container."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, str(os.getpid()).encode())
        self._spec: Spec = json.loads((folder / SPEC).read_bytes())
        (folder / SPEC).unlink()  # it may hold secrets
        os.mkfifo(folder / CONTROL, 0o600)
        self._control = os.open(folder / CONTROL, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._sessions = Sessions(folder, self._spec, self._poll)
        self._state: dict[str, Any] = {"supervisor": os.getpid()}
        self._main = 0
        self._hooks: dict[int, str] = {}
        self._ended: int | None = None
        self._kill_at: float | None = None
        self._term_at: float | None = None
        self._stopping = False
        self._told = False
        """Whether it got its stop signal."""
        self._logs: dict[int, Log] = {}

    def work(self, tell: int) -> None:
        """Start the command, tell that this was tried, and stay until nothing of it is left."""
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop(30.0))
        try:
            self._start()
        except CannotStart as error:
            self._finish(CANNOT_EXECUTE, START_ERROR, str(error))
            os.write(tell, b"!")
            return
        write_state(self._folder, self._state)
        os.write(tell, b"!")
        os.close(tell)
        if hook := self._spec.get("postStart"):
            self._hook("postStart", hook)
        self._follow()
        self._end_all()
        for log in self._logs.values():
            log.drain()
        assert self._ended is not None
        code = os.waitstatus_to_exitcode(self._ended)
        self._finish(code if code >= 0 else 128 - code, number=-code if code < 0 else None)

    def _start(self) -> None:
        sink = LogFile(self._folder)
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        self._main = setup.spawn(self._spec, self._spec["argv"], *(writing for _, writing in pipes.values()))
        self._state |= {"pid": self._main, "started": time.time()}
        for stream, (reading, writing) in pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self._logs[reading] = Log(reading, stream, sink)

    def _finish(self, code: int, reason: str = "", message: str = "", number: int | None = None) -> None:
        now = time.time()
        self._state.setdefault("started", now)
        said = self._state.get("message", "")
        self._state |= {"ended": self._state.get("ended", now), "code": code, "signal": number}
        self._state |= {"reason": reason, "message": message or said}
        write_state(self._folder, self._state)

    # -- until the command ends ----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        poll = self._poll
        for descriptor in (self._control, self._woken, *self._logs):
            poll.register(descriptor, select.POLLIN)
        while self._ended is None:
            for descriptor, _ in poll.poll(self._patience()):
                if descriptor == self._control:
                    self._obey()
                elif descriptor == self._woken:
                    os.read(descriptor, 4096)
                elif self._sessions.take(descriptor, self._main):
                    continue
                elif not self._logs[descriptor].read():
                    poll.unregister(descriptor)
            self._reap()
            self._on_time()

    def _patience(self) -> float | None:
        times = [at for at in (None if self._told else self._term_at, self._kill_at) if at is not None]
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _obey(self) -> None:
        for line in os.read(self._control, 4096).decode(errors="replace").splitlines():
            word, _, seconds = line.partition(" ")
            if word == "stop":
                self._stop(float(seconds))

    def _reap(self) -> bool:
        """Take in who has ended; False when nobody is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self._main:
                    self._ended = status
                    self._state["ended"] = time.time()
                elif hook := self._hooks.pop(pid, ""):
                    self._hook_ended(hook, os.waitstatus_to_exitcode(status))
                else:
                    self._sessions.ended(pid, os.waitstatus_to_exitcode(status))
        except ChildProcessError:
            return False

    # -- stopping ------------------------------------------------------------------------------------------------------

    def _stop(self, grace: float) -> None:
        """End the command within so many seconds; a later order can only shorten them."""
        now = time.monotonic()
        first, self._stopping = not self._stopping, True
        self._kill_at = now + grace if self._kill_at is None else min(now + grace, self._kill_at)
        hook = self._spec.get("preStop")
        if grace <= 0:
            self._told = True  # no time to tell it anything
        elif first and hook:
            self._hook("preStop", hook)
        elif first:
            self._term_at = now

    def _hook(self, name: str, hook: dict[str, Any]) -> None:
        if "sleep" in hook:
            if name == "preStop":
                self._term_at = time.monotonic() + float(hook["sleep"])
            return
        nothing = os.open(os.devnull, os.O_WRONLY)
        try:
            self._hooks[setup.spawn(self._spec, hook["exec"], nothing, nothing)] = name
        except CannotStart:
            self._hook_ended(name, CANNOT_EXECUTE)
        finally:
            os.close(nothing)

    def _hook_ended(self, name: str, code: int) -> None:
        if name == "preStop":
            self._term_at = time.monotonic()
        elif code:
            self._state["message"] = f"its postStart hook ended with exit code {code}"
            self._stop(_LEAST_GRACE)

    def _on_time(self) -> None:
        now = time.monotonic()
        if self._term_at is not None and self._term_at <= now and not self._told:
            self._told = True
            self._signal(signal.Signals[self._spec.get("stopSignal") or "SIGTERM"])
        if self._kill_at is not None and self._kill_at <= now:
            if self._told:
                self._kill_at = None
                self._signal(signal.SIGKILL)
            else:  # its hook took all the time there was
                self._term_at, self._kill_at = now, now + _LEAST_GRACE

    def _signal(self, number: int) -> None:
        if self._ended is None:
            os.kill(self._main, number)  # not reaped yet, so the number is still its own

    def _end_all(self) -> None:
        """End every descendant, also those whose parents are gone: they have become children of this process."""
        while self._reap():
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            for log in self._logs.values():
                log.read()
            time.sleep(0.005)


def descendants(of: int) -> list[int]:
    """All processes below one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(name))
    found: list[int] = []
    ahead = [of]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


class LogFile:
    """Where the lines of a container go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, lines: bytes) -> None:
        """Append lines; they are lost when the disk is full."""
        if self._size + len(lines) > MOST_LOG_BYTES:
            os.close(self._file)
            (self._folder / LOG).replace(self._folder / OLD_LOG)
            self._open()
        try:
            self._size += os.write(self._file, lines)
        except OSError:
            return


class Log:
    """One stream of a container on its way to the log."""

    def __init__(self, reading: int, stream: str, sink: LogFile) -> None:
        self._reading = reading
        self._stream = stream.encode()
        self._sink = sink
        self._rest = b""
        self._open = True

    def read(self) -> bool:
        """Take what is there; False at the end of the stream."""
        if not self._open:
            return False
        try:
            data = os.read(self._reading, 65536)
        except BlockingIOError:
            return True
        if not data:
            self._open = False
            os.close(self._reading)
            self._put([self._rest] if self._rest else [], b"F")
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._put(lines, b"F")
        while len(self._rest) > _LONGEST_LINE:
            self._put([self._rest[:_LONGEST_LINE]], b"P")
            self._rest = self._rest[_LONGEST_LINE:]
        return True

    def drain(self) -> None:
        """Take what is left once nobody writes any more."""
        while self.read():
            continue

    def _put(self, lines: list[bytes], tag: bytes) -> None:
        if lines:
            now = time.time_ns()
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
            before = b"%b.%09dZ %b %b " % (moment.encode(), now % 10**9, self._stream, tag)
            self._sink.write(b"".join(before + line + b"\n" for line in lines))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
