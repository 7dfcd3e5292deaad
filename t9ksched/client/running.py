"""A job from a command: the object that is submitted, and the name that it gets."""

import os
import secrets
import shlex
from collections.abc import Sequence
from typing import Any, Final

from t9ksched.workloads.compose.asked import Asked, read_mounts, stem_of
from t9ksched.workloads.compose.job import Composed, compose

_ALPHABET: Final = "bcdfghjkmnpqrstvwxz2456789"
"""Without vowels, so that no words come out, and without what looks alike."""
_END_LENGTH: Final = 5


def generated_name(command: Sequence[str]) -> str:
    """What a job without a name is called: the script's name, and a random end."""
    return f"{stem_of(command)}-{''.join(secrets.choice(_ALPHABET) for _ in range(_END_LENGTH))}"


def composed(command: str | Sequence[str], name: str | None, mounts: Sequence[str], **asked: Any) -> Composed:
    """The object for a command; a text is split into words as a shell does.

    Raises:
        ValueError: what is asked for contradicts itself; it says which words do.
    """
    words = tuple(shlex.split(command) if isinstance(command, str) else map(os.fspath, command))
    return compose(Asked(name=name or generated_name(words), command=words, mounts=read_mounts(mounts), **asked))
