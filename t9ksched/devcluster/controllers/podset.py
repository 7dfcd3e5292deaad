"""What all controllers of pods share: finding the pods of an owner, and making a pod from a template."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from t9ksched.devcluster.controllers.follow import Cache, key_of
from t9ksched.devcluster.nodes.podstatus import is_terminal
from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.model.api_resource import Resource

Object = dict[str, Any]


class Owned:
    """An index of a cache: the keys of objects by the UID of the controller that owns them."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._keys: dict[str, dict[str, None]] = {}
        cache.listen(self._changed)

    def _changed(self, key: str, old: Object | None, new: Object | None) -> None:
        before, after = controller_of(old), controller_of(new)
        if before and before.get("uid") != (after or {}).get("uid"):
            keys = self._keys.get(before["uid"], {})
            keys.pop(key, None)
            if not keys:
                self._keys.pop(before["uid"], None)
        if after:
            self._keys.setdefault(after["uid"], {})[key] = None

    def of(self, owner: Object) -> list[Object]:
        """The objects that this owner controls, in the order in which they were seen."""
        return [self._cache.objects[key] for key in self._keys.get(owner["metadata"]["uid"], ())]


def controller_of(obj: Object | None) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller, if it has one."""
    if obj is None:
        return None
    return next((owner for owner in obj["metadata"].get("ownerReferences") or [] if owner.get("controller")), None)


def owner_key(obj: Object | None, kind: str) -> str | None:
    """The key of the controller of that kind that owns an object."""
    owner = controller_of(obj)
    if obj is None or owner is None or owner.get("kind") != kind:
        return None
    return f"{obj['metadata'].get('namespace')}/{owner['name']}"


async def still_wanted(port: ClusterPort, res: Resource, owner: Object) -> bool:
    """Whether the API server has the owner, too: with a watch that lags, what is made for one that was deleted would be
    collected at once, and made again.
    """
    metadata = owner["metadata"]
    try:
        found = await port.get(res, metadata["name"], metadata["namespace"])
    except NotFound:
        return False
    there: Object = found["metadata"]
    return bool(there["uid"] == metadata["uid"]) and not there.get("deletionTimestamp")


def reference(owner: Object, res: Resource) -> Object:
    """The owner reference to put on what `owner` makes."""
    return {
        "apiVersion": res.api_version,
        "kind": res.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def from_template(owner: Object, res: Resource, labels: Mapping[str, str], name: str = "") -> Object:
    """A pod from `owner`'s `spec.template`, its metadata kept; without a name the server makes one from the owner's."""
    template = copy.deepcopy(owner["spec"]["template"])
    metadata = template.get("metadata") or {}
    kept = {field: metadata[field] for field in ("labels", "annotations", "finalizers") if metadata.get(field)}
    kept["labels"] = {**kept.get("labels", {}), **labels}
    naming = {"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **naming,
            "namespace": owner["metadata"]["namespace"],
            **kept,
            "ownerReferences": [reference(owner, res)],
        },
        "spec": template.get("spec") or {},
    }


def is_deleting(obj: Object) -> bool:
    """Whether its deletion was asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    """Whether the pod still works or will: not ended, not being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_ready(pod: Object) -> bool:
    """Whether the pod's containers are ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return not is_deleting(pod) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def expendable_first(pods: Iterable[Object]) -> list[Object]:
    """The order in which pods are taken away: unbound, then unready, then the youngest."""
    return sorted(
        sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), key_of(pod)), reverse=True),
        key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod)),
    )
