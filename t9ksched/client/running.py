"""A job from a command: the object that is submitted, and the name that it gets."""

import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from t9ksched.client.models import Submitted
from t9ksched.client.operations import Earlier, Operation, Operations
from t9ksched.client.profiles import filled, of_environment
from t9ksched.model.dns import ended
from t9ksched.workloads.compose.asked import Asked, read_environment, read_mounts, stem_of
from t9ksched.workloads.compose.job import compose


def generated_name(command: Sequence[str]) -> str:
    """What a job without a name is called: the script's name, and a random end."""
    return ended(f"{stem_of(command)}-", secrets.randbits(64))


class Words(TypedDict, total=False):
    """What `run` takes besides the command, in its words."""

    image: str
    profile: str | None
    name: str | None
    namespace: str | None
    queue: str
    gpus: int
    gpu_model: str
    gpu_memory: str
    gpu_cores: str
    replicas: int | None
    torchrun: bool
    cpu: str
    memory: str
    mounts: Sequence[str]
    env: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    workdir: str
    retries: int
    priority: int | None
    time_limit: str | None
    begin: datetime | str | None
    reservation: str | None
    after: Earlier | None
    after_cancel: bool | None
    dry_run: bool
    key: str | None


_SENT: Final = {
    "namespace": "namespace",
    "time_limit": "timeLimit",
    "begin": "startAfter",
    "reservation": "reservation",
    "after": "after",
    "after_cancel": "afterCancel",
}
"""Words that are parameters of the submission; the others are about the object."""

_LEFT_OUT: Final[dict[str, Any]] = {
    **dict.fromkeys(("image", "queue", "gpu_model", "gpu_memory", "gpu_cores", "cpu", "memory", "workdir"), ""),
    **dict.fromkeys(("gpus", "retries"), 0),
    "torchrun": False,
    "mounts": (),
}
"""What a word is that is left out, where that is not None."""


def _variables(env: Mapping[str, str | None]) -> dict[str, str]:
    """Those of a profile without a value have that of this environment."""
    return read_environment([name if text is None else f"{name}={text}" for name, text in env.items()], os.environ)


def run(
    operations: Operations, command: str | Sequence[str], array: str | None, **words: Unpack[Words]
) -> Operation[Submitted]:
    """Submit the job of a command, or an array of them; a text is split into words as a shell does.

    Raises:
        ValueError: what is asked for contradicts itself; it says which words do.
    """
    said = {word: value for word, value in words.items() if value != _LEFT_OUT.get(word)}
    given = filled(said, of_environment(words.get("profile")))
    given.pop("profile", None)
    wish = {parameter: given.pop(word, None) for word, parameter in _SENT.items()}
    key, dry_run = given.pop("key", None), given.pop("dry_run", False)
    split = tuple(shlex.split(command) if isinstance(command, str) else map(os.fspath, command))
    made = compose(
        Asked(
            name=given.pop("name", None) or generated_name(split),
            command=split,
            namespace=wish["namespace"],
            mounts=read_mounts(given.pop("mounts", ())),
            image=given.pop("image", ""),
            environment=_variables(given.pop("env", None) or {}),
            annotations=given.pop("annotations", None) or {},
            **given,
        )
    )
    return operations.submit(made.obj, key, dry_run, **wish, array=array)
