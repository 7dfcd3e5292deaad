"""Which fields a configuration names, and who owns them: the bookkeeping of server-side apply.

A field is a path of segments as `managedFields` writes them: `f:<name>` for a field, `k:{…}` for an element of a list
merged by key, `v:…` for an element of a set. Records exist only on objects that were applied at least once; other
writes then take over the fields that they change.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.strategic import child_model, merge_key

Object = dict[str, Any]
Path = tuple[str, ...]
Fields = frozenset[Path]

_NOT_OWNED: Final = frozenset({"apiVersion", "kind"})
_NOT_OWNED_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    }
)
_ABSENT: Final = object()


class Shape:
    """How a value merges: which of its lists go by key, which are sets."""

    def __init__(self, model: str = "", schema: Object | None = None) -> None:
        self._model = model
        self._schema = schema

    def child(self, field: str) -> "Shape":
        """The shape of a field's value; of a list, that of its elements."""
        if self._model:
            return Shape(child_model(self._model, field))
        schema = self._schema or {}
        if field == "metadata" and "metadata" in (schema.get("properties") or {}):
            return Shape("V1ObjectMeta")
        found = (schema.get("properties") or {}).get(field) or schema.get("additionalProperties")
        if isinstance(found, dict) and isinstance(found.get("items"), dict):
            return Shape(schema=found["items"])
        return Shape(schema=found if isinstance(found, dict) else None)

    def list_keys(self, field: str) -> list[str] | None:
        """The keys of a list merged by key; an empty list for a set; None for a list that is replaced whole."""
        if self._model:
            if (self._model, field) == ("V1ObjectMeta", "finalizers"):
                return []
            key = merge_key(self._model, field)
            return [key] if key else None
        found = ((self._schema or {}).get("properties") or {}).get(field) or {}
        kind = found.get("x-kubernetes-list-type")
        if kind == "map":
            return list(found.get("x-kubernetes-list-map-keys") or [])
        return [] if kind == "set" else None


def shape_of(kind: Kind) -> Shape:
    """The shape of a kind's objects."""
    return Shape(kind.model) if kind.custom is None else Shape(schema=kind.custom.schema)


def fields_of(obj: Object, shape: Shape) -> Fields:
    """The paths of all fields that a configuration states."""
    body = {key: value for key, value in obj.items() if key not in _NOT_OWNED}
    meta = {key: value for key, value in (body.pop("metadata", None) or {}).items() if key not in _NOT_OWNED_METADATA}
    if meta:
        body["metadata"] = meta
    return frozenset(_walk(body, shape, ()))


def _walk(value: Object, shape: Shape, prefix: Path) -> Iterator[Path]:
    for name, element in value.items():
        path = (*prefix, f"f:{name}")
        keys = shape.list_keys(name) if isinstance(element, list) else None
        if isinstance(element, dict) and element:
            yield from _walk(element, shape.child(name), path)
        elif keys == []:
            yield from ((*path, f"v:{_text(item)}") for item in element)
        elif keys and are_objects(element):
            for item in element:
                inner = (*path, f"k:{_text({key: item.get(key) for key in keys})}")
                yield (*inner, ".")
                yield from _walk(item, shape.child(name), inner)
        else:
            yield path


def are_objects(items: list[Any]) -> bool:
    """Whether a list can be merged by key at all."""
    return all(isinstance(item, dict) for item in items)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read(obj: Any, path: Path) -> Any:
    """The value at a path; `ABSENT` (any other object's identity) when there is none."""
    for segment in path:
        if segment == ".":
            return obj
        if segment.startswith("f:"):
            obj = obj.get(segment[2:], _ABSENT) if isinstance(obj, dict) else _ABSENT
        else:
            obj = _element(obj, segment)
        if obj is _ABSENT:
            return _ABSENT
    return obj


def _element(items: Any, segment: str) -> Any:
    wanted = msgspec.json.decode(segment[2:].encode())
    for item in items if isinstance(items, list) else ():
        if segment.startswith("v:"):
            if item == wanted:
                return item
        elif isinstance(item, dict) and all(item.get(key) == value for key, value in wanted.items()):
            return item
    return _ABSENT


def without(obj: Any, path: Path) -> Any:
    """A copy without the field at a path, and without objects that become empty by that."""
    segment, rest = path[0], path[1:]
    if segment.startswith("f:") and isinstance(obj, dict):
        name = segment[2:]
        if name not in obj:
            return obj
        inner = without(obj[name], rest) if rest else None
        if inner in (None, {}, []):
            return {key: value for key, value in obj.items() if key != name}
        return {**obj, name: inner}
    found = _element(obj, segment) if isinstance(obj, list) else _ABSENT
    if found is _ABSENT:
        return obj
    if not rest or rest == (".",):
        return [item for item in obj if item is not found]
    return [without(item, rest) if item is found else item for item in obj]


def shown(path: Path) -> str:
    """A path as a conflict names it: `.spec.containers[name="c"].image`."""
    text = ""
    for segment in path:
        if segment.startswith("f:"):
            text += f".{segment[2:]}"
        elif segment.startswith("k:"):
            keys = msgspec.json.decode(segment[2:].encode())
            text += "[" + ",".join(f"{key}={_text(value)}" for key, value in keys.items()) + "]"
        elif segment.startswith("v:"):
            text += f"[={segment[2:]}]"
    return text


def to_json(fields: Fields) -> Object:
    """The nested form of `fieldsV1`."""
    root: Object = {}
    for path in sorted(fields):
        node = root
        for segment in path:
            node = node.setdefault(segment, {})
    return root


def from_json(root: Object, prefix: Path = ()) -> Iterator[Path]:
    """The paths of a nested `fieldsV1`."""
    for segment, inner in root.items():
        path = (*prefix, segment)
        if inner:
            yield from from_json(inner, path)
        else:
            yield path


def owned(entry: Object) -> Fields:
    """The paths that one record of `managedFields` claims."""
    return frozenset(from_json(entry.get("fieldsV1") or {}))


def steal(meta: Object, before: Object, after: Object, shape: Shape) -> None:
    """Take from every owner the fields that a plain write changed."""
    records = []
    for entry in meta["managedFields"]:
        mine = owned(entry)
        kept = frozenset(path for path in mine if read(before, path) == read(after, path))
        if kept != mine:
            entry = {**entry, "fieldsV1": to_json(kept)}
        if kept:
            records.append(entry)
    if records:
        meta["managedFields"] = records
    else:
        del meta["managedFields"]
