"""The steps of a binding to a node of HAMi: lock, bind, answer.

The lock is the node's annotation `hami.io/mutex.lock`, `TIME,NAMESPACE,POD`. It is taken with the node's
resourceVersion as precondition, so of two schedulers one gets it. The device plugin finds the pod by it, gives its
containers their cards, writes `hami.io/bind-phase: success` or `failed` on the pod and takes the lock away. A lock may
be replaced when it is older than five minutes, when its pod is gone, or when nothing can release it any more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from t9ksched.kube.errors import Conflict, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import NODES, PODS
from t9ksched.kube.write.binding import AgentAnswer, Binding, Busy, Outcome, Protocol, Refusal, Refused, post
from t9ksched.model.names import SCHEDULER_NAME

LOCK: Final = "hami.io/mutex.lock"
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"
VGPU_TIME: Final = "hami.io/vgpu-time"
ALLOCATING: Final = "allocating"
FAILED: Final = "failed"
LOCK_SECONDS: Final = 300.0
"""A lock that is older may be replaced by anyone."""
_ATTEMPTS: Final = 5
_ENDED: Final = ("Succeeded", "Failed")
_SHOWN: Final = 200


class Lock(msgspec.Struct, frozen=True):
    """Who holds a node: the text of the annotation in its parts; `namespace` and `pod` are empty in older texts."""

    since: float
    namespace: str = ""
    pod: str = ""

    @staticmethod
    def read(text: str) -> "Lock | None":
        """None for a text that no device plugin can read, and so none can release."""
        at, *names = text.split(",")
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            return None
        if len(names) not in (0, 2) or moment.tzinfo is None:
            return None
        return Lock(moment.timestamp(), *names)

    def expired(self, now: float) -> bool:
        """Whether it is too old, or from a clock that is far off; `now` in seconds since the epoch."""
        return abs(now - self.since) > LOCK_SECONDS

    def of(self, binding: Binding) -> bool:
        """Whether it is this pod's."""
        return (self.namespace, self.pod) == (binding.namespace, binding.name)


@dataclass(frozen=True)
class NodeLock(Protocol):
    """`clock` gives seconds since the epoch."""

    clock: Callable[[], float] = time.time
    name = "hami"

    async def prepare(self, port: ClusterPort, binding: Binding) -> Outcome | None:
        """Take the lock; Busy while another pod has it."""
        for _ in range(_ATTEMPTS):
            try:
                node = await port.get(NODES, binding.node)
            except NotFound:
                return Refused(Refusal(404, "NodeGone", f"node {binding.node} does not exist any more"))
            text = _notes(node).get(LOCK)
            if text is not None and (message := await self._held(port, binding, text)):
                return Busy(message)
            now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            try:
                await _write(port, node, f"{now},{binding.namespace},{binding.name}")
            except Conflict:
                continue  # the node changed: perhaps another has the lock now
            return None
        return Busy(f"node {binding.node} changes all the time")

    async def _held(self, port: ClusterPort, binding: Binding, text: str) -> str:
        """Who has the node; empty if this pod may take it."""
        lock = Lock.read(text)
        if lock is None or lock.of(binding) or lock.expired(self.clock()):
            return ""
        message = f"node {binding.node} is locked: {LOCK} is {text[:_SHOWN]!r}"
        if not lock.pod:
            return message
        try:
            pod = await port.get(PODS, lock.pod, lock.namespace)
        except NotFound:
            return ""
        return "" if _released(pod, binding.node) else message

    async def bind(self, port: ClusterPort, binding: Binding, *, sent: bool = False) -> Outcome:
        """Bind it, with the moment and the phase by which the device plugin knows it."""
        seconds = str(int(self.clock()))
        phase = {VGPU_TIME: seconds, BIND_TIME: seconds, BIND_PHASE: ALLOCATING}
        return await post(port, msgspec.structs.replace(binding, once={**binding.once, **phase}), sent=sent)

    async def confirm(self, port: ClusterPort, binding: Binding) -> AgentAnswer:
        try:
            pod = await port.get(PODS, binding.name, binding.namespace)
        except NotFound:
            return AgentAnswer.OVER
        status = pod.get("status") or {}
        if pod["metadata"].get("uid") != binding.uid or status.get("phase") in _ENDED:
            return AgentAnswer.OVER
        phase = _notes(pod).get(BIND_PHASE)
        if phase == ALLOCATING:
            # No pod runs before its containers have their cards: then a user wrote that.
            return AgentAnswer.GIVEN if status.get("phase") == "Running" else AgentAnswer.PENDING
        return AgentAnswer.FAILED if phase == FAILED else AgentAnswer.GIVEN

    async def undo(self, port: ClusterPort, binding: Binding) -> None:
        """Take the lock away if it is this pod's."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                node = await port.get(NODES, binding.node)
                lock = Lock.read(_notes(node).get(LOCK, ""))
                if lock is not None and lock.of(binding):
                    await _write(port, node, None)
            except NotFound:
                pass
            except Conflict:
                if attempt < _ATTEMPTS:
                    continue
                raise
            return


def _notes(item: Object) -> dict[str, Any]:
    return item["metadata"].get("annotations") or {}


async def _write(port: ClusterPort, node: Object, lock: str | None) -> None:
    metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {LOCK: lock}}
    await port.patch(NODES, node["metadata"]["name"], None, {"metadata": metadata})


def _released(pod: Object, node: str) -> bool:
    """Whether the pod of a lock needs it no more. A lock of ours for a pod that is not bound there was left behind by
    a scheduler that is gone: bindings to one node follow one another.
    """
    spec = pod.get("spec") or {}
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return True
    return spec.get("schedulerName") == SCHEDULER_NAME and spec.get("nodeName") != node
