"""Fields, labels and annotations that nothing reads, which are most often misspelt: warned about, never refused.

A field is judged by the schema of its kind, as its CustomResourceDefinition gives it. Where the schema closes an
object, every unknown field is reported; where it leaves one open, only fields that resemble a known one, because others
may be meant for another program. Labels and annotations are judged within our own domain, and those of `also_read`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from t9ksched.admission.oddities import nearest
from t9ksched.model import names
from t9ksched.model.errors import FieldWarning, child

Schema = Mapping[str, Any]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
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


def misspelt_fields(value: Any, schema: Schema, path: str = "") -> Iterator[FieldWarning]:
    """Fields of a value that its schema does not know, at any depth below it.

    `apiVersion`, `kind` and `metadata` of the object itself are `misspelt_metadata`'s.
    """
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from misspelt_fields(one, schema.get("items") or {}, f"{path}[{index}]")
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if not isinstance(value, Mapping) or not (properties or isinstance(others, Mapping)):
        return
    for name, inner in value.items():
        where = child(path, str(name))
        if name in properties:
            yield from misspelt_fields(inner, properties[name], where)
        elif isinstance(others, Mapping):
            yield from misspelt_fields(inner, others, where)
        else:
            near = nearest(str(name), properties)
            if near is not None or not (others or schema.get(_OPEN)):
                yield _warning(where, f"the field {name!r} is unknown and is ignored", near)


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
