"""What a user gives in a file or as KEY=VALUE."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from t9ksched.cli.failure import BAD_USAGE, Failure


def mapping_in(file: Path, what: str, fields: str) -> dict[str, Any]:
    """The mapping in a YAML or JSON file, `-` for standard input; `what` it holds and the `fields` to write are for the
    message about one that holds another thing.
    """
    from t9ksched.model.text import YamlFault, read

    try:
        value = read(sys.stdin.read() if str(file) == "-" else file.read_text())
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, YamlFault) as error:
        raise Failure(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict):
        raise Failure(f"{file} holds no {what}.", remedy=f"Write {fields}.")
    return value


def pair(text: str, example: str) -> tuple[str, str]:
    """Key and value of `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Failure(f"'{text}' is not KEY=VALUE.", remedy=f"Write it like {example}.", code=BAD_USAGE)
    return key, value


def pairs(texts: Iterable[str], example: str) -> dict[str, str]:
    """Keys and values of several `KEY=VALUE`; the last of equal keys counts."""
    return dict(pair(text, example) for text in texts)
