"""Processes of the program that need not import it: forks of one process that has.

Reading all modules takes a service two to three seconds of a processor and a command half of one, which the tests from
outside would pay hundreds of times. `start` gives a module, run as `python -m` runs it, a process of its own with the
arguments, environment, folder and files it is given. What it does is the same but for the imports; that the program
also starts from nothing is for `tests/acceptance/test_start.py` to see.

The server is `python -m tests.forkserver ADDRESS`. It ends with the process that started it; what it forked goes on.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[1]
_MODULES: Final = ("t9ksched.cli.runtime", "t9ksched.cli.roles", "t9ksched.cli.demo.play", "tests.acceptance.cluster")
_LENGTH: Final = 8
_STREAMS: Final = 3
_STOPPED: Final = "stopped"
_STARTING: Final = threading.Lock()


class Process:
    """A module in a process of its own; as `subprocess.Popen`, as far as tests need that."""

    def __init__(self, line: socket.socket, stdout: IO[str] | None) -> None:
        self._line = line
        self._heard = b""
        self.stdout = stdout
        self.returncode: int | None = None
        self.pid = int(self._hear(None))

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; minus the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it has not ended by then.
        """
        while self.returncode is None:
            self._next(timeout)
        return self.returncode

    def stopped(self, timeout: float | None = None) -> bool:
        """Wait until it stands still; False if it ended instead.

        Raises:
            subprocess.TimeoutExpired: neither happened by then.
        """
        return self.returncode is None and self._next(timeout) == _STOPPED

    def _next(self, timeout: float | None) -> str:
        word = self._hear(timeout)
        if word != _STOPPED:
            self.returncode = int(word)
            self._line.close()
        return word

    def _hear(self, timeout: float | None) -> str:
        """The next line that the server sends."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._line, selectors.EVENT_READ)
            while b"\n" not in self._heard:
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired("the forked process", timeout or 0.0)
                more = self._line.recv(4096)
                assert more, "the server of forks has ended"
                self._heard += more
        word, _, self._heard = self._heard.partition(b"\n")
        return word.decode()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def start(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    *,
    stdin: IO[Any] | None = None,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
    piped: bool = False,
) -> Process:
    """Run a module; a stream that is not given is empty, or goes nowhere. With `piped` its output is `stdout` of what
    is returned.
    """
    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(Path(os.devnull).open("r+b", buffering=0))
        given = [(stream or nothing).fileno() for stream in (stdin, stdout, stderr)]
        reader = None
        if piped:
            reading, given[1] = os.pipe()
            stack.callback(os.close, given[1])
            reader = os.fdopen(reading)
        return Process(ask(_server(), module, arguments, environment, given, Path.cwd()), reader)


def run(
    module: str, arguments: Sequence[str], environment: dict[str, str], *, stdin: str = "", timeout: float
) -> tuple[int, str, str]:
    """Run a module to its end; its exit code, what it printed, and its errors."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = start(module, arguments, environment, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return code, texts[0], texts[1]


def address() -> str:
    """Where the server listens, for programs that ask it themselves."""
    return _server()


def _server() -> str:
    """Where the server listens, which is started once, whichever threads ask."""
    with _STARTING:
        return _start_server()


@cache
def _start_server() -> str:
    folder = tempfile.TemporaryDirectory(prefix="t9ksched-fork-")
    atexit.register(folder.cleanup)
    where = f"{folder.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forkserver", where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert server.stdin is not None
    assert server.stdout is not None
    atexit.register(_end, server)
    assert server.stdout.readline() == b"ready\n", "the server did not start"
    server.stdout.close()
    return where


def _end(server: "subprocess.Popen[bytes]") -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()


def ask(
    where: str, module: str, arguments: Sequence[str], environment: dict[str, str], files: Sequence[int], cwd: Path
) -> socket.socket:
    """Have a process started; a line on which the server tells its number, stops, and exit code."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(where)
    message = json.dumps([module, list(arguments), environment, str(cwd)]).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
    line.sendmsg([len(message).to_bytes(_LENGTH, "big")], rights)
    line.sendall(message)
    return line


class _Server:
    def __init__(self, where: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(where)
        self._listener.listen(64)
        self._lines: dict[int, socket.socket] = {}
        self._wakes, self._waker = socket.socketpair()
        for one in (self._wakes, self._waker):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno())

    def serve(self) -> tuple[str, list[str]] | None:
        """Fork on demand until our parent is gone. In each child it returns the module to run and its arguments."""
        with selectors.DefaultSelector() as selector:
            for file in (self._listener, self._wakes, sys.stdin):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wakes in ready:
                    self._wakes.recv(4096)
                    self._reap()
                if sys.stdin in ready:
                    return None
                if self._listener in ready:
                    asked = self._fork()
                    if asked is not None:
                        return asked

    def _reap(self) -> None:
        while self._lines:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if not pid:
                return
            if os.WIFSTOPPED(status):
                with contextlib.suppress(OSError):
                    self._lines[pid].sendall(f"{_STOPPED}\n".encode())
                continue
            with self._lines.pop(pid) as line, contextlib.suppress(OSError):
                line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())

    def _fork(self) -> tuple[str, list[str]] | None:
        line, _ = self._listener.accept()
        head, files, _, _ = socket.recv_fds(line, _LENGTH, _STREAMS)
        with line.makefile("rb") as reader:
            module, arguments, environment, cwd = json.loads(reader.read(int.from_bytes(head, "big")))
        pid = os.fork()
        if pid == 0:
            line.close()
            self._become(files, environment, cwd)
            return module, arguments
        for file in files:
            os.close(file)
        self._lines[pid] = line
        line.sendall(f"{pid}\n".encode())
        return None

    def _become(self, files: list[int], environment: dict[str, str], cwd: str) -> None:
        """Be a process as a shell starts it."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._listener, self._wakes, self._waker, *self._lines.values()):
            one.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        random.seed()


def _main(where: str) -> None:
    from t9ksched.cli.application import application

    application()
    for module in _MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    server = _Server(where)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    asked = server.serve()
    if asked is not None:
        os._exit(_run(*asked))


def _run(module: str, arguments: list[str]) -> int:
    """Run a module as `python -m` does, to its exit code.

    The process then ends as an interpreter does, except that modules are not taken down: that would copy all the memory
    that it shares with the server.
    """
    sys.argv[1:] = arguments
    code: int | str | None = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    _main(sys.argv[1])
