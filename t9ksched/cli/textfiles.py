"""Files of text that a command reads: UTF-8, also with a byte order mark in front, as some programs write it."""

import codecs
from pathlib import Path
from typing import Final

from t9ksched.cli.failure import Failure
from t9ksched.model.errors import FieldError, Invalid

ENCODING: Final = "utf-8-sig"
"""UTF-8 of which the mark is no part of the text."""


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        Failure: it cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding=ENCODING)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {_why(error)}") from error


def read_bytes(path: Path) -> bytes:
    """The text of a file, as it is in UTF-8.

    Raises:
        Failure: it cannot be read.
    """
    try:
        return path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {_why(error)}") from error


def below(name: object, error: Invalid) -> Invalid:
    """The faults of a file, with its name in front of their paths."""
    return Invalid(FieldError(f"{name}: {one.path}" if one.path else f"{name}", one.message) for one in error.errors)


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no text in UTF-8"
