"""Whether ordinary transactions can be written: why the last that failed did, and whether a disk has room."""

import os
from pathlib import Path
from typing import Final

from t9ksched.store.errors import DatabaseBusy, DatabaseFull, DatabaseUnreachable, StoreError

LEAST_BYTES: Final = 1 << 20
"""With less room than this the disk counts as full: the files of the database keep some space that small writes can
use again, long after larger ones fail.
"""


class Writability:
    """What the writes of this process met. `fault` is why a write failed, until a proof that writes succeed again."""

    def __init__(self) -> None:
        self.fault: StoreError | None = None

    def note(self, error: StoreError) -> StoreError:
        """Keep the error of a write if others may fail of the same cause, not if its content was refused."""
        if isinstance(error, DatabaseUnreachable | DatabaseBusy):
            self.fault = error
        return error

    def proved(self, fault: StoreError | None) -> None:
        """Writes succeed, as a proof showed that began after `fault`."""
        if self.fault is fault:
            self.fault = None


def check_room(file: Path) -> None:
    """See that the disk of `file` has room. A file system that does not say how large it is counts as one that has.

    Raises:
        DatabaseFull: it has not.
    """
    try:
        disk = os.statvfs(file.parent)
    except OSError:
        return  # the write that follows says what is wrong
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if disk.f_blocks and blocks * disk.f_frsize < LEAST_BYTES:
        raise DatabaseFull(f"the disk of {file} has {blocks * disk.f_frsize} bytes left: make room on it")
