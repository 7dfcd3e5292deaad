"""Fields, labels and annotations that nothing reads, which are most often misspelt: warned about, never refused.

A field is judged by the schema of its kind, as its CustomResourceDefinition gives it, and within a pod template by the
fields that Kubernetes has. Each unknown one is told, with the known name beside it that is most alike, or with the one
other place where the kind has a field of that name. What a schema leaves free, such as labels, is not judged. Labels
and annotations are judged within our own domain, and those of `also_read`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from t9ksched.admission.oddities import nearest
from t9ksched.admission.podfields import POD_SPEC
from t9ksched.model import names
from t9ksched.model.errors import FieldWarning, child
from t9ksched.workloads.shape import Template

Schema = Mapping[str, Any]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_COMPARED: Final = 100
"""Unknown fields of an object that are compared with known ones: comparing takes long."""
_METADATA: Final = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_LABELS: Final = (names.QUEUE_LABEL, names.GROUP_LABEL, names.ROLE_LABEL, names.ARRAY_LABEL)
_ANNOTATIONS: Final = (
    names.AFTER_ANNOTATION,
    names.AFTER_CANCEL_ANNOTATION,
    names.ARRAY_ANNOTATION,
    names.SIGNAL_BEFORE_ANNOTATION,
    names.START_AFTER_ANNOTATION,
    names.TIME_LIMIT_ANNOTATION,
    names.TOPOLOGY_KEY_ANNOTATION,
    names.RESERVATION_ANNOTATION,
    names.GANG_ANNOTATION,
    names.KEEP_UNTIL_ANNOTATION,
    names.LAST_ACTIVITY_ANNOTATION,
    names.GPU_MODEL_ANNOTATION,
    names.GPU_MODE_ANNOTATION,
    names.GPU_MEMORY_ANNOTATION,
    names.GPU_CORES_ANNOTATION,
)
_INTERNAL: Final = (names.SUBMITTED_BY_ANNOTATION, names.SUBMISSION_ANNOTATION)
"""Annotations that we write: those of an object that was read from the cluster are no fault, and none is a hint."""
_PREFIXES: Final = (
    names.GPU_INDEX_PREFIX,
    names.GPU_MODEL_PREFIX,
    f"{names.GPU_MEMORY_ANNOTATION}-container-",
    f"{names.GPU_CORES_ANNOTATION}-container-",
)
_DOMAINS: Final = (f"{names.SCHEDULER_GROUP}/",)
_others: set[str] = set()
"""Annotations that the cluster of this process reads; with a hyphen at the end they are prefixes."""


def also_read(*annotations: str) -> None:
    """Judge the domains of these annotations too: the cluster that this process runs reads them. Called at start; one
    that ends with a hyphen stands for all that begin with it.
    """
    _others.update(annotations)


def misspelt(obj: Mapping[str, Any], schema: Schema, templates: Iterable[Template]) -> Iterator[FieldWarning]:
    """Unknown fields of an object with that schema and these pod templates; its metadata is `misspelt_metadata`'s.

    What stands in its status is not judged: nobody reads it from there.
    """
    written = [(each, *_at(obj, schema, each.path)) for each in templates]
    # In older objects the fields of a pod's spec stand beside those of the kind.
    judged = {child(each.path, name) for each, fields, _ in written for name in each.spec if name in fields}
    for one in misspelt_fields({key: value for key, value in obj.items() if key != "status"}, schema):
        if one.path not in judged:
            yield one
    for each, fields, known in written:
        pod = {name: fields[name] for name in each.spec if name in fields and name not in known}
        yield from misspelt_fields(pod, POD_SPEC, each.path)


def misspelt_fields(value: Any, schema: Schema, path: str = "") -> Iterator[FieldWarning]:
    """Fields of a value that its schema does not know, at any depth below it.

    `apiVersion`, `kind` and `metadata` of the object itself are `misspelt_metadata`'s.
    """
    places: Mapping[str, str] | None = None
    for number, (where, name, level) in enumerate(_unknown(value, schema, path)):
        near = nearest(name, level["properties"]) if number < _COMPARED and "properties" in level else None
        text = f"the field {name!r} is unknown and is ignored"
        if level.get(_OPEN):
            text = f"the field {name!r} is unknown, and nothing that t9ksched knows reads it"
        if places is None:
            places = _pod_places() if schema is POD_SPEC else _places(schema)
        if there := places.get(name):
            there = f"{path}.{there}".removeprefix(".")
            yield FieldWarning(where, f"{text}: it belongs at {there}", near)
        else:
            yield _warning(where, text, near)


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str, Schema]]:
    """Path and name of each unknown field, with the schema of the object that has it."""
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _unknown(one, schema.get("items") or {}, f"{path}[{index}]")
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if not isinstance(value, Mapping) or not (properties or isinstance(others, Mapping)):
        return
    for name, inner in value.items():
        where = child(path, str(name))
        if name in properties:
            yield from _unknown(inner, properties[name], where)
        elif isinstance(others, Mapping):
            yield from _unknown(inner, others, where)
        elif not others:
            yield where, str(name), schema


@cache
def _pod_places() -> Mapping[str, str]:
    return _places(POD_SPEC)


def _places(schema: Schema) -> dict[str, str]:
    """By name the only place where a schema has a field of that name; empty for a name with several."""
    found: dict[str, str] = {}
    below = [("", schema)]
    while below:
        at, level = below.pop()
        for name, inner in (level.get("properties") or {}).items():
            where = child(at, name)
            found[name] = "" if name in found else where
            below.append((where, inner))
        for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(level.get(key), Mapping):
                below.append((at + mark, level[key]))
    return found


def _at(obj: Mapping[str, Any], schema: Schema, path: str) -> tuple[Mapping[str, Any], Mapping[str, Schema]]:
    """The fields that an object and its schema have at a path such as `spec.items[0].template`."""
    value: Any = obj
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if key:
            value = value.get(key) if isinstance(value, Mapping) else None
            schema = (schema.get("properties") or {}).get(key) or {}
        else:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
            schema = schema.get("items") or {}
    return value if isinstance(value, Mapping) else {}, schema.get("properties") or {}


def misspelt_metadata(metadata: Any, path: str) -> Iterator[FieldWarning]:
    """Fields of an object's metadata that do not exist, and labels and annotations of ours that nothing reads."""
    if not isinstance(metadata, Mapping):
        return
    for name in metadata:
        if name not in _METADATA:
            text = f"the field {name!r} is unknown and is ignored"
            yield _warning(child(path, str(name)), text, nearest(str(name), _METADATA))
    annotations = (*_ANNOTATIONS, *sorted(_others))
    yield from _keys(metadata, "labels", "label", _LABELS, annotations, path)
    yield from _keys(metadata, "annotations", "annotation", annotations, _LABELS, path)


def _keys(
    metadata: Mapping[str, Any], part: str, word: str, known: Iterable[str], elsewhere: Iterable[str], path: str
) -> Iterator[FieldWarning]:
    given = metadata.get(part)
    internal = _INTERNAL if word == "annotation" else ()
    prefixes = (*_PREFIXES, *(one for one in _others if one.endswith("-")))
    domains = (*_DOMAINS, *{f"{one.partition('/')[0]}/" for one in _others})
    for key in given if isinstance(given, Mapping) else ():
        if not str(key).startswith(domains) or str(key).startswith(prefixes) or key in (*known, *internal):
            continue
        where = child(f"{path}.{part}", str(key))
        if key in elsewhere:
            other = "an annotation" if word == "label" else "a label"
            yield FieldWarning(where, f"{key!r} is ignored as {_article(word)}: it must be {other}")
        else:
            yield _warning(where, f"nothing reads the {word} {key!r}", nearest(str(key), known))


def _article(word: str) -> str:
    return f"an {word}" if word.startswith("a") else f"a {word}"


def _warning(path: str, text: str, near: str | None) -> FieldWarning:
    return FieldWarning(path, f"{text}; did you mean {near!r}?" if near else text, near)
