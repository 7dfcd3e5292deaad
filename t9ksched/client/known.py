"""Where the service is: as a program says, else the environment, else `client.json` of the data directory.

`t9ksched up` writes that file (mode 0600): where it answers, and its admin token.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from t9ksched.client.calls import address
from t9ksched.client.errors import ClientError
from t9ksched.regular_file import read_file

_LARGEST = 1 << 20
"""Bytes of a `client.json`."""


def default_data_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's data directory for t9ksched: `$XDG_DATA_HOME/t9ksched`, on macOS under Application Support."""
    if xdg := environment.get("XDG_DATA_HOME"):
        return Path(xdg) / "t9ksched"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "t9ksched"
    return Path.home() / ".local" / "share" / "t9ksched"


class ClientFile(msgspec.Struct, frozen=True):
    """Where the service answers and what to show it: the content of `client.json`."""

    server: str
    token: str

    @staticmethod
    def read(data_dir: Path) -> "ClientFile | None":
        """The file of `data_dir`, None when there is none.

        Raises:
            ClientError: it cannot be understood.
        """
        path = data_dir / "client.json"
        try:
            raw = json.loads(read_file(path, _LARGEST))
            return ClientFile(str(raw["server"]), str(raw["token"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClientError(f"{path} cannot be read: {error}") from error

    def write(self, data_dir: Path) -> None:
        """Replace the file of `data_dir` at once, readable by its owner alone."""
        path, draft = data_dir / "client.json", data_dir / f".client.json.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"server": self.server, "token": self.token}, file)
        draft.replace(path)


class NoService(ClientError):
    """Nobody said where the service is, and `file` does not exist."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"no t9ksched service is known here: {file} does not exist. Start one with `t9ksched up`, or name it:"
            " Client(server, token), or T9KSCHED_SERVER and T9KSCHED_TOKEN in the environment"
        )
        self.file = file


def find(server: str | None, token: str | None, data_dir: Path) -> tuple[str, str]:
    """The address and the token to use. A remembered token is shown only to the server that made it.

    Raises:
        NoService: none is known.
        ClientError: `client.json` cannot be read.
        ValueError: `server` is not the address of one, or the token cannot be one.
    """
    token = token and read_token(token)
    remembered = None if server and token else ClientFile.read(data_dir)
    if not server:
        if remembered is None:
            raise NoService(data_dir / "client.json")
        return address(remembered.server), token or remembered.token
    place = address(server)
    return place, token or (remembered.token if remembered is not None and remembered.server == place else "")


def read_token(text: str) -> str:
    """A token as it was given, without the end of line that files have.

    Raises:
        ValueError: it cannot be one.
    """
    token = text.strip()
    if not token.isprintable():
        raise ValueError("it has a line break or another control character inside")
    return token


def find_by_environment(
    server: str | None, token: str | None, environment: Mapping[str, str] = os.environ
) -> tuple[str, str]:
    """As `find`, with what the environment says, as the command line reads it."""
    data_dir = environment.get("T9KSCHED_DATA_DIR")
    return find(
        server or environment.get("T9KSCHED_SERVER"),
        token or environment.get("T9KSCHED_TOKEN"),
        Path(data_dir) if data_dir else default_data_dir(environment),
    )
