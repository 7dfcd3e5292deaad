"""Binding a pod to a node: the one write with which a scheduler acts."""

from typing import Any

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.metadata import now
from t9ksched.devcluster.apiserver.options import section
from t9ksched.devcluster.apiserver.status import (
    bad_request,
    bad_value,
    conflict,
    internal,
    invalid,
    required,
    unsupported,
)
from t9ksched.devcluster.apiserver.storage import Entry

Object = dict[str, Any]


def bind(api: Api, pods: Kind, namespace: str, name: str, binding: Object, dry_run: bool = False) -> Entry:
    """Assign a pod to a node, with the Binding's labels and annotations merged into the pod, as one change.

    The Binding's uid and resourceVersion are preconditions. That the node exists is not checked, and the generation
    does not move: both as in a real server.

    Raises:
        StatusError: 404 unknown pod; 409 bound already, gated, being deleted, or a precondition fails; 400, 500 for
            a Binding that names no node.
    """
    meta, target = section(binding, "metadata"), section(binding, "target")
    if meta.get("name") and meta["name"] != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind") not in (None, "", "Node"):
        raise internal(f"target.kind: {unsupported('', target['kind'], ('Node', '<empty>')).message}", "")
    if not target.get("name") or not isinstance(target["name"], str):
        raise internal(f"target.name: {required('').message}", "")
    entry = api.get(pods, namespace, name)
    named = {**binding, "metadata": {**meta, "name": name, "namespace": namespace}}
    api.policies.check("CREATE", pods.path, "binding", named, None)
    pod = entry.object
    _check_preconditions(meta, entry, name)
    refused = _refusal(pod, name)
    if refused:
        raise conflict("pods/binding", "", name, refused)
    fresh = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        if section(meta, part):
            if not all(isinstance(value, str) for value in meta[part].values()):
                raise invalid("Binding", "", name, [bad_value(f"metadata.{part}", meta[part], "must map text to text")])
            fresh[part] = {**(fresh.get(part) or {}), **meta[part]}
    bound = {
        **pod,
        "metadata": fresh,
        "spec": {**pod["spec"], "nodeName": target["name"]},
        "status": {**pod["status"], "conditions": _scheduled(pod["status"].get("conditions") or [])},
    }
    return api.write(pods, entry, bound, dry_run)


def _check_preconditions(meta: Object, entry: Entry, name: str) -> None:
    held = {"UID": entry.object["metadata"]["uid"], "ResourceVersion": str(entry.version)}
    for word, field in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if meta.get(field) and meta[field] != held[word]:
            text = (
                f"StorageError: invalid object, Code: 4, Key: /registry/pods/{entry.key}, ResourceVersion: 0,"
                f" AdditionalErrorMsg: Precondition failed: {word} in precondition: {meta[field]}, {word} in object"
                f" meta: {held[word]}"
            )
            raise conflict("pods", "", name, text)


def _refusal(pod: Object, name: str) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _scheduled(conditions: list[Object]) -> list[Object]:
    others = [condition for condition in conditions if condition.get("type") != "PodScheduled"]
    fresh = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    return [*others, fresh]
