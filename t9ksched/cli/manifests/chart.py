"""Renders the chart as Helm does: each file of `templates/` with the values, and the files of `crds/` as they are."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import msgspec
import yaml

from t9ksched import packaged
from t9ksched.cli.manifests.functions import FUNCTIONS
from t9ksched.cli.manifests.gotemplate import TemplateError, Templates
from t9ksched.cli.manifests.values import (
    Egress,
    NetworkPolicy,
    PriorityClass,
    Project,
    Rights,
    Values,
)
from t9ksched.model.names import SYSTEM_NAMESPACE

ORDER: Final = (
    "crds",
    "namespace",
    "priorityclass",
    "rbac",
    "exec",
    "foreign",
    "admission",
    "scheduler",
    "controller",
    "api",
    "network",
    "ingress",
    "gateway",
    "monitoring",
)
"""The parts of an installation, each after those that it needs: the custom kinds, and the templates by their names."""


_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Part(NamedTuple):
    """Some manifests: one part of `ORDER`."""

    name: str
    text: str


def render(values: Values) -> list[Part]:
    """The parts that are not empty, as YAML.

    Raises:
        TemplateError: the values do not go together.
    """
    folder = packaged.folder("chart")
    found = [Part("crds", "---\n".join(_texts(folder / "crds", "*.yaml").values()))]
    sources = _texts(folder / "templates", "*.yaml") | _texts(folder / "templates", "*.tpl")
    templates = Templates(sources, FUNCTIONS)
    data = {
        "Values": msgspec.to_builtins(values),
        "Chart": _chart(folder),
        "Release": {"Name": "t9ksched", "Namespace": SYSTEM_NAMESPACE, "Service": "t9ksched"},
        "Files": {"Get": lambda path: _file(folder, path)},
    }
    for name in ORDER[1:]:
        text = templates.render(f"{name}.yaml", data).strip("\n")
        if text.strip():
            found.append(Part(name, f"{text}\n"))
    return found


def objects(parts: list[Part]) -> Iterator[dict[str, Any]]:
    """What parts say, one object after the other."""
    for part in parts:
        yield from filter(None, yaml.load_all(part.text, Loader=_Loader))


def installed_names() -> frozenset[tuple[str, str]]:
    """Kind and name of every object that is applied for some values, but custom kinds and what leads to REST.

    Ingress, HTTPRoute and monitoring are left out, as is a PriorityClass that the values name otherwise.
    """
    default = Values()
    values = Values(
        api=msgspec.structs.replace(default.api, exec=True),
        priority_class=PriorityClass(create=True),
        network_policy=NetworkPolicy(egress=Egress(enabled=True)),
        rights=Rights(foreign=list(get_args(Project))),
    )
    parts = [part for part in render(values) if part.name != "crds"]
    return frozenset((each["kind"], each["metadata"]["name"]) for each in objects(parts))


def images(parts: list[Part]) -> list[str]:
    """The images that nodes pull."""
    return sorted({image for each in objects(parts) for image in _images(each)})


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for container in value.get("containers") or ():
            if isinstance(container, Mapping) and isinstance(container.get("image"), str):
                yield container["image"]
        value = [inner for name, inner in value.items() if name != "openAPIV3Schema"]
    if isinstance(value, list):
        for inner in value:
            yield from _images(inner)


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob(pattern))}


def _chart(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    return {f"{name[0].upper()}{name[1:]}": value for name, value in read.items()}


def _file(folder: Path, path: str) -> str:
    try:
        return (folder / path).read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateError(f"{path}: {error.strerror}") from None
