"""What a job without YAML asks for, as options: of `run`, and of the profiles that fill what is left out of it."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.output import program
from t9ksched.cli.starting import PANEL
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.resources import NVIDIA_GPU
from t9ksched.workloads.compose.asked import read_annotations, read_environment, read_mounts

Words = dict[str, Any]
"""Values by the words of `t9ksched.client.profiles`. Of `env` a value that is None is that of the environment."""
_ASK_FOR: Final = "What it asks for"
_TEXTS: Final = {"mount": "mounts", "env": "env", "annotation": "annotations"}
"""Options that are read here, with their words."""


def _words(
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="The container image.")] = "",
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", help="Cards of each replica.", rich_help_panel=_ASK_FOR)
    ] = 0,
    gpu_model: Annotated[
        str, typer.Option(metavar="MODEL", help="Models that will do, such as A100,H100.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="A part of each card: its memory.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_cores: Annotated[
        str, typer.Option(metavar="PERCENT", help="A part of each card: its cores.", rich_help_panel=_ASK_FOR)
    ] = "",
    gpu_resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="The name that cards have.", rich_help_panel=_ASK_FOR)
    ] = NVIDIA_GPU,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", help="Pods that start together.", rich_help_panel=_ASK_FOR)
    ] = None,
    torchrun: Annotated[
        bool, typer.Option("--torchrun", help="Start it by torchrun, a process a card.", rich_help_panel=_ASK_FOR)
    ] = False,
    cpu: Annotated[str, typer.Option(metavar="CPU", help="Such as 8 or 500m.", rich_help_panel=_ASK_FOR)] = "",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Such as 64Gi.", rich_help_panel=_ASK_FOR)] = "",
    mount: Annotated[
        list[str] | None,
        typer.Option(metavar="CLAIM:/PATH[:ro]", help="A volume claim; repeatable.", rich_help_panel=_ASK_FOR),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--env", metavar="K[=V]", help="A variable, or yours; repeatable.", rich_help_panel=_ASK_FOR
        ),
    ] = None,
    workdir: Annotated[
        str, typer.Option(metavar="/PATH", help="The directory to run in.", rich_help_panel=_ASK_FOR)
    ] = "",
    annotation: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An annotation of the pods; repeatable.", rich_help_panel=_ASK_FOR),
    ] = None,
    retries: Annotated[
        int, typer.Option(metavar="N", help="Make failed pods again so often.", rich_help_panel=_ASK_FOR)
    ] = 0,
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="Which queue pays.", rich_help_panel=PANEL)] = "",
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=100, help="The order among jobs of the queue.", rich_help_panel=PANEL),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="The namespace.", rich_help_panel=PANEL)
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="T", help="End it after so long, such as 4h.", rich_help_panel=PANEL)
    ] = None,
    reservation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use this reservation.", rich_help_panel=PANEL)
    ] = None,
) -> None:
    """The options, declared once."""


def with_words(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which has a `context`, these options; those that were given come to it as `words`."""
    own, declared = signature(command).parameters, signature(_words).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        context: typer.Context = given["context"]
        told = {name: given.pop(name) for name in declared}
        command(**given, words=_read({name: value for name, value in told.items() if _is_given(context, name)}))

    shown = list(declared.values()) + [one for name, one in own.items() if name != "words"]
    run.__signature__ = Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in shown])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def in_environment(env: dict[str, str | None], known: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables, those without a value with that of the environment `known`.

    Raises:
        Invalid: it has none.
    """
    return read_environment([name if text is None else f"{name}={text}" for name, text in env.items()], dict(known))


def usage(error: Invalid, command: str = "run") -> Failure:
    """The failure of words that contradict each other, or cannot be read."""
    faults = [f"{_word(fault)} {fault.message}" for fault in error.errors]
    return Failure(faults[0], details=faults[1:], remedy=f"See {program()} {command} --help", code=BAD_USAGE)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _read(said: Words) -> Words:
    try:
        found = {_TEXTS.get(name, name): value for name, value in said.items()}
        if "mounts" in found:
            read_mounts(found["mounts"])
        if "annotations" in found:
            found["annotations"] = read_annotations(found["annotations"])
        if "env" in found:
            found["env"] = _variables(found["env"])
    except Invalid as error:
        raise usage(error) from None
    return found


def _variables(texts: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for text in texts:
        alone = "=" not in text
        (read,) = read_environment([text], {text: ""}).items()
        found[read[0]] = None if alone else read[1]
    return found


def _word(fault: FieldError) -> str:
    """The word that a fault is about; a colon where the fault begins with its text."""
    if fault.path == "command":
        return "the command"
    return f"--{fault.path}:" if fault.path in _TEXTS else f"--{fault.path}"
