"""The data directory: where `up` keeps the database, the dev cluster's objects, its kubeconfig and `client.json`.

`client.json` is described in `t9ksched.client.known`. A lock makes sure that one process at a time owns the directory;
the kernel releases it when the process dies, however it dies.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

from t9ksched.cli.failure import Failure
from t9ksched.client.errors import ClientError
from t9ksched.client.known import ClientFile


def database_url(data_dir: Path) -> str:
    """The SQLite database that lives in a data directory."""
    return f"sqlite:///{(data_dir / 't9ksched.db').absolute()}"


def remembered(data_dir: Path) -> ClientFile | None:
    """What `client.json` says, None when there is none. Raises Failure when it cannot be understood."""
    try:
        return ClientFile.read(data_dir)
    except ClientError as error:
        raise unreadable(error) from error


def unreadable(error: ClientError) -> Failure:
    """The failure of a `client.json` that cannot be understood."""
    return Failure(str(error), remedy="Remove it and start `t9ksched up` again, or pass --server and --token.")


def lock(data_dir: Path) -> IO[str]:
    """Own `data_dir` (made if missing) until the returned file is closed or the process ends.

    Raises Failure when another process owns it, or when it cannot be written.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (data_dir / "lock").open("a+")
    except OSError as error:
        raise Failure(
            f"The data directory {data_dir} cannot be used: {error.strerror or error}",
            remedy="Name another one with --data-dir.",
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise Failure(
            f"The data directory {data_dir} is in use by another t9ksched{f' (process {owner})' if owner else ''}.",
            remedy="Stop that one first, or give this one its own with --data-dir.",
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
