"""Ends a job through its owner: the topmost object above a pod that can be stopped.

A Deployment is scaled to 0 through its subresource, which can write nothing else of it, a Job suspended, a training job
paused; what has no such owner is deleted, with a grace period of its own that is not longer than the policy allows.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from t9ksched.kube.errors import ApiError, Forbidden
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS, by_kind
from t9ksched.kube.write.eviction import NotEvicted, TryLater, Victim, evict
from t9ksched.model.api_resource import Resource
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.workloads.registry import KINDS, STOPS

_DEEPEST: Final = 8


class Stopper:
    """Tells owners to stop. `clock` gives nanoseconds since the epoch; `most_grace` the longest time, in seconds, that
    a deleted pod gets to end.
    """

    def __init__(self, client: ClusterPort, clock: Callable[[], int], most_grace: Callable[[], int]) -> None:
        self._client = client
        self._clock = clock
        self._most_grace = most_grace

    async def stop(self, resource: Resource, target: Object, reason: str, message: str) -> None:
        """Stop an object that `highest` found; a pod is deleted, and its condition says why.

        Raises:
            ApiError: it was not done, or the result is unknown; repeating it is harmless.
        """
        meta = target["metadata"]
        if resource is PODS:
            victim = Victim(meta["namespace"], meta["name"], meta["uid"])
            now = datetime.fromtimestamp(self._clock() / 1e9, UTC)
            most = self._most_grace()
            result = await evict(self._client, victim, message=message, now=now, reason=reason, most_grace=most)
            if isinstance(result, NotEvicted | TryLater):
                raise ApiError(getattr(result, "status", 0), "NotEvicted", result.message)
            return
        stop = STOPS[resource.group, resource.kind]
        patch = {"metadata": {"uid": meta["uid"]}, **stop.patch}
        await self._client.patch(resource, meta["name"], meta["namespace"], patch, subresource=stop.subresource)

    async def annotation(self, pod: PodRecord, key: str) -> str:
        """An annotation of the object that would be told to stop for a pod, else of that pod as its template has it;
        empty if the pod itself would be deleted.

        Raises:
            ApiError: one of them could not be read.
        """
        resource, target = await self.highest(pod)
        if resource is PODS:
            return ""
        own = (target["metadata"].get("annotations") or {}).get(key)
        if own is None:
            item = await self._client.get(PODS, pod.name, pod.namespace)
            own = (item["metadata"].get("annotations") or {}).get(key)
        return str(own or "")

    async def highest(self, pod: PodRecord) -> tuple[Resource, Object]:
        """The highest owner that can be told to stop, else the pod itself.

        Raises:
            ApiError: an owner could not be read.
        """
        alone: tuple[Resource, Object] = (
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            },
        )
        best = alone
        owner = pod.owner and {"apiVersion": pod.owner.api_version, "kind": pod.owner.kind, "name": pod.owner.name}
        for _ in range(_DEEPEST):
            if not owner:
                break
            try:
                resource = by_kind(owner["apiVersion"], owner["kind"])
            except KeyError:
                break
            try:
                item = await self._client.get(resource, owner["name"], pod.namespace)
            except Forbidden:
                break  # the scheduler may not read this kind, so it may not stop it either
            item.setdefault("apiVersion", owner["apiVersion"])
            item.setdefault("kind", owner["kind"])
            if (resource.group, resource.kind) in STOPS:
                best = resource, item
            elif resource.kind in KINDS and KINDS[resource.kind].foreign is not None:
                best = alone  # what is below it would be put right by its controller
            references = item["metadata"].get("ownerReferences") or []
            owner = next((reference for reference in references if reference.get("controller")), None)
        return best
