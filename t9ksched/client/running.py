"""A job from a command: the object that is submitted, and the name that it gets."""

import os
import secrets
import shlex
from collections.abc import Sequence
from typing import Any

from t9ksched.model.dns import ended
from t9ksched.workloads.compose.asked import Asked, read_mounts, stem_of
from t9ksched.workloads.compose.job import Composed, compose


def generated_name(command: Sequence[str]) -> str:
    """What a job without a name is called: the script's name, and a random end."""
    return ended(f"{stem_of(command)}-", secrets.randbits(64))


def composed(command: str | Sequence[str], name: str | None, mounts: Sequence[str], **asked: Any) -> Composed:
    """The object for a command; a text is split into words as a shell does.

    Raises:
        ValueError: what is asked for contradicts itself; it says which words do.
    """
    words = tuple(shlex.split(command) if isinstance(command, str) else map(os.fspath, command))
    return compose(Asked(name=name or generated_name(words), command=words, mounts=read_mounts(mounts), **asked))
