"""What a user asks to be run, in the words of the command line: a command, cards, an image, a queue.

The words are read here and turned into an object by `job.py`. Every fault names the word that it is about, as
`FieldError.path`, in the spelling of the fields of `Asked`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.labels import key_fault
from t9ksched.model.resources import NVIDIA_GPU

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_OF_NAMES: Final = re.compile(r"[^a-z0-9]+")
_INTERPRETERS: Final = re.compile(r"(python[0-9.]*|bash|sh|zsh|torchrun|env|nice|uv|deepspeed|accelerate|mpirun)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_LONGEST_STEM: Final = 40
"""Characters of a generated name before its random end."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A PersistentVolumeClaim and where the container sees it."""

    claim: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One job in the words of the command line. Amounts are texts as Kubernetes writes quantities.

    Attributes:
        name: of the object.
        command: the words that the container runs.
        gpus: cards of each replica, of `gpu_resource`.
        gpu_model: models that will do, comma-separated; `gpu_memory` and `gpu_cores` ask for a part of each card.
        replicas: pods that start together; None for one pod of a batch Job.
        torchrun: start `command` by torchrun, one process a card.
        priority: within the queue; None for the default.
        retries: how often a failed pod is made again.
        annotations: of the pods.
    """

    name: str
    command: tuple[str, ...]
    image: str
    namespace: str | None = None
    gpus: int = 0
    gpu_resource: str = NVIDIA_GPU
    gpu_model: str = ""
    gpu_memory: str = ""
    gpu_cores: str = ""
    replicas: int | None = None
    cpu: str = ""
    memory: str = ""
    queue: str = ""
    priority: int | None = None
    torchrun: bool = False
    retries: int = 0
    workdir: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def read_environment(texts: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Variables as `K=V`, or `K` alone for the value that it has in `known`, the caller's environment.

    Raises:
        Invalid: a text is neither, or `known` has no such variable.
    """
    found: dict[str, str] = {}
    faults: list[FieldError] = []
    for text in texts:
        name, given, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            faults.append(FieldError("env", f"{text!r} is no variable: write NAME=VALUE"))
        elif not given and name not in known:
            faults.append(FieldError("env", f"{name} is not set here: write {name}=VALUE"))
        else:
            found[name] = value if given else known[name]
    if faults:
        raise Invalid(faults)
    return found


def read_annotations(texts: Sequence[str]) -> dict[str, str]:
    """Annotations as `KEY=VALUE`.

    Raises:
        Invalid: a text is written otherwise, or a key is none.
    """
    if wrong := [text for text in texts if not text.partition("=")[0] or "=" not in text]:
        raise Invalid(FieldError("annotation", f"{text!r} is no annotation: write KEY=VALUE") for text in wrong)
    found = dict(text.split("=", 1) for text in texts)
    if faults := [fault for key in found if (fault := key_fault(key, "annotation"))]:
        raise Invalid(FieldError("annotation", fault) for fault in faults)
    return found


def read_mounts(texts: Iterable[str]) -> tuple[Mount, ...]:
    """Claims as `CLAIM:/path`, with `:ro` after it to read only.

    Raises:
        Invalid: a text is written otherwise, or two claims have the same path.
    """
    found: list[Mount] = []
    faults: list[FieldError] = []
    for text in texts:
        claim, _, place = text.partition(":")
        path, _, mode = place.partition(":")
        if not claim or not path.startswith("/") or mode not in ("", "ro", "rw"):
            faults.append(FieldError("mount", f"{text!r} is no mount: write CLAIM:/path, or CLAIM:/path:ro"))
        elif any(one.path == path for one in found):
            faults.append(FieldError("mount", f"{path} is mounted twice"))
        else:
            found.append(Mount(claim, path, mode == "ro"))
    if faults:
        raise Invalid(faults)
    return tuple(found)


def stem_of(command: Iterable[str]) -> str:
    """What a job without a name is called after: the script, else the program. Never empty, and fit for a name."""
    stem = ""
    for word in command:
        last = word.rsplit("/", 1)[-1]
        if word.startswith("-") or "=" in word or word.isdigit():
            continue  # a value of an option of torchrun, perhaps
        if not _PLAIN.fullmatch(last):
            break  # the text of a one-liner is no name
        stem = last
        if not _INTERPRETERS.fullmatch(last):
            break
    slug = _NOT_OF_NAMES.sub("-", stem.rsplit(".", 1)[0].lower()).strip("-")[:_LONGEST_STEM].strip("-")
    return slug if slug and slug[0].isalpha() else f"run-{slug}".strip("-")
