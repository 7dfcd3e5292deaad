"""The limit a queue sets on how long its pods may run (`maxDuration`), and how it is enforced.

A pod over its time is ended through its highest owner that can be told to stop: a Deployment is scaled to 0, a Job
suspended, a training job paused. Only a pod without such an owner is deleted. Pods of DaemonSets and of system
priority are exempt.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Final

import structlog

from t9ksched.kube.errors import ApiError, Conflict, Forbidden, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS, Resource, by_kind
from t9ksched.model.names import BATCH_GROUP, EVENT_MAX_DURATION_EXCEEDED, PLATFORM_GROUP
from t9ksched.model.queue import QueueSpec
from t9ksched.scheduler.notices import Notices
from t9ksched.scheduler.records import GangRecord, PodRecord
from t9ksched.scheduler.state import ClusterState

log = structlog.get_logger(__name__)

_PAUSED: Final = {"spec": {"runMode": {"pause": {"enabled": True}}}}
STOPS: Final[dict[tuple[str, str], Any]] = {
    ("apps", "Deployment"): {"spec": {"replicas": 0}},
    ("apps", "StatefulSet"): {"spec": {"replicas": 0}},
    ("apps", "ReplicaSet"): {"spec": {"replicas": 0}},
    ("batch", "Job"): {"spec": {"suspend": True}},
    (BATCH_GROUP, "MPIJob"): _PAUSED,
    (BATCH_GROUP, "ColossalAIJob"): _PAUSED,
    (BATCH_GROUP, "DeepSpeedJob"): _PAUSED,
    (BATCH_GROUP, "GenericJob"): _PAUSED,
    (BATCH_GROUP, "PyTorchTrainingJob"): _PAUSED,
    (BATCH_GROUP, "TensorFlowTrainingJob"): _PAUSED,
    (BATCH_GROUP, "XGBoostTrainingJob"): _PAUSED,
    (PLATFORM_GROUP, "Notebook"): {"spec": {"suspend": True}},
    (PLATFORM_GROUP, "TensorBoard"): {"spec": {"suspend": True}},
    (PLATFORM_GROUP, "MLService"): {"spec": {"runMode": "paused"}},
    (PLATFORM_GROUP, "SimpleMLService"): {"spec": {"replicas": 0}},
}
"""By group and kind: the merge patch that makes its pods go away and stay away."""
_DEEPEST: Final = 8
_GANGS_A_SLICE: Final = 500
_LOOK_NS: Final = 200_000
"""Nanoseconds between two looks at a group for each group there is: ten seconds at 50,000, a look a second at 5,000."""


def deadline(pod: PodRecord, spec: QueueSpec) -> int | None:
    """When the pod's time is over, in nanoseconds since the epoch; None without a limit, or before it counts."""
    length = spec.duration
    since = pod.created if spec.max_duration_from == "Creation" else pod.started
    exempt = pod.system or (pod.owner is not None and pod.owner.kind == "DaemonSet")
    return None if length is None or exempt or not since else since + _nanoseconds(length)


class DurationKeeper:
    """Ends what runs too long; called by housekeeping."""

    def __init__(self, client: ClusterPort, state: ClusterState, notices: Notices, clock: Callable[[], int]) -> None:
        self._client = client
        self._state = state
        self._notices = notices
        self._clock = clock
        self._next = 0

    def overdue(self, gangs: Iterable[GangRecord]) -> Iterator[tuple[PodRecord, str]]:
        """Pods of these groups over their queue's limit, each with the limit as written."""
        now = self._clock()
        limits = {name: queue.spec for name, queue in self._state.queues.items() if queue.spec.duration is not None}
        if not limits:
            return
        for gang in gangs:
            spec = limits.get(gang.queue)
            if spec is None:
                continue
            for pod in gang.members.values():
                end = deadline(pod, spec)
                if end is not None and now > end and not (pod.finished or pod.deleting):
                    yield pod, spec.max_duration

    async def sweep(self) -> int:
        """End every overdue pod; how many objects were told to stop. Looks less often where there are many groups."""
        now = self._clock()
        if now < self._next:
            return 0
        gangs = list(self._state.gangs.values())
        self._next = now + len(gangs) * _LOOK_NS
        found: list[tuple[PodRecord, str]] = []
        for start in range(0, len(gangs), _GANGS_A_SLICE):
            found += self.overdue(gangs[start : start + _GANGS_A_SLICE])
            await asyncio.sleep(0)
        return await self._end(found)

    async def _end(self, overdue: list[tuple[PodRecord, str]]) -> int:
        told: set[str] = set()
        for pod, limit in overdue:
            try:
                resource, target = await self._highest(pod)
                uid = target["metadata"]["uid"]
                if uid in told:
                    continue
                told.add(uid)
                await self._stop(resource, target)
            except (NotFound, Conflict):
                continue  # gone already, or changed: the next sweep looks again
            except ApiError as error:
                log.warning("pod over its time not ended, trying again", pod=pod.key, error=str(error))
                continue
            message = f"pod {pod.name} ran longer than its queue's maxDuration of {limit}"
            self._notices.event(target, EVENT_MAX_DURATION_EXCEEDED, message, warning=True)
            log.info("over maxDuration", pod=pod.key, limit=limit, stopped=target["kind"])
        return len(told)

    async def _stop(self, resource: Resource, target: Object) -> None:
        meta = target["metadata"]
        if resource is PODS:
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
            return
        patch = STOPS[resource.group, resource.kind]
        await self._client.patch(resource, meta["name"], meta["namespace"], {"metadata": {"uid": meta["uid"]}} | patch)

    async def _highest(self, pod: PodRecord) -> tuple[Resource, Object]:
        """The highest owner that can be told to stop, else the pod itself."""
        best: tuple[Resource, Object] = (
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            },
        )
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
                break  # nothing that we may look at, so nothing that we may stop
            item.setdefault("apiVersion", owner["apiVersion"])
            item.setdefault("kind", owner["kind"])
            if (resource.group, resource.kind) in STOPS:
                best = resource, item
            references = item["metadata"].get("ownerReferences") or []
            owner = next((reference for reference in references if reference.get("controller")), None)
        return best


def _nanoseconds(length: timedelta) -> int:
    return int(length.total_seconds() * 1_000_000_000)
