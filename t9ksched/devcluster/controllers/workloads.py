"""Trivial controllers for Deployments, ReplicaSets and StatefulSets: they keep the number of pods, and count them.

A Deployment whose template changes gets a new ReplicaSet at once and its old ones are emptied; there is no rolling. A
StatefulSet makes its pods in order, each once the one before it is ready (all at once with `Parallel`), with claims.
"""

import hashlib
from typing import Any

import msgspec

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, split_key
from t9ksched.devcluster.controllers.podset import (
    Owned,
    expendable_first,
    from_template,
    is_active,
    is_deleting,
    is_ready,
    owner_key,
    reference,
    still_wanted,
)
from t9ksched.devcluster.controllers.timers import Timers, to_text
from t9ksched.devcluster.nodes.podstatus import is_terminal
from t9ksched.kube.errors import AlreadyExists, Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import DEPLOYMENTS, PODS, PVCS, REPLICASETS, STATEFULSETS
from t9ksched.model.api_resource import Resource
from t9ksched.model.whole import whole_number

Object = dict[str, Any]

HASH_LABEL = "pod-template-hash"


def template_hash(template: Object) -> str:
    """A short text that is the same for the same pod template."""
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


class _PodOwner(Reconciler):
    """What the three have in common: reconcile owners when they or what they own change."""

    res: Resource
    owns: Resource = PODS

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers) -> None:
        super().__init__(timers)
        self._port = port
        self._objects = follower.cache(self.res)
        self._children = follower.cache(self.owns)
        self._owned = Owned(self._children)
        self._objects.listen(lambda key, old, new: self.mark(key) if new is not None else None)
        self._children.listen(self._child_changed)

    def _child_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        if owner := owner_key(new or old, self.res.kind):
            self.mark(owner)

    def _wanted(self, key: str) -> Object | None:
        obj = self._objects.get(key)
        return None if obj is None or is_deleting(obj) else obj

    async def _delete(self, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            await self._port.delete(self.owns, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except (NotFound, Conflict):
            return  # gone already, or another of its name

    async def _write(self, key: str, obj: Object, status: Object) -> None:
        status["observedGeneration"] = obj["metadata"].get("generation", 1)
        before = obj.get("status") or {}
        if all(before.get(name, 0) == value for name, value in status.items()):
            return
        body = {"metadata": {"uid": obj["metadata"]["uid"]}, "status": status}
        namespace, name = split_key(key)
        try:
            self._objects.learn(await self._port.patch(self.res, name, namespace, body, subresource="status"))
        except NotFound:
            return


class ReplicaSetController(_PodOwner):
    """ReplicaSets: as many pods as `replicas` says, all alike."""

    res = REPLICASETS

    async def reconcile(self, key: str) -> None:
        """Make or delete pods, then write the counts."""
        owner = self._wanted(key)
        if owner is None:
            return
        replicas = int(owner["spec"].get("replicas", 1))
        active = [pod for pod in self._owned.of(owner) if is_active(pod)]
        for pod in expendable_first(active)[: max(0, len(active) - replicas)]:
            await self._delete(pod)
        if len(active) < replicas and not await still_wanted(self._port, self.res, owner):
            return
        for _ in range(replicas - len(active)):
            self._children.learn(await self._port.create(PODS, from_template(owner, self.res, {})))
        active = [pod for pod in self._owned.of(owner) if is_active(pod)]
        ready = sum(is_ready(pod) for pod in active)
        counts = {"replicas": len(active), "fullyLabeledReplicas": len(active)}
        await self._write(key, owner, {**counts, "readyReplicas": ready, "availableReplicas": ready})


class DeploymentController(_PodOwner):
    """One ReplicaSet a pod template; the one of the present template has all the replicas."""

    res = DEPLOYMENTS
    owns = REPLICASETS

    async def reconcile(self, key: str) -> None:
        """Make or scale ReplicaSets, then write the counts and conditions."""
        owner = self._wanted(key)
        if owner is None:
            return
        template = owner["spec"]["template"]
        digest = template_hash(template)
        name = f"{owner['metadata']['name']}-{digest}"
        replicas = int(owner["spec"].get("replicas", 1))
        sets = {obj["metadata"]["name"]: obj for obj in self._owned.of(owner)}
        if name not in sets:
            if not await still_wanted(self._port, self.res, owner):
                return
            try:
                made = await self._port.create(REPLICASETS, _replica_set(owner, name, digest, replicas))
                self._children.learn(made)
                sets[name] = made
            except AlreadyExists:
                return  # the watch brings it, or it is another's
        for obj in sets.values():
            target = replicas if obj["metadata"]["name"] == name else 0
            if obj["spec"].get("replicas", 1) != target:
                body = {"metadata": {"uid": obj["metadata"]["uid"]}, "spec": {"replicas": target}}
                namespace = owner["metadata"]["namespace"]
                self._children.learn(await self._port.patch(REPLICASETS, obj["metadata"]["name"], namespace, body))
        await self._write(key, owner, self._status(owner, self._owned.of(owner), name, replicas))

    def _status(self, owner: Object, sets: list[Object], name: str, replicas: int) -> Object:
        def total(field: str, only: str = "") -> int:
            chosen = [obj for obj in sets if not only or obj["metadata"]["name"] == only]
            return sum(int((obj.get("status") or {}).get(field) or 0) for obj in chosen)

        ready, updated = total("readyReplicas"), total("replicas", name)
        done = updated >= replicas and total("availableReplicas", name) >= replicas and total("replicas") == updated
        conditions = [
            self._condition(owner, "Available", ready >= replicas, "MinimumReplicasAvailable"),
            self._condition(owner, "Progressing", True, "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"),
        ]
        return {
            "replicas": total("replicas"),
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": total("availableReplicas"),
            "unavailableReplicas": max(0, replicas - ready),
            "conditions": conditions,
        }

    def _condition(self, owner: Object, kind: str, status: bool, reason: str) -> Object:
        if kind == "Available" and not status:
            reason = "MinimumReplicasUnavailable"
        for old in (owner.get("status") or {}).get("conditions") or []:
            if (old["type"], old["status"], old.get("reason")) == (kind, str(status), reason):
                return dict(old)
        now = to_text(self.timers.clock())
        return {
            "type": kind,
            "status": str(status),
            "reason": reason,
            "message": "",
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }


def _replica_set(owner: Object, name: str, digest: str, replicas: int) -> Object:
    template = {**owner["spec"]["template"]}
    metadata = {**(template.get("metadata") or {})}
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
    template["metadata"] = metadata
    selector = owner["spec"].get("selector") or {}
    matching = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    return {
        "apiVersion": REPLICASETS.api_version,
        "kind": REPLICASETS.kind,
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": metadata["labels"],
            "ownerReferences": [reference(owner, DEPLOYMENTS)],
        },
        "spec": {"replicas": replicas, "selector": {**selector, "matchLabels": matching}, "template": template},
    }


def _ordinal(name: str) -> int:
    """The ordinal at the end of a pod's name; -1 for a pod that the StatefulSet owns and did not name."""
    number = whole_number(name.rpartition("-")[2])
    return -1 if number is None else number


class StatefulSetController(_PodOwner):
    """Pods `name-0`, `name-1` …, each with its own claims."""

    res = STATEFULSETS

    async def reconcile(self, key: str) -> None:
        """Make the next pods or delete the last ones, then write the counts."""
        owner = self._wanted(key)
        if owner is None:
            return
        replicas = int(owner["spec"].get("replicas", 1))
        pods = {pod["metadata"]["name"]: pod for pod in self._owned.of(owner)}
        wanted = [f"{owner['metadata']['name']}-{number}" for number in range(replicas)]
        for name in sorted(pods.keys() - set(wanted), key=_ordinal, reverse=True):
            if not is_deleting(pods[name]):
                await self._delete(pods[name])
        if not pods.keys() >= set(wanted) and not await still_wanted(self._port, self.res, owner):
            return
        ordered = owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        for number, name in enumerate(wanted):
            pod = pods.get(name)
            if pod is None:
                await self._make(owner, name, number)
            elif is_terminal(pod) and not is_deleting(pod):
                await self._delete(pod)
            if ordered and (pod is None or not is_ready(pod)):
                break
        present = [pod for pod in self._owned.of(owner) if is_active(pod)]
        ready = sum(is_ready(pod) for pod in present)
        counts = dict.fromkeys(("replicas", "currentReplicas", "updatedReplicas"), len(present))
        await self._write(key, owner, {**counts, "readyReplicas": ready, "availableReplicas": ready})

    async def _make(self, owner: Object, name: str, number: int) -> None:
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod = from_template(owner, self.res, labels, name)
        pod["spec"]["hostname"] = name
        if service := owner["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = service
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        for template in owner["spec"].get("volumeClaimTemplates") or []:
            claim = f"{template['metadata']['name']}-{name}"
            volumes[template["metadata"]["name"]] = {
                "name": template["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": claim},
            }
            await self._claim(owner, template, claim)
        if volumes:
            pod["spec"]["volumes"] = list(volumes.values())
        try:
            self._children.learn(await self._port.create(PODS, pod))
        except AlreadyExists:
            return  # the watch brings it, or it is another's

    async def _claim(self, owner: Object, template: Object, name: str) -> None:
        metadata = {**template["metadata"], "name": name, "namespace": owner["metadata"]["namespace"]}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
        try:
            await self._port.create(PVCS, body)
        except AlreadyExists:
            return
