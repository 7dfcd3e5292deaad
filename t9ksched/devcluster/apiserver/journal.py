"""The dev cluster's objects on disk: one JSON line for each write, appended before the write is acknowledged.

Each line reaches the operating system before `record` returns, so killing the process loses nothing that was
acknowledged. At start the journal is read, a torn last line is dropped, and the file is rewritten with one line per
object. A lock keeps a second process away from the same directory.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.regular_file import read_file

_NAME: Final = "cluster.journal"
_LOCK: Final = "cluster.lock"
_REMEDY: Final = (
    "The file was changed or the disk is damaged:"
    " restore it from a copy, remove the line, or move the file away to start an empty cluster"
)
Faults = Callable[[Storage], Iterable[tuple[str, str, str]]]
"""Collection, key and fault of each object that cannot be used."""


class Line(msgspec.Struct, array_like=True):
    """One write: collection, key, version, and the object or None for a removal."""

    collection: str
    key: str
    version: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    object: dict[str, Any] | None


class DirectoryInUse(RuntimeError):
    """Another process keeps its cluster in this directory."""


class CannotRecord(RuntimeError):
    """A write could not be appended, and is not done; the message is what a real API server passes on from etcd."""


class CorruptJournal(RuntimeError):
    """The journal is damaged before its last line, so that acknowledged writes may be missing."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


def replay(data: bytes, storage: Storage, where: str = _NAME, faults: Faults | None = None) -> None:
    """Bring the storage to the state that the journal's bytes describe; bytes after the last newline are ignored.

    Raises:
        CorruptJournal: a complete line cannot be read, or the object of one cannot be used.
    """
    newest = storage.version
    numbers: dict[tuple[str, str], int] = {}
    for number, raw in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            line = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptJournal(f"{where}, line {number}: {error}. {_REMEDY}") from None
        newest = max(newest, line.version)
        numbers[line.collection, line.key] = number
        if line.object is not None:
            storage.load(line.collection, line.key, line.version, line.object)
        elif line.collection:
            storage.forget(line.collection, line.key)
    for collection, key, fault in faults(storage) if faults else ():
        number = numbers[collection, key]
        raise CorruptJournal(f"{where}, line {number} ({collection} {key}): {fault}. {_REMEDY}")
    storage.version = storage.start = newest
    for kept in storage.collections.values():
        kept.floor = newest


class Journal:
    """An open journal in a directory that this process alone uses until `close`.

    Args:
        directory: where it is; made if there is none.
        faults: finds, when the journal is opened, the objects in it that cannot be used.
    """

    def __init__(self, directory: Path, faults: Faults | None = None) -> None:
        self._faults = faults
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / _NAME
        self._lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise DirectoryInUse(
                f"{directory} is in use by another process: stop that one first, or choose another directory"
            ) from None
        self._file = -1
        self._size = 0

    def open(self) -> Storage:
        """Read what is there, rewrite it compactly, and return a storage that records its writes here.

        Raises:
            CorruptJournal: what is there cannot be read or used; the file stays as it is.
        """
        storage = Storage()
        try:
            if self.path.exists():
                replay(self._read(), storage, str(self.path), self._faults)
            self._rewrite(storage)
        except BaseException:
            self.close()
            raise
        storage.recorder = self
        return storage

    def _read(self) -> bytes:
        try:
            return read_file(self.path)
        except OSError as error:
            raise CorruptJournal(f"{self.path} cannot be read: {error.strerror}. {_REMEDY}") from None

    def _rewrite(self, storage: Storage) -> None:
        fresh = self.path.with_suffix(".new")
        with open(fresh, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            for name, entry in storage.everything():
                file.write(_encode(Line(name, entry.key, entry.version, entry.object)) + b"\n")
            file.write(_encode(Line("", "", storage.version, None)) + b"\n")  # the counter never goes back
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self._size = os.fstat(self._file).st_size

    def record(self, collection: str, key: str, version: int, obj: dict[str, Any] | None) -> None:
        """Append one write and hand it to the operating system.

        Raises:
            CannotRecord: the disk took none of it, or not all.
        """
        line = memoryview(_encode(Line(collection, key, version, obj)) + b"\n")
        end = self._size + len(line)
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)  # half a line would spoil the next one
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise CannotRecord(
                "etcdserver: mvcc: database space exceeded" if full else f"etcdserver: {error.strerror}"
            ) from error
        self._size = end

    def close(self) -> None:
        """Release the directory; safe to call twice."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1
