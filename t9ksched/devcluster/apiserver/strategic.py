"""Strategic merge patch: a merge patch that knows which lists of the built-in kinds are merged by a key.

Directives: `$patch: delete|replace|merge`, `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
`$setElementOrder/<field>`. Merge keys are Kubernetes' own; a list without one is replaced whole.
"""

from collections.abc import Callable
from typing import Any, Final

from t9ksched.devcluster.apiserver.models import fields

MERGE_KEYS: Final[dict[tuple[str, str], str]] = {
    ("V1PodSpec", "containers"): "name",
    ("V1PodSpec", "initContainers"): "name",
    ("V1PodSpec", "ephemeralContainers"): "name",
    ("V1PodSpec", "volumes"): "name",
    ("V1PodSpec", "imagePullSecrets"): "name",
    ("V1PodSpec", "hostAliases"): "ip",
    ("V1PodSpec", "topologySpreadConstraints"): "topologyKey",
    ("V1PodSpec", "schedulingGates"): "name",
    ("V1PodSpec", "resourceClaims"): "name",
    ("V1Container", "env"): "name",
    ("V1Container", "ports"): "containerPort",
    ("V1Container", "volumeMounts"): "mountPath",
    ("V1Container", "volumeDevices"): "devicePath",
    ("V1ServiceSpec", "ports"): "port",
    ("V1ObjectMeta", "ownerReferences"): "uid",
    ("V1ServiceAccount", "secrets"): "name",
    ("V1NodeStatus", "addresses"): "type",
    ("V1PodStatus", "podIPs"): "ip",
    ("V1PodStatus", "hostIPs"): "ip",
}
_MERGED_SETS: Final = frozenset({("V1ObjectMeta", "finalizers"), ("V1NodeSpec", "podCIDRs")})
_CONDITION_LISTS: Final = frozenset(
    {
        "V1PodStatus",
        "V1NodeStatus",
        "V1JobStatus",
        "V1DeploymentStatus",
        "V1ReplicaSetStatus",
        "V1StatefulSetStatus",
        "V1DaemonSetStatus",
        "V1NamespaceStatus",
        "V1PersistentVolumeClaimStatus",
        "V1ServiceStatus",
        "V1PodDisruptionBudgetStatus",
    }
)
_DROP: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


class BadDirective(ValueError):
    """A directive that does not exist or does not fit its place."""


def merge_key(model: str, field: str) -> str | None:
    """The key by which a list field of a model is merged; None when it is replaced."""
    if field == "conditions" and model in _CONDITION_LISTS:
        return "type"
    return MERGE_KEYS.get((model, field))


def child_model(model: str, field: str) -> str:
    """The model of a field's value or of its elements; empty for plain values."""
    kind = fields(model).types.get(field, "") if model else ""
    for prefix in ("List[", "Dict[str, "):
        kind = kind.removeprefix(prefix)
    kind = kind.rstrip("]")
    return kind if kind[:1].isupper() else ""


def merge(target: Any, patch: dict[str, Any], model: str) -> dict[str, Any]:
    """The target with the patch applied; `model` names the shape of both (empty: no merge keys below).

    Raises:
        BadDirective: the patch holds a directive that cannot be followed.
    """
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if not key.startswith("$")}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadDirective(f"Unknown patch type found: {directive}")
    result = dict(target) if isinstance(target, dict) else {}
    if (kept := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(_DROP):
            field = key.removeprefix(_DROP)
            result[field] = [element for element in result.get(field) or [] if element not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge(result.get(key), value, child_model(model, key))
        elif isinstance(value, list):
            order = patch.get(_ORDER + key)
            result[key] = _merge_list(result.get(key) or [], value, model, key, order)
        else:
            result[key] = value
    return result


def _merge_list(target: list[Any], patch: list[Any], model: str, field: str, order: list[Any] | None) -> list[Any]:
    if (model, field) in _MERGED_SETS:
        return _in_order([*target, *(entry for entry in patch if entry not in target)], patch, target, str)
    key = merge_key(model, field)
    if key is None:
        return [element for element in patch if element != {"$patch": "replace"}]
    if any(isinstance(element, dict) and element.get("$patch") == "replace" for element in patch):
        return [element for element in patch if element.get("$patch") != "replace"]
    inner = child_model(model, field)
    result = list(target)
    for element in patch:
        if not isinstance(element, dict) or key not in element:
            raise BadDirective(f"map: {element} does not contain declared merge key: {key}")
        if element.get("$patch") == "delete":
            result = [old for old in result if old.get(key) != element[key]]
            continue
        for number, old in enumerate(result):
            if old.get(key) == element[key]:
                result[number] = merge(old, element, inner)
                break
        else:
            result.append(merge({}, element, inner))
    return _in_order(result, order if order is not None else patch, target, lambda entry: str(entry.get(key)))


def _in_order(merged: list[Any], wanted: list[Any], before: list[Any], identity: Callable[[Any], str]) -> list[Any]:
    """The merged elements: those the patch names in its order, the others where they stood relative to them."""
    asked = {identity(entry): number for number, entry in enumerate(wanted)}
    stood = {identity(entry): number for number, entry in enumerate(before)}
    named = sorted((entry for entry in merged if identity(entry) in asked), key=lambda entry: asked[identity(entry)])
    others = [entry for entry in merged if identity(entry) not in asked]
    result: list[Any] = []
    while named and others:
        first, second = stood.get(identity(others[0])), stood.get(identity(named[0]))
        ahead = first is not None and second is not None and first < second
        result.append((others if ahead else named).pop(0))
    return result + named + others
