"""A command of torchrun, as people type it, in the words of a PyTorchTrainingJob.

The controller says how many nodes there are, where they meet and which is which, so options about that are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_SAID_BY_CONTROLLER: Final = frozenset(
    {"nnodes", "node-rank", "rdzv-endpoint", "rdzv-id", "master-addr", "master-port", "local-addr"}
)
_FLAGS: Final = frozenset({"standalone", "no-python", "module", "m", "run-path"})
"""Options of torchrun without a value."""
_FIELDS: Final = {"nproc-per-node": "procPerNode", "max-restarts": "maxRestarts", "rdzv-backend": "rdzvBackend"}


@dataclass(frozen=True, slots=True)
class TorchrunCall:
    """`config` is the job's `torchrunConfig`, `args` what torchrun starts; `left_out` are options that the controller
    sets itself.
    """

    config: dict[str, Any]
    args: tuple[str, ...]
    left_out: tuple[str, ...] = field(default=())


def torchrun_call(command: Sequence[str], gpus: int) -> TorchrunCall:
    """The command by torchrun. It may begin with `torchrun` and its options, with `python`, or with a script; another
    program is started without python.
    """
    words = list(command)
    config: dict[str, Any] = {"enabled": True, "procPerNode": "gpu" if gpus else 1}
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program.startswith("python"):
        return TorchrunCall(config, tuple(words[1:]))
    if program != "torchrun":
        script = program.endswith(".py")
        return TorchrunCall(config, tuple(words if script else ("--no_python", *words)))
    left_out: list[str] = []
    extra: list[str] = []
    args: list[str] = []
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, given, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in _FLAGS:
            (left_out if name == "standalone" else args).append(word)
            continue
        if not given and rest:
            value = rest.pop(0)
        if name in _SAID_BY_CONTROLLER:
            left_out.append(f"--{name}")
        elif (known := _FIELDS.get(name)) is not None:
            config[known] = int(value) if value.isdigit() else value
        else:
            extra.append(f"--{name}={value}")
    if extra:
        config["extraOptions"] = extra
    return TorchrunCall(config, tuple(args + rest), tuple(left_out))
