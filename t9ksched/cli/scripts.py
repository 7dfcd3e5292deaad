"""Scripts with `#SBATCH` lines, on the way to the service: translated, and told line by line."""

import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from t9ksched.cli import messages
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from t9ksched.cli.output import cells_of, padded, paragraph
from t9ksched.model.dns import ended
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.text import write
from t9ksched.workloads.compose.asked import read_environment, read_mounts, stem_of
from t9ksched.workloads.compose.sbatch.features import features_of
from t9ksched.workloads.compose.sbatch.lines import Script, read_script
from t9ksched.workloads.compose.sbatch.plan import Around, Feature, Features
from t9ksched.workloads.compose.sbatch.translation import Translation, translate


@dataclass(frozen=True, slots=True)
class Beside:
    """What the command line says of scripts, beside what stands in them. `options` are by their names here, and win."""

    image: str = ""
    workdir: str = ""
    arguments: str = ""
    mounts: Sequence[str] = ()
    environment: Sequence[str] = ()
    namespace: str | None = None
    priority: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)


_SAME: Final[dict[str, tuple[str, ...]]] = {
    "--image": ("container-image",),
    "--workdir": ("chdir", "container-workdir"),
    "--queue": ("partition",),
    "--time-limit": ("time",),
    "--begin": ("begin",),
    "--reservation": ("reservation",),
    "--after": ("dependency",),
    "--array": ("array",),
}
"""Options of ours by those of sbatch that they override."""


def translated(client: Client, path: Path, content: bytes, beside: Beside) -> Translation:
    """The objects that a script becomes, and what is told of its lines.

    Raises:
        Failure: it cannot be read, or asks for what has no counterpart and cannot be left out.
    """
    try:
        script = read_script(content)
        environment = read_environment(beside.environment, os.environ)
        given = {option: value for option, value in beside.options.items() if value}
        around = Around(
            name=_name(path, script),
            now=datetime.now().astimezone(),
            environment=os.environ,
            features=_Nodes(client),
            image=beside.image,
            workdir=beside.workdir,
            namespace=beside.namespace,
            priority=beside.priority,
            overridden={name: option for option in given for name in _SAME.get(option, ())},
            arguments=_words(beside.arguments),
        )
        return translate(script, around, read_mounts(beside.mounts), environment)
    except Invalid as error:
        first, *others = map(_fault, error.errors)
        raise Failure(first, details=others) from None


def yaml_of(translation: Translation) -> str:
    """The objects as YAML, as a file that can be submitted, too."""
    return "---\n".join(map(write, translation.objects))


def tell(path: Path, translation: Translation, out: Console) -> None:
    """Print what became of each line."""
    if not translation.told:
        return
    paragraph(out, f"{path}: what becomes of its lines")
    lines = [(one, messages.translated(one.written)) for one in translation.told]
    width = min(max(cells_of(written) for _, written in lines), 28)
    for one, written in lines:
        becomes = (messages.translated(one.becomes), "" if one.met else "yellow")
        paragraph(out, Text.assemble(f"  {one.line:>3}  ", (padded(written, width), "bold"), "  ", becomes))


def _words(text: str) -> tuple[str, ...]:
    """The arguments in a text, as a shell takes it apart."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise Invalid.at("args", f"{text!r} cannot be taken apart: {str(error).lower()}") from None


class _Nodes:
    """The features of the nodes, which are asked for when the first feature is looked up."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._find: Features | None = None

    def __call__(self, feature: str) -> Feature | None:
        if self._find is None:
            self._find = features_of(self._client.get("/apis/v1/nodes")["items"])
        return self._find(feature)


def _name(path: Path, script: Script) -> str:
    """The name of the job: the script's own, else the file's, and an end of its own."""
    named = next((one.value for one in reversed(script.options) if one.name == "job-name" and one.value), None)
    stem = stem_of([named.replace(" ", "-") if named else path.name if str(path) != "-" else "script"])
    return ended(f"{stem}-", secrets.randbits(64))


def _fault(fault: FieldError) -> str:
    """A fault by its line, or by the option of ours that is wrong or missing."""
    if not fault.path or fault.path.startswith("line "):
        return str(fault)
    return f"--{fault.path} {fault.message}" if fault.path not in ("env", "mount") else f"--{fault}"
