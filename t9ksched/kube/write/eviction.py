"""Taking a running pod off its node for a reason that its owner can read.

The pod first gets the condition DisruptionTarget, as evictions of Kubernetes do, so that Jobs and people can tell it
from a failure; then it is deleted with its UID as precondition, so that a successor of its name is never hit. The
condition is a courtesy: a server that refuses it does not save the pod. The outcome is a frozen value.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from t9ksched.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS

_CONDITION = "DisruptionTarget"
PREEMPTION = "PreemptionByScheduler"
"""The reason of an eviction whose room is for others."""
OTHERS = frozenset({"", "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet"})
"""Reasons with which parts of Kubernetes evict a pod; a pod with any other reason was evicted by a scheduler."""
_CONDITION_ATTEMPTS = 3


class Victim(msgspec.Struct, frozen=True):
    """The very pod to evict."""

    namespace: str
    name: str
    uid: str


class Disruption(msgspec.Struct, frozen=True):
    """Why a pod is being evicted, and since when."""

    message: str
    at: datetime


class Evicted(msgspec.Struct, frozen=True):
    """The deletion is accepted; the pod ends within its grace period."""


class AlreadyGone(msgspec.Struct, frozen=True):
    """The pod was deleted before; a pod of its name, if there is one, is another."""


class NotEvicted(msgspec.Struct, frozen=True):
    """The server refuses; the pod runs on."""

    status: int
    message: str


class TryLater(msgspec.Struct, frozen=True):
    """It was not done, or may have been: asking again is harmless. `retry_after` in seconds if the server named it."""

    retry_after: float | None
    message: str


Result = Evicted | AlreadyGone | NotEvicted | TryLater


async def evict(
    port: ClusterPort,
    victim: Victim,
    *,
    message: str,
    now: datetime,
    reason: str = PREEMPTION,
    grace: int | None = None,
    most_grace: int | None = None,
) -> Result:
    """Mark `victim` and delete it; `grace` in seconds, None for the pod's own, at most `most_grace`.

    Raises nothing of the API.
    """
    try:
        found = await _mark(port, victim, reason, message, now)
        if found is None:
            return AlreadyGone()
        own = found.get("spec", {}).get("terminationGracePeriodSeconds", 30) if grace is None else grace
        if most_grace is not None and own > most_grace:
            grace = most_grace
        await port.delete(PODS, victim.name, victim.namespace, uid=victim.uid, grace=grace)
        return Evicted()
    except NotFound:
        return AlreadyGone()
    except Conflict:  # the only precondition is the UID
        return AlreadyGone()
    except ApiError as error:
        if error.unknown or isinstance(error, TooManyRequests | ServerError | Unreachable):
            return TryLater(error.retry_after, str(error))
        return NotEvicted(error.status, str(error))


def disruption_of(pod: Object) -> Disruption | None:
    """What the condition of a pod says of its eviction for others; None if it has none."""
    for item in pod.get("status", {}).get("conditions") or ():
        if (item.get("type"), item.get("status"), item.get("reason")) == (_CONDITION, "True", PREEMPTION):
            return Disruption(item.get("message") or "", datetime.fromisoformat(item["lastTransitionTime"]))
    return None


async def _mark(port: ClusterPort, victim: Victim, reason: str, message: str, now: datetime) -> Object | None:
    """Set the condition; the pod as read, None when it is no more. Raises ApiError only from reading the pod."""
    pod: Object = {}
    for _ in range(_CONDITION_ATTEMPTS):
        pod = await port.get(PODS, victim.name, victim.namespace)
        metadata = pod["metadata"]
        if metadata.get("uid") != victim.uid:
            return None
        if metadata.get("deletionTimestamp") or _marked(pod):
            return pod
        status = {"conditions": [*_others(pod), _condition(reason, message, now)]}
        # The whole list with the version it was read at: a merge patch replaces lists, and no other writer's condition
        # is lost.
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        try:
            await port.patch(PODS, victim.name, victim.namespace, patch, subresource="status")
        except Conflict:
            continue
        except NotFound:
            return None
        except ApiError:
            return pod
        return pod
    return pod


def _others(pod: Object) -> list[Object]:
    return [item for item in pod.get("status", {}).get("conditions") or () if item.get("type") != _CONDITION]


def _marked(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item.get("type") == _CONDITION and item.get("status") == "True" for item in conditions)


def _condition(reason: str, message: str, now: datetime) -> Object:
    return {
        "type": _CONDITION,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
