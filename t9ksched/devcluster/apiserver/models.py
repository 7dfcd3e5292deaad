"""The fields of the built-in kinds, as the models of the official client library have them.

`models.json` has those that the kinds refer to, so that a server starts without the library, whose import takes longer
than the server's own; a test compares the two. Other models are read from the library when they are asked for.

    python -m t9ksched.devcluster.apiserver.models

writes the file anew: after another version of the library was taken, or for another kind.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

FILE: Final = Path(__file__).with_name("models.json")
_MODEL: Final = re.compile(r"\b[A-Z]\w*\d\w*\b")
"""A model within a type such as `Dict[str, V1Foo]`: all their names have the number of a version."""


class Fields(NamedTuple):
    """The fields of a model by their JSON names, with their types as the library writes them, and those among them that
    an object cannot do without.
    """

    types: dict[str, str]
    required: frozenset[str]


_EARLIER: Final = {"V1PodSpec": {"workloadRef": "V1WorkloadReference"}}
"""Fields that the library does not have any more: the group of a pod in Kubernetes 1.35."""
_EARLIER_MODELS: Final = {
    "V1WorkloadReference": Fields(
        {"name": "str", "podGroup": "str", "podGroupReplicaKey": "str"}, frozenset({"name", "podGroup"})
    )
}


@cache
def _stored() -> dict[str, tuple[dict[str, str], list[str]]]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, tuple[dict[str, str], list[str]]])


@cache
def fields(model: str) -> Fields:
    """The fields of one model. Raises AttributeError if the library has no such model."""
    found = _stored().get(model)
    return Fields(found[0], frozenset(found[1])) if found is not None else of_library(model)


def of_library(model: str) -> Fields:
    """The same as the installed library says, with what it does not have any more."""
    if model in _EARLIER_MODELS:
        return _EARLIER_MODELS[model]
    found = library_model(model)
    required = {field.serialization_alias or name for name, field in found.model_fields.items() if field.is_required()}
    types = {found.attribute_map[name]: kind for name, kind in found.openapi_types.items()}
    return Fields(types | _EARLIER.get(model, {}), frozenset(required))


def descriptions(model: str) -> tuple[str, dict[str, str]]:
    """What a model is for, and what each of its fields is for, as far as the library says it."""
    if model in _EARLIER_MODELS:
        return "", {}
    found = library_model(model)
    fields_of = found.model_fields.items()
    described = {field.serialization_alias or name: field.description for name, field in fields_of if field.description}
    return (found.__doc__ or "").split("Attributes:", 1)[0].strip(), described


def library_model(model: str) -> Any:
    """The class of a model in the library."""
    from kubernetes.client import models

    return getattr(models, model)


def reachable() -> dict[str, Fields]:
    """The models of all built-in kinds and those that they refer to, as the library has them."""
    from t9ksched.devcluster.apiserver.crd import DEFINITIONS
    from t9ksched.devcluster.apiserver.kinds import Registry

    wanted = sorted({kind.model for kind in (*Registry().all(), DEFINITIONS)})
    found: dict[str, Fields] = {}
    while wanted:
        model = wanted.pop()
        found[model] = of_library(model)
        named = {name for kind in found[model].types.values() for name in _MODEL.findall(kind)}
        wanted.extend(sorted(named - found.keys() - set(wanted)))
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file."""
    told = {model: (found.types, sorted(found.required)) for model, found in reachable().items()}
    lines = (f'"{model}": {msgspec.json.encode(one).decode()}' for model, one in told.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
