"""The `scale` subresource: replicas of a workload, under one shape for all kinds."""

from typing import Any

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.status import bad_value, conflict, invalid
from t9ksched.devcluster.apiserver.storage import Entry

Object = dict[str, Any]


def _dig(obj: Object, path: str, missing: Any = None) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return missing if value is None else value


def paths(kind: Kind) -> tuple[str, str, str]:
    """Where a kind keeps its wanted replicas, its present replicas, and its selector's text."""
    if kind.custom is not None and kind.custom.scale:
        found = kind.custom.scale
        return found["specReplicasPath"], found["statusReplicasPath"], found.get("labelSelectorPath", "")
    return ".spec.replicas", ".status.replicas", ""


def _selector_text(selector: Object) -> str:
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or []:
        values = ",".join(sorted(term.get("values") or []))
        shapes = {
            "In": f"{term['key']} in ({values})",
            "NotIn": f"{term['key']} notin ({values})",
            "Exists": term["key"],
            "DoesNotExist": f"!{term['key']}",
        }
        terms.append(shapes.get(term["operator"], term["key"]))
    return ",".join(terms)


def show(kind: Kind, obj: Object) -> Object:
    """The Scale object of a workload."""
    wanted, present, selector = paths(kind)
    meta = {
        field: obj["metadata"][field]
        for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if field in obj["metadata"]
    }
    status: Object = {"replicas": _dig(obj, present, 0)}
    text = _dig(obj, selector, "") if selector else _selector_text(_dig(obj, "spec.selector", {}) or {})
    if text and (selector or kind.model):
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {"replicas": _dig(obj, wanted, 0)},
        "status": status,
    }


def write(api: Api, kind: Kind, entry: Entry, scale: Object, dry_run: bool = False) -> Object:
    """Set the replicas that a Scale object asks for; the Scale afterwards."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    name = entry.object["metadata"]["name"]
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", name, [cause])
    meta, mine = scale.get("metadata") or {}, entry.object["metadata"]["uid"]
    if meta.get("uid", mine) != mine:
        text = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {mine}"
        raise conflict(kind.plural, kind.group, name, text)
    version = meta.get("resourceVersion")
    if version and version != str(entry.version):
        raise conflict(kind.plural, kind.group, name)

    before = show(kind, entry.object)
    after = {**before, "spec": {"replicas": replicas} if replicas else {}}  # a scale to 0 comes without the number
    api.policies.check("UPDATE", kind.path, "scale", after, before)
    obj = dict(entry.object)
    obj["metadata"] = dict(obj["metadata"])
    holder = obj
    *parents, last = paths(kind)[0].strip(".").split(".")
    for part in parents:
        holder[part] = dict(holder.get(part) or {})
        holder = holder[part]
    if holder.get(last) != replicas:
        holder[last] = replicas
        obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1
    return show(kind, api.write(kind, entry, obj, dry_run).object)
