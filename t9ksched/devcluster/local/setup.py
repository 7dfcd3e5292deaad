"""How the command of a container is started: a child process in a mount namespace of its own, where names of pods
resolve and volumes are mounted, within its cgroups, with nothing of ours but what the specification says.

Root needs no more for a mount namespace; others get it within a user namespace, where they stay who they are.
It imports the standard library alone, as `supervisor.py` does.
"""

import ctypes
import fcntl
import os
import signal
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_SPACES: Final = (("user", _NEW_USER), ("mnt", _NEW_MOUNTS))
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND, _REC, _SLAVE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 19
_NO_ATIME, _NO_DIR_ATIME, _RELATIVE_ATIME = 1 << 10, 1 << 11, 1 << 21
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_EVERY_SIGNAL: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, signal.SIGXFSZ)


class Mount(TypedDict):
    """A directory or file and where it is to be seen; an empty `source` is a new tmpfs."""

    source: str
    target: str
    readOnly: bool


class Spec(TypedDict):
    """One container, as `spec.json` has it. `namespace` says whether it has mounts of its own; `root` is an empty
    folder for a root directory of its own, needed where a mount is below a directory of `/` that is not there.
    """

    id: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    namespace: bool
    root: str
    mounts: list[Mount]
    cgroups: list[str]
    stopSignal: NotRequired[str]
    preStop: NotRequired[dict[str, Any]]
    postStart: NotRequired[dict[str, Any]]


class CannotStart(Exception):
    """The command cannot be started; the text says why."""


def spawn(
    spec: Spec, argv: Sequence[str], out: int, err: int, *, stdin: int = -1, beside: int = 0, terminal: bool = False
) -> int:
    """Start a command as the specification says, its output to the descriptors; its process ID.

    Args:
        spec: of the container.
        argv: the command.
        out: standard output.
        err: standard error.
        stdin: standard input; without one there is nothing to read.
        beside: the process whose mounts it shares; without one it gets its own.
        terminal: whether standard input is a terminal, which becomes its own.

    Raises:
        CannotStart: it cannot be found, or not be run, or something it needs cannot be mounted.
    """
    failed, report = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            _become(spec, parent, beside)
            _connect(stdin, out, err, terminal=terminal)
            _begin(spec, argv)
        except BaseException as error:
            os.write(report, str(error).encode()[:4000])
        os._exit(127)
    os.close(report)
    with open(failed, "rb") as file:
        text = file.read().decode(errors="replace")
    if text:
        os.waitpid(pid, 0)
        raise CannotStart(text)
    return pid


def _become(spec: Spec, parent: int, beside: int) -> None:
    os.setsid()
    for path in spec["cgroups"]:
        Path(path).write_text(str(os.getpid()))
    if spec["namespace"] and beside:
        _join(beside)
    elif spec["namespace"]:
        enter(spec["mounts"], spec["root"])
    _libc().prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)
    signal.set_wakeup_fd(-1)
    for each in _EVERY_SIGNAL:
        signal.signal(each, signal.SIG_DFL)


def _connect(stdin: int, out: int, err: int, *, terminal: bool) -> None:
    reading = os.open(os.devnull, os.O_RDONLY) if stdin < 0 else stdin
    for number, descriptor in enumerate((reading, out, err)):
        os.dup2(descriptor, number)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _begin(spec: Spec, argv: Sequence[str]) -> None:
    os.umask(0o022)
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        raise CannotStart(f"the working directory {spec['cwd']!r}: {error.strerror}") from None
    _execute(argv, spec["env"])


def _execute(argv: Sequence[str], env: dict[str, str]) -> None:
    try:
        os.execvpe(argv[0], list(argv), env)
    except FileNotFoundError:
        where = "no such file or directory" if "/" in argv[0] else "executable file not found in $PATH"
    except OSError as error:
        where = (error.strerror or str(error)).lower()
    raise CannotStart(f'exec: "{argv[0]}": {where}')


def enter(mounts: Sequence[Mount], root: str = "") -> None:
    """Have this process see these mounts, and no other process.

    Raises:
        CannotStart: this machine does not let it, or a mount is not possible.
    """
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _check(_libc().unshare(_NEW_MOUNTS), "a mount namespace")
    else:
        _check(_libc().unshare(_NEW_USER | _NEW_MOUNTS), "a user namespace")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", "/", _REC | _SLAVE)
    if root:
        _own_root(root, mounts)
    for mount in mounts:
        target = root + mount["target"]
        if not mount["source"]:
            _mount("tmpfs", target, _NO_SUID | _NO_DEV, "tmpfs")
            continue
        _mount(mount["source"], target, _BIND | _REC)
        if mount["readOnly"]:
            _mount("none", target, _BIND | _REMOUNT | _READ_ONLY | _flags(target))
    if root:
        os.chroot(root)
        os.chdir("/")


def _join(pid: int) -> None:
    """Have this process see what another one sees.

    Raises:
        CannotStart: that has ended.
    """
    try:
        root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
        spaces = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind) for name, kind in _SPACES]
        own = [os.stat(f"/proc/self/ns/{name}").st_ino for name, _ in _SPACES]
    except OSError as error:
        raise CannotStart(f"the container has ended: {error.strerror}") from None
    for (descriptor, kind), number in zip(spaces, own, strict=True):
        if os.fstat(descriptor).st_ino != number:
            _check(_libc().setns(descriptor, kind), "a namespace of the container")
    os.fchdir(root)
    os.chroot(".")


def _own_root(root: str, mounts: Sequence[Mount]) -> None:
    """Make a root directory with all that the real one has, and the directories and files that something is mounted
    over.
    """
    _mount("tmpfs", root, _NO_SUID | _NO_DEV, "tmpfs", "mode=755")
    for entry in os.scandir("/"):
        there = f"{root}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
        elif entry.is_dir():
            os.mkdir(there)
            _mount(entry.path, there, _BIND | _REC)
        else:
            Path(there).touch()
            _mount(entry.path, there, _BIND)
    for mount in mounts:
        target = root + mount["target"]
        if os.path.exists(target):
            continue
        if os.path.isfile(mount["source"]):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            Path(target).touch()
        else:
            os.makedirs(target)


def possible() -> str:
    """Why processes of this user cannot have mounts of their own here; an empty text if they can."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            enter([{"source": "/etc/hosts", "target": "/etc/hosts", "readOnly": True}])
        except (CannotStart, OSError) as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def _flags(target: str) -> int:
    """The flags that a mount has already: a user namespace may not take them away."""
    had = os.statvfs(target).f_flag
    known = {
        os.ST_NOSUID: _NO_SUID,
        os.ST_NODEV: _NO_DEV,
        os.ST_NOEXEC: _NO_EXEC,
        os.ST_NOATIME: _NO_ATIME,
        os.ST_NODIRATIME: _NO_DIR_ATIME,
        os.ST_RELATIME: _RELATIVE_ATIME,
    }
    return sum(flag for bit, flag in known.items() if had & bit)


def _mount(source: str, target: str, flags: int, kind: str = "", data: str = "") -> None:
    arguments = [text.encode() for text in (source, target, kind)]
    _check(_libc().mount(*arguments, ctypes.c_ulong(flags), data.encode()), f"a mount at {target}")


def _check(result: int, what: str) -> None:
    if result:
        raise CannotStart(f"{what}: {os.strerror(ctypes.get_errno())}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    sys.stdout.write(possible())
