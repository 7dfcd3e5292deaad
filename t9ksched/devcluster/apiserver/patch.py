"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902) on plain JSON values.

Neither function changes its arguments; unchanged parts of the result are shared with the original. JSON patch follows
the API server's library where that is laxer than the RFC: `replace` of an absent key adds it, and `test` of an absent
path against null passes.
"""

from typing import Any, Final

from t9ksched.model.whole import whole_number


class PatchFailed(ValueError):
    """A JSON patch operation cannot be done on this document."""


def merge(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


_ABSENT: Final = object()


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after all operations of a JSON patch, in order.

    Raises:
        PatchFailed: an operation is malformed, its path does not exist, or a test fails.
    """
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise PatchFailed("an operation needs the text fields op and path")
        document = _one(document, operation)
    return document


def _one(document: Any, operation: dict[str, Any]) -> Any:
    kind = operation.get("op")
    path = _pointer(operation["path"])
    if kind in ("add", "replace"):
        if "value" not in operation:
            raise PatchFailed(f"{kind} needs a value")
        return _put(document, path, operation["value"], insert=kind == "add")
    if kind == "remove":
        return _remove(document, path)
    if kind == "test":
        found = _read(document, path)
        if not _equal(None if found is _ABSENT else found, operation.get("value")):
            raise PatchFailed(f"test failed at {operation['path']}")
        return document
    if kind in ("copy", "move"):
        source = _pointer(str(operation.get("from", "")))
        value = _read(document, source)
        if value is _ABSENT:
            raise PatchFailed(f"nothing at {operation.get('from')}")
        if kind == "move":
            document = _remove(document, source)
        return _put(document, path, value, insert=True)
    raise PatchFailed(f"unknown operation {kind!r}")


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true and 1 are not, which Python takes for equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise PatchFailed(f"{text!r} is not a path: it must start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(part: str, length: int) -> int:
    index = whole_number(part)
    if index is None or (len(part) > 1 and part[0] == "0") or index >= length:
        raise PatchFailed(f"no element {part[:100]!r} in a list of {length}")
    return index


def _read(node: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(node, dict):
            node = node.get(part, _ABSENT)
        elif isinstance(node, list):
            index = whole_number(part)
            node = node[index] if index is not None and index < len(node) else _ABSENT
        else:
            return _ABSENT
        if node is _ABSENT:
            return _ABSENT
    return node


def _put(node: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(node, dict):
        if rest and part not in node:
            raise PatchFailed(f"nothing at {part!r}")
        return {**node, part: _put(node[part], rest, value, insert=insert) if rest else value}
    if isinstance(node, list):
        if rest:
            index = _index(part, len(node))
            return [*node[:index], _put(node[index], rest, value, insert=insert), *node[index + 1 :]]
        if part == "-":
            return [*node, value]
        index = _index(part, len(node) + 1 if insert else len(node))
        return [*node[:index], value, *node[index if insert else index + 1 :]]
    raise PatchFailed(f"{part!r} is below a value that has no fields")


def _remove(node: Any, path: list[str]) -> Any:
    if not path:
        raise PatchFailed("the whole document cannot be removed")
    part, rest = path[0], path[1:]
    if isinstance(node, dict):
        if part not in node:
            raise PatchFailed(f"nothing at {part!r}")
        if rest:
            return {**node, part: _remove(node[part], rest)}
        return {key: value for key, value in node.items() if key != part}
    if isinstance(node, list):
        index = _index(part, len(node))
        return [*node[:index], *([_remove(node[index], rest)] if rest else []), *node[index + 1 :]]
    raise PatchFailed(f"nothing at {part!r}")
