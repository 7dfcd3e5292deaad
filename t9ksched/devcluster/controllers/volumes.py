"""A simple PersistentVolume controller: binds claims to volumes.

Both binding modes: an `Immediate` claim is bound at once, a `WaitForFirstConsumer` one when a scheduler has written the
annotation `volume.kubernetes.io/selected-node`. The smallest volume that fits is taken; for a StorageClass with the
provisioner `local.devcluster.tensorstack.dev` one is made on the selected node (any node, if nothing was selected).
A claim that is deleted goes once no pod with a node names it, be the pod running or ended; its volume is then deleted
or kept as `Released`, as its policy says. A volume that is deleted stays while it is `Bound`. A claim whose volume has
gone in spite of that is `Lost` until there is one of that name again that is no other claim's.
"""

from contextlib import suppress
from typing import Any, Final

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, key_of, split_key
from t9ksched.devcluster.controllers.timers import Timers
from t9ksched.kube.errors import AlreadyExists, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS, PVCS, PVS, STORAGECLASSES
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import Invalid
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.quantity import to_units

Object = dict[str, Any]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONER: Final = "local.devcluster.tensorstack.dev"
_ASKED: Final = "volume.kubernetes.io/storage-provisioner"
_PROTECTION: Final = {PVCS: "kubernetes.io/pvc-protection", PVS: "kubernetes.io/pv-protection"}
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def claim_names(pod: Object) -> list[str]:
    """The claims that a pod's volumes refer to; a generic ephemeral volume's claim is named after pod and volume."""
    found: list[str] = []
    for volume in pod["spec"].get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def is_bound(claim: Object) -> bool:
    """Whether the claim has its volume."""
    return bool((claim.get("spec") or {}).get("volumeName")) and (claim.get("status") or {}).get("phase") == "Bound"


def waits_for_consumer(storage_class: Object | None) -> bool:
    """Whether claims of that class are bound only when a node was selected."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def volume_affinity(volume: Object) -> NodeSelector | None:
    """From which nodes the volume can be reached; None for all.

    Raises:
        Invalid: its node affinity is malformed.
    """
    required = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    return NodeSelector.parse(required) if required else None


class VolumeBinder(Reconciler):
    """Reconciles claims by key, and volumes by the key `"/" + name`."""

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers) -> None:
        super().__init__(timers)
        self._port = port
        self._claims = follower.cache(PVCS)
        self._volumes = follower.cache(PVS)
        self._classes = follower.cache(STORAGECLASSES)
        self._nodes = follower.cache(NODES)
        self._claims.listen(self._claim_changed)
        self._volumes.listen(self._volume_changed)
        self._classes.listen(lambda *_: self._mark_unbound())
        self._users: dict[str, set[str]] = {}
        """By claim: the pods that keep it, as the controller `pvc-protection` sees it. A pod without a node does not:
        no kubelet starts it once its claim is being deleted. One that has ended does, until it is deleted."""
        follower.cache(PODS).listen(self._pod_changed)

    def _claim_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None and old["spec"].get("volumeName"):
            self.mark("/" + old["spec"]["volumeName"])
        elif new is not None:
            self.mark(key)

    def _pod_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        for name in claim_names(pod):
            claim = f"{pod['metadata']['namespace']}/{name}"
            if new is not None and new["spec"].get("nodeName"):
                self._users.setdefault(claim, set()).add(key)
            elif claim in self._users:
                self._users[claim].discard(key)
                if not self._users[claim]:
                    del self._users[claim]
                    self.mark(claim)

    def _volume_changed(self, name: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None and (reference := old["spec"].get("claimRef")):
                self.mark(f"{reference['namespace']}/{reference['name']}")
            return
        self.mark("/" + name)
        reference = new["spec"].get("claimRef")
        if not reference:
            self._mark_unbound()
        else:
            self.mark(f"{reference['namespace']}/{reference['name']}")

    def _mark_unbound(self) -> None:
        for key, claim in self._claims.objects.items():
            if not is_bound(claim):
                self.mark(key)

    async def reconcile(self, key: str) -> None:
        """Bind one claim, or look after one volume."""
        if key.startswith("/"):
            volume = self._volumes.get(key[1:])
            if volume is not None:
                await self._look_after(volume)
            return
        claim = self._claims.get(key)
        if claim is None:
            return
        if claim["metadata"].get("deletionTimestamp"):
            if not self._users.get(key):
                await self._let_go(PVCS, claim)
        elif not is_bound(claim):
            await self._bind(claim)
        elif claim["spec"]["volumeName"] not in self._volumes.objects:
            await self._lose(claim)

    async def _lose(self, claim: Object) -> None:
        """The volume of a claim is gone, unless the cache has not seen it yet."""
        try:
            self._volumes.learn(await self._port.get(PVS, claim["spec"]["volumeName"]))
        except NotFound:
            namespace, name = split_key(key_of(claim))
            body = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"phase": "Lost"}}
            self._claims.learn(await self._port.patch(PVCS, name, namespace, body, subresource="status"))

    async def _let_go(self, res: Resource, obj: Object) -> None:
        """Lift the protection of a claim or volume that is being deleted and is out of use."""
        meta, protection = obj["metadata"], _PROTECTION[res]
        if protection in (meta.get("finalizers") or ()):
            left = [finalizer for finalizer in meta["finalizers"] if finalizer != protection]
            body = {"metadata": {"uid": meta["uid"], "finalizers": left or None}}
            await self._port.patch(res, meta["name"], meta.get("namespace"), body)

    async def _look_after(self, volume: Object) -> None:
        """Keep the phase of a volume, and delete it once it is of no use, or let it go if others did."""
        deleted = "deletionTimestamp" in volume["metadata"]
        phase = self._phase_of(volume)
        if (volume.get("status") or {}).get("phase") != phase:
            await self._set_phase(volume, phase)
        elif deleted and phase != "Bound":
            await self._let_go(PVS, volume)
        elif phase == "Released" and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not deleted:
            with suppress(NotFound):
                await self._port.delete(PVS, volume["metadata"]["name"], uid=volume["metadata"]["uid"])

    def _phase_of(self, volume: Object) -> str:
        reference = volume["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            return "Available"
        claim = self._claims.get(f"{reference['namespace']}/{reference['name']}")
        return "Bound" if claim is not None and claim["metadata"]["uid"] == reference["uid"] else "Released"

    async def _set_phase(self, volume: Object, phase: str) -> None:
        body = {"status": {"phase": phase}}
        self._volumes.learn(await self._port.patch(PVS, volume["metadata"]["name"], None, body, subresource="status"))

    def _class_of(self, claim: Object) -> tuple[str, Object | None]:
        name = claim["spec"].get("storageClassName")
        if name is None:
            for candidate, storage_class in sorted(self._classes.objects.items()):
                if (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
                    return candidate, storage_class
            return "", None
        return name, self._classes.get(name)

    async def _bind(self, claim: Object) -> None:
        class_name, storage_class = self._class_of(claim)
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        named = claim["spec"].get("volumeName")
        reserved = self._reserved(claim)
        if waits_for_consumer(storage_class) and not node and not named and reserved is None:
            return
        volume = self._volumes.get(named) if named else reserved or self._choose(claim, class_name, node)
        if volume is None and not named and storage_class is not None:
            volume = await self._provision(claim, class_name, storage_class, node)
        if volume is None or (named and not _open_to(volume, claim)):
            return  # until a volume or class appears
        await self._join(claim, volume)

    def _reserved(self, claim: Object) -> Object | None:
        """The volume that a scheduler has set aside for this very claim."""
        uid = claim["metadata"]["uid"]
        found = (v for v in self._volumes.objects.values() if (v["spec"].get("claimRef") or {}).get("uid") == uid)
        return next(found, None)

    def _choose(self, claim: Object, class_name: str, node: str | None) -> Object | None:
        """The smallest free volume that the claim can have, one that is reserved for it first."""
        fitting = [volume for volume in self._volumes.objects.values() if self._fits(volume, claim, class_name, node)]
        return min(
            fitting,
            key=lambda v: ("claimRef" not in v["spec"], _size(v["spec"].get("capacity")), v["metadata"]["name"]),
            default=None,
        )

    def _fits(self, volume: Object, claim: Object, class_name: str, node: str | None) -> bool:
        spec, wanted = volume["spec"], claim["spec"]
        if not _open_to(volume, claim):
            return False
        if (spec.get("claimRef") or {}).get("uid"):
            return True
        try:
            selector = LabelSelector.parse(wanted.get("selector") or {})
            affinity = volume_affinity(volume)
        except Invalid:
            return False
        return (
            (spec.get("storageClassName") or "") == class_name
            and (spec.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
            and set(wanted.get("accessModes") or []) <= set(spec.get("accessModes") or [])
            and _size(spec.get("capacity")) >= _size((wanted.get("resources") or {}).get("requests"))
            and selector.matches(volume["metadata"].get("labels") or {})
            and (node is None or affinity is None or self._on(node, affinity))
            and not volume["metadata"].get("deletionTimestamp")
        )

    def _on(self, node: str, affinity: NodeSelector) -> bool:
        obj = self._nodes.get(node)
        return obj is not None and affinity.matches(obj["metadata"].get("labels") or {}, node)

    async def _provision(
        self, claim: Object, class_name: str, storage_class: Object, node: str | None
    ) -> Object | None:
        if storage_class.get("provisioner") != PROVISIONER or not (node or self._nodes.objects):
            return None
        metadata = claim["metadata"]
        node = node or min(self._nodes.objects)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": f"pvc-{metadata['uid']}",
                "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
            },
            "spec": {
                "capacity": {
                    "storage": ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
                },
                "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
                "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
                "storageClassName": class_name,
                "claimRef": _reference(claim),
                "local": {"path": f"/var/lib/devcluster/{metadata['uid']}"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                                ]
                            }
                        ]
                    }
                },
            },
        }
        try:
            made = await self._port.create(PVS, volume)
        except AlreadyExists:
            made = await self._port.get(PVS, f"pvc-{metadata['uid']}")
        self._volumes.learn(made)
        return made

    async def _join(self, claim: Object, volume: Object) -> None:
        name, (namespace, claim_name) = volume["metadata"]["name"], split_key(key_of(claim))
        uid = claim["metadata"]["uid"]
        if (volume["spec"].get("claimRef") or {}).get("uid") != uid:
            precondition = {"resourceVersion": volume["metadata"]["resourceVersion"]}
            body: Object = {"metadata": precondition, "spec": {"claimRef": _reference(claim)}}
            self._volumes.learn(await self._port.patch(PVS, name, None, body))
        body = {
            "metadata": {"uid": uid, "annotations": {_BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": name},
        }
        await self._port.patch(PVCS, claim_name, namespace, body)
        status = {
            "phase": "Bound",
            "capacity": volume["spec"].get("capacity") or {},
            "accessModes": volume["spec"].get("accessModes") or [],
        }
        body = {"metadata": {"uid": uid}, "status": status}
        self._claims.learn(await self._port.patch(PVCS, claim_name, namespace, body, subresource="status"))


class Provisioner(VolumeBinder):
    """Makes volumes and nothing else, beside the volume binder of a cluster with controllers of its own.

    That binder asks for a volume by naming the provisioner on a claim for which there is none yet.
    """

    async def reconcile(self, key: str) -> None:
        """Make the volume of one claim when it is asked for."""
        claim = self._claims.get(key)
        if claim is None or claim["metadata"].get("deletionTimestamp") or claim["spec"].get("volumeName"):
            return
        class_name, storage_class = self._class_of(claim)
        annotations = claim["metadata"].get("annotations") or {}
        node = annotations.get(SELECTED_NODE)
        if storage_class is None or annotations.get(_ASKED) != PROVISIONER:
            return
        if node or not waits_for_consumer(storage_class):
            await self._provision(claim, class_name, storage_class, node)


def _open_to(volume: Object, claim: Object) -> bool:
    """Whether the volume is no other claim's, nor kept for one."""
    reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    same = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    return not reference or (same and reference.get("uid", metadata["uid"]) == metadata["uid"])


def _reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _size(amounts: Object | None) -> int:
    return to_units("storage", (amounts or {}).get("storage", "0"))
