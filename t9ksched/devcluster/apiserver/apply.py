"""Server-side apply: each manager states the fields it wants, and owns what it stated.

A field that its manager no longer states goes away, unless another one owns it; a field that another manager set to a
different value is a conflict, which `force` decides for the newcomer.
"""

from typing import Any

from t9ksched.devcluster.apiserver import metadata, ownership
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.decoding import check_type
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.options import META_GROUP, WriteOptions
from t9ksched.devcluster.apiserver.ownership import Fields, Shape
from t9ksched.devcluster.apiserver.status import Cause, StatusError, bad_request, invalid, required
from t9ksched.devcluster.apiserver.storage import Entry

Object = dict[str, Any]


def apply(
    api: Api, kind: Kind, namespace: str | None, name: str, body: Any, opts: WriteOptions, subresource: str = ""
) -> tuple[Entry, bool]:
    """Apply a configuration; the object afterwards, and whether it was created.

    Raises:
        StatusError: 422 without a field manager, 409 with every field that another manager holds.
    """
    if not opts.manager:
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", META_GROUP, "", [cause])
    check_type(kind, body)
    meta = body.get("metadata") or {}
    if meta.get("name", name) != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    body = {**body, "metadata": {**meta, "name": name}}
    shape = ownership.shape_of(kind)
    stated = ownership.fields_of(body, shape)
    opts.applies = True
    found = api.collection(kind).entries.get(kind.key(namespace, name))
    if found is None:
        body["metadata"]["managedFields"] = [_record(kind, opts.manager, stated, subresource)]
        return api.create(kind, namespace, body, opts), True
    live = kind.from_stored(found.object) if kind.from_stored else found.object
    records = live["metadata"].get("managedFields") or []
    others = [entry for entry in records if not _is_mine(entry, opts.manager, subresource)]
    mine = [entry for entry in records if _is_mine(entry, opts.manager, subresource)]
    others = _settle(others, stated, live, body, opts)
    merged = _merge(live, body, shape)
    before = frozenset().union(*(ownership.owned(entry) for entry in mine))
    kept = frozenset().union(*(ownership.owned(entry) for entry in others))
    for path in sorted(before - stated - kept, key=len, reverse=True):
        merged = ownership.without(merged, path)
    fresh = _record(kind, opts.manager, stated, subresource)
    if mine and ownership.owned(mine[0]) == stated:
        fresh = mine[0]
    managed = [*others, fresh] if stated else others
    merged["metadata"] = {**merged["metadata"], "managedFields": managed}
    if not managed:
        del merged["metadata"]["managedFields"]
    merged["metadata"].pop("resourceVersion", None)
    if meta.get("resourceVersion"):
        merged["metadata"]["resourceVersion"] = meta["resourceVersion"]
    return api.update(kind, found, merged, opts, subresource), False


def _is_mine(entry: Object, manager: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    )


def _record(kind: Kind, manager: str, stated: Fields, subresource: str) -> Object:
    record: Object = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": kind.api_version,
        "time": metadata.now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": ownership.to_json(stated),
    }
    return record | {"subresource": subresource} if subresource else record


def _settle(others: list[Object], stated: Fields, live: Object, body: Object, opts: WriteOptions) -> list[Object]:
    """The other managers' records after this configuration; 409 for fields that they hold and it does not force."""
    causes: list[Cause] = []
    result = []
    for entry in others:
        theirs = ownership.owned(entry)
        lost = {
            path
            for path in theirs & stated
            if path[-1] != "." and ownership.read(live, path) != ownership.read(body, path)
        }
        text = f'conflict with "{entry.get("manager")}"'
        causes += [Cause("FieldManagerConflict", text, ownership.shown(path)) for path in sorted(lost)]
        if lost:
            entry = {**entry, "fieldsV1": ownership.to_json(theirs - lost)}
        if theirs - lost:
            result.append(entry)
    if causes and not opts.force:
        listed = ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
        plural = "conflict" if len(causes) == 1 else "conflicts"
        text = f"Apply failed with {len(causes)} {plural}: {listed}"
        raise StatusError(409, "Conflict", text, {"causes": [cause.to_dict() for cause in causes]})
    return result


def _merge(live: Any, body: Object, shape: Shape) -> Object:
    """The live object with the stated fields put in; lists merge by key where the shape has one."""
    result = dict(live) if isinstance(live, dict) else {}
    for name, value in body.items():
        if isinstance(value, dict) and value:
            result[name] = _merge(result.get(name), value, shape.child(name))
        elif isinstance(value, list) and (keys := shape.list_keys(name)) is not None:
            result[name] = _merge_list(result.get(name) or [], value, keys, shape.child(name))
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def _merge_list(live: list[Any], stated: list[Any], keys: list[str], shape: Shape) -> list[Any]:
    if keys and not ownership.are_objects(stated):
        return stated
    if not keys:
        return [*live, *(item for item in stated if item not in live)]
    result = list(live)
    for item in stated:
        for number, present in enumerate(result):
            if all(present.get(key) == item.get(key) for key in keys):
                result[number] = _merge(present, item, shape)
                break
        else:
            result.append(item)
    return result
