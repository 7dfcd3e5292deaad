"""Reading files that another program may replace at any moment, by a pipe or a device too.

Opening a pipe waits until it has a writer, and a device may never end. A thread that waits in `open` can be neither
cancelled nor joined, and so keeps the process from ending.
"""

import os
import stat
from pathlib import Path

_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class NotAFile(OSError):
    """What is there is no regular file, or larger than a file of its sort may be; `strerror` says what it is."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def read_file(path: Path | str, largest: int | None = None) -> bytes:
    """The content of a regular file of at most `largest` bytes. Does not wait for anything but the disk.

    Raises:
        OSError: it cannot be read, is another kind of file, or is larger; `strerror` is for people.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            raise NotAFile(0, f"it is {_KINDS.get(kind, 'a device')}, not a regular file", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        content = file.read(-1 if largest is None else largest + 1)
    if largest is not None and len(content) > largest:
        raise NotAFile(0, f"it is larger than {largest} bytes", str(path))
    return content
