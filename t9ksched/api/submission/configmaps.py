"""ConfigMaps that come with a job in one request, read and given to the object whose pods name them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from t9ksched.model.dns import is_subdomain
from t9ksched.model.errors import FieldError, Invalid, faulty

if TYPE_CHECKING:
    from t9ksched.api.submission.submission import Item

KIND: Final = "ConfigMap"
_MOST_BYTES: Final = 1024 * 1024
"""Of all values, as Kubernetes bounds them."""
_SET_BY_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
_SOURCES: Final = ("configMap", "configMapRef", "configMapKeyRef")
_FIELDS: Final = ("apiVersion", "kind", "metadata", "data", "binaryData", "immutable")


class File(msgspec.Struct, frozen=True):
    """A ConfigMap that belongs to an object of the same request; `prefix` is that of its fields' paths."""

    prefix: str
    obj: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.obj["metadata"]["name"])


def is_config_map(document: Any) -> bool:
    """Whether a document is one."""
    return isinstance(document, dict) and document.get("kind") == KIND


def read_file(prefix: str, document: Mapping[str, Any], namespace: str | None) -> File:
    """A sound ConfigMap of a request, in `namespace` if it names none.

    Raises:
        Invalid: anything is wrong with it.
    """
    faults = []
    if document.get("apiVersion") != "v1":
        faults.append(FieldError("apiVersion", f"{faulty(document.get('apiVersion'), 'has no ConfigMap')}: use v1"))
    faults += [FieldError(str(key), "is no field of a ConfigMap") for key in document if key not in _FIELDS]
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not isinstance(name := meta.get("name"), str) or not name:
        raise Invalid([*faults, FieldError("metadata.name", "is missing: give the ConfigMap the name that pods use")])
    if not is_subdomain(name):
        faults.append(FieldError("metadata.name", f"{name!r} is not a valid name: use a-z, 0-9, - and ."))
    if meta.get("ownerReferences"):
        faults.append(FieldError("metadata.ownerReferences", "is set by the service: leave it out"))
    size = 0
    for field in ("data", "binaryData"):
        values = document.get(field)
        if values is None:
            continue
        if not isinstance(values, dict) or not all(isinstance(one, str) for one in values.values()):
            faults.append(FieldError(field, "must be a mapping of texts"))
            continue
        size += sum(len(one.encode()) for one in values.values())
    if size > _MOST_BYTES:
        faults.append(FieldError("data", f"has {size} bytes, and a ConfigMap at most {_MOST_BYTES}"))
    if faults:
        raise Invalid(faults)
    kept = {key: value for key, value in meta.items() if key not in _SET_BY_SERVER}
    return File(prefix, {**document, "metadata": kept | {"namespace": meta.get("namespace") or namespace or "default"}})


def give_files(items: "Sequence[Item]", files: Sequence[File]) -> Iterator[FieldError]:
    """Give each file to the object whose pods name it: of pods of a group to the PodGroup, of an array to each element.
    The faults of those that none or several name.
    """
    seen: set[tuple[str, str]] = set()
    for file in files:
        path, namespace = f"{file.prefix}metadata.name", file.obj["metadata"]["namespace"]
        if (namespace, file.name) in seen:
            yield FieldError(path, f"ConfigMap/{file.name} is in the request twice")
            continue
        seen.add((namespace, file.name))
        naming = [item for item in items if item.workload.namespace == namespace and file.name in _named_by(item)]
        owners = {id(item.group or item): item.group or item for item in naming}
        if len({item.prefix for item in owners.values()}) == 1:  # one document
            for item in owners.values():
                item.files.append(file)
        elif owners:
            names = " and ".join(sorted(item.what for item in owners.values()))
            yield FieldError(path, f"the pods of {names} use it, and it can belong to one: give each its own")
        else:
            text = "no pods of the request use it: a ConfigMap is submitted with the job that mounts it"
            yield FieldError(path, text)


def _named_by(item: "Item") -> set[str]:
    return {name for template in item.workload.templates for name in config_maps(template.spec)}


def config_maps(spec: Mapping[str, Any]) -> Iterator[str]:
    """The names of the ConfigMaps that a pod's volumes and variables come from."""
    for volume in _list(spec.get("volumes")):
        yield from _names(volume.get("configMap"))
        projected = volume.get("projected")
        for source in _list(projected.get("sources") if isinstance(projected, Mapping) else None):
            yield from _names(source.get("configMap"))
    for container in (*_list(spec.get("initContainers")), *_list(spec.get("containers"))):
        for source in _list(container.get("envFrom")):
            yield from _names(source.get("configMapRef"))
        for variable in _list(container.get("env")):
            value = variable.get("valueFrom")
            yield from _names(value.get("configMapKeyRef") if isinstance(value, Mapping) else None)


def sources(part: Any) -> Iterator[dict[str, Any]]:
    """Wherever a part of an object names a ConfigMap."""
    if isinstance(part, list):
        for one in part:
            yield from sources(one)
    elif isinstance(part, dict):
        for key, one in part.items():
            if key in _SOURCES and isinstance(one, dict) and isinstance(one.get("name"), str):
                yield one
            yield from sources(one)


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _names(source: Any) -> Iterator[str]:
    if isinstance(source, Mapping) and isinstance(name := source.get("name"), str):
        yield name
