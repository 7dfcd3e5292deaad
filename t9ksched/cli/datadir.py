"""The data directory: where `up` keeps the database, the dev cluster's objects, its kubeconfig and `client.json`.

`client.json` (mode 0600) says where the service answers and holds the admin token; client commands read it unless
options say otherwise. A lock makes sure that one process at a time owns the directory; the kernel releases it when the
process dies, however it dies.
"""

import fcntl
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from t9ksched.cli.failure import Failure
from t9ksched.regular_file import read_file

_LARGEST = 1 << 20
"""Bytes of a `client.json`."""


def default_data_dir() -> Path:
    """The user's data directory for t9ksched: `$XDG_DATA_HOME/t9ksched`, on macOS under Application Support."""
    if xdg := os.environ.get("XDG_DATA_HOME"):
        return Path(xdg) / "t9ksched"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "t9ksched"
    return Path.home() / ".local" / "share" / "t9ksched"


def database_url(data_dir: Path) -> str:
    """The SQLite database that lives in a data directory."""
    return f"sqlite:///{(data_dir / 't9ksched.db').absolute()}"


@dataclass(frozen=True)
class ClientFile:
    """Where the service answers and what to show it: the content of `client.json`."""

    server: str
    token: str

    @staticmethod
    def read(data_dir: Path) -> "ClientFile | None":
        """The file of `data_dir`, None when there is none. Raises Failure when it cannot be understood."""
        path = data_dir / "client.json"
        try:
            raw = json.loads(read_file(path, _LARGEST))
            return ClientFile(str(raw["server"]), str(raw["token"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failure(
                f"{path} cannot be read: {error}",
                remedy="Remove it and start `t9ksched up` again, or pass --server and --token.",
            ) from error

    def write(self, data_dir: Path) -> None:
        """Replace the file of `data_dir` at once, readable by its owner alone."""
        path, draft = data_dir / "client.json", data_dir / f".client.json.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"server": self.server, "token": self.token}, file)
        draft.replace(path)


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
